"""A write-back cache between handles and a sorted store.

What is read stays, what is written waits: the store gets it as one batch at a checkpoint, or when the cache is full. So
a value that changes often is written once, and 10,000 elements that are added to one list are one write. The cache has
a size in bytes, which all tables of a backend share; when it is full, all of it is written and forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..rocksdb.database import Items
    from .sorted_store import SortedTable

_ENTRY_BYTES = 200  # two objects and their places in a dict and a set
_UNKNOWN = object()


class WriteCache:
    """The part of a cache that its tables share.

    Args:
        size_bytes: The size of the cache.

    Attributes:
        left: The number of bytes that are free.
    """

    __slots__ = ("_size", "_tables", "left")

    def __init__(self, size_bytes: int) -> None:
        self._size = self.left = size_bytes
        self._tables: list[CachedTable] = []

    def table(self, table: SortedTable) -> CachedTable:
        """Return a table behind this cache."""
        cached = CachedTable(table, self)
        self._tables.append(cached)
        return cached

    def flush(self) -> None:
        """Write all changes to the store."""
        for table in self._tables:
            table.flush()

    def empty(self) -> None:
        """Write all changes to the store, and forget everything."""
        for table in self._tables:
            table.flush()
            table.forget()
        self.left = self._size


class CachedTable:
    """A table behind the cache. A value that grows is held as a `bytearray`."""

    __slots__ = ("_cache", "_changed", "_known", "_table")

    def __init__(self, table: SortedTable, cache: WriteCache) -> None:
        self._table, self._cache = table, cache
        self._known: dict[bytes, bytes | bytearray | None] = {}
        self._changed: set[bytes] = set()

    def get(self, key: bytes) -> bytes | bytearray | None:
        """Return the value of a key, which must not be changed; None where it has none."""
        found = self._known.get(key, _UNKNOWN)
        if found is not _UNKNOWN:
            return found  # type: ignore[return-value]  # not the marker
        value = self._table.get(key)
        self._keep(key, value)
        return value

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of a key; None removes it."""
        self._changed.add(key)
        self._keep(key, value)

    def append(self, key: bytes, separator: bytes, data: bytes) -> int:
        """Append to the value of a key, with a separator if it has one; return the new size in bytes."""
        value = self.get(key)
        if type(value) is bytearray:
            grown, cost = value, len(data)
        else:
            grown = bytearray(value or b"")
            cost = len(key) + len(grown) + len(data) + _ENTRY_BYTES
        if value is not None:
            grown += separator
        grown += data
        self._known[key] = grown
        self._changed.add(key)
        self._spend(cost)
        return len(grown)

    def items(self, start: bytes, stop: bytes) -> Iterator[Items]:
        """Yield the entries from `start` to before `stop` in order, after writing what has changed."""
        self.flush()
        return self._table.items(start, stop)

    def flush(self) -> None:
        """Write all changes to the store."""
        if self._changed:
            known = self._known
            self._table.write({key: None if (value := known[key]) is None else bytes(value) for key in self._changed})
            self._changed.clear()

    def forget(self) -> None:
        """Drop everything; changes must have been written."""
        self._known.clear()

    def _keep(self, key: bytes, value: bytes | None) -> None:
        self._known[key] = value
        self._spend(len(key) + _ENTRY_BYTES + (0 if value is None else len(value)))

    def _spend(self, size: int) -> None:
        cache = self._cache
        cache.left -= size
        if cache.left < 0:
            cache.empty()
