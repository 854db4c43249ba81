"""The backends that the tests of live state run on: each is a function of key, max parallelism and key groups."""

from contextlib import ExitStack

import pytest
from sorted_dict import DictStore

from stateshift import EmbeddedRocksDBStateBackend, HashMapStateBackend
from stateshift.state.backends.sorted.backend import SortedStateBackend

_live = ExitStack()


@pytest.fixture(autouse=True)
def _closed_backends():
    """Databases of `BACKENDS` are closed after the test that made them."""
    yield
    _live.close()


def rocksdb(*args, **options):
    """RocksDB, which the test need not close."""
    made = EmbeddedRocksDBStateBackend(*args, **options)
    _live.callback(made.dispose)
    return made


def sorted_dict(key, max_parallelism, key_groups):
    """The third backend, over a store of thirty lines, with a cache that is soon full."""
    return SortedStateBackend(DictStore(), key, max_parallelism, key_groups, cache_bytes=1000, held_timers=2)


BACKENDS = {"hashmap": HashMapStateBackend, "rocksdb": rocksdb, "sorted dict": sorted_dict}
