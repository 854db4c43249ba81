"""The backends that the tests of live state run on: each is a function of key, max parallelism and key groups."""

from sorted_dict import DictStore

from stateshift import EmbeddedRocksDBStateBackend, HashMapStateBackend
from stateshift.state.backends.sorted.backend import SortedStateBackend


def sorted_dict(key, max_parallelism, key_groups):
    """The third backend, over a store of thirty lines, with a cache that is soon full."""
    return SortedStateBackend(DictStore(), key, max_parallelism, key_groups, cache_bytes=1000, held_timers=2)


BACKENDS = {"hashmap": HashMapStateBackend, "rocksdb": EmbeddedRocksDBStateBackend, "sorted dict": sorted_dict}
