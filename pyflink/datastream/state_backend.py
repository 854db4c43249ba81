"""State backends."""

from ...state.backends.heap.backend import HashMapStateBackend
from ...state.backends.rocksdb.backend import EmbeddedRocksDBStateBackend

__all__ = ["EmbeddedRocksDBStateBackend", "HashMapStateBackend"]
