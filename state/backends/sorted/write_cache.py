"""A write-back cache between handles and a sorted store.

What is written waits: the store gets it as one batch at a checkpoint, or when the cache is full. So a value that
changes often is written once, and 10,000 elements that are added to one list are one write. The last batch stays to be
read. The cache has a size in bytes, which all tables share: half for what waits, half for the last batch.

A store is tables of bytes, from which `SortedStateBackend` makes a whole backend; it knows no types, keys or states. A
third backend is a class of about thirty lines: get, write, a range in order, and a view that stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ....serializers.limits import MAX_VALUE_BYTES, require_room
from ....serializers.views import SEPARATOR
from ...formats.flink.database_stream import SortedFamilies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ...rocksdb.database import Items


class SortedTable(Protocol):
    """A table of a store: the entries of one state."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key; None where it has none."""

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Set the values of some keys; None removes a key, which may be missing."""

    def items(self, start: bytes, stop: bytes) -> Iterator[Items]:
        """Yield the entries from `start` to before `stop` in the order of their keys, some at a time.

        The keys and the values of one step have the same number. What is written meanwhile may be seen or not.
        """


class SortedView(SortedFamilies, Protocol):
    """All tables of a store as they were at one moment; it may be read by another thread."""

    def release(self) -> None:
        """Drop what was kept for this view; calling it twice is harmless."""


class SortedStore(Protocol):
    """Tables that are found by name."""

    def table(self, name: str) -> SortedTable:
        """Return a table, which is created where it is missing."""

    def drop(self, name: str) -> bool:
        """Remove an empty table; return False where that cannot be done now, because it may still be read."""

    def freeze(self) -> SortedView:
        """Return all tables as they are now. It must be short."""

    def close(self) -> None:
        """Free memory and files; the store cannot be used afterwards."""


_ENTRY_BYTES = 200  # two objects and their places in a dict and a set
_UNKNOWN = object()


class WriteCache:
    """The part of a cache that its tables share.

    Args:
        size_bytes: The size of the cache.

    Attributes:
        left: The number of bytes that may still wait.
    """

    __slots__ = ("_most", "_tables", "left")

    def __init__(self, size_bytes: int) -> None:
        self._most = self.left = size_bytes // 2
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
        self.left = self._most


class CachedTable:
    """A table behind the cache. A list that grows is held as a `bytearray`.

    Attributes:
        held_at: The key of the last change, if its value is `held`, too; else None.
        held: That value as an object, which a handle has put there.
        owed: Encodes it, if it has changed since it was put: to as many bytes as it had then, so the cache does not
            grow. Else None.
    """

    __slots__ = ("_cache", "_changed", "_table", "_written", "held", "held_at", "owed")

    def __init__(self, table: SortedTable, cache: WriteCache) -> None:
        self._table, self._cache = table, cache
        self.held_at: bytes | None = None
        self.held: Any = None
        self.owed: Callable[[Any], bytes] | None = None
        self._changed: dict[bytes, bytes | bytearray | None] = {}
        self._written: dict[bytes, bytes | bytearray | None] = {}

    def get(self, key: bytes) -> bytes | bytearray | None:
        """Return the value of a key, which must not be changed; None where it has none."""
        if self.owed is not None:
            self._let_go()
        found = self._changed.get(key, _UNKNOWN)
        if found is _UNKNOWN:
            found = self._written.get(key, _UNKNOWN)
            if found is _UNKNOWN:
                return self._table.get(key)
        return found  # type: ignore[return-value]  # not the marker

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of a key; None removes it."""
        if self.held_at is not None:
            self._let_go()
        changed = self._changed
        before = changed.get(key)
        changed[key] = value
        size = 0 if value is None else len(value)
        if before is not None and len(before) == size:
            return
        cache = self._cache
        cache.left -= len(key) + size + _ENTRY_BYTES if before is None else size - len(before)
        if cache.left < 0:
            cache.flush()

    def append(self, key: bytes, data: bytes) -> None:
        """Append to the elements of a key.

        Raises:
            ValueNotConvertible: All elements together are too large for an entry.
        """
        if self.held_at is not None:
            self._let_go()
        value = self._changed.get(key)
        if value is None:
            value = self.get(key)
        if type(value) is bytearray:
            grown, cost = value, len(data)
        else:
            grown = bytearray(value or b"")
            cost = len(key) + len(grown) + len(data) + _ENTRY_BYTES
        if len(grown) + len(data) >= MAX_VALUE_BYTES:
            require_room(len(grown) + len(SEPARATOR) + len(data))
        if value is not None:
            grown += SEPARATOR
        grown += data
        self._changed[key] = grown
        cache = self._cache
        cache.left -= cost
        if cache.left < 0:
            cache.flush()

    def items(self, start: bytes, stop: bytes) -> Iterator[Items]:
        """Yield the entries from `start` to before `stop` in order, after writing what has changed."""
        self.flush()
        return self._table.items(start, stop)

    def flush(self) -> None:
        """Write all changes to the store; lists that grow go on growing where they are."""
        self._let_go()
        changed = self._changed
        if changed:
            self._table.write({key: None if value is None else bytes(value) for key, value in changed.items()})
            self._written, self._changed = changed, {}

    def _let_go(self) -> None:
        """Hold no value; put the bytes of one that has changed."""
        if self.owed is not None and self.held_at is not None:
            self._changed[self.held_at] = self.owed(self.held)
        self.held_at = self.owed = None
