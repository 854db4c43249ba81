"""The backends that the tests of live state run on: each is a function of key, max parallelism and key groups."""

from contextlib import ExitStack

from sorted_dict import DictStore

from stateshift import EmbeddedRocksDBStateBackend, HashMapStateBackend
from stateshift.state.backends.sorted.backend import SortedStateBackend

live = ExitStack()
"""The databases of a test, which it need not close itself."""


def rocksdb(*args, **options):
    """RocksDB, which is closed after the test."""
    made = EmbeddedRocksDBStateBackend(*args, **options)
    live.callback(made.dispose)
    return made


def sorted_dict(key, max_parallelism, key_groups):
    """The third backend, over a store of thirty lines, with a cache that is soon full."""
    return SortedStateBackend(DictStore(), key, max_parallelism, key_groups, cache_bytes=1000, held_timers=2)


BACKENDS = {"hashmap": HashMapStateBackend, "rocksdb": rocksdb, "sorted dict": sorted_dict}
