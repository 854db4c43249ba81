"""The contract of a sorted store: tables of bytes, from which `SortedStateBackend` makes a whole backend.

A store knows no types, keys or states. A third backend is a class of about thirty lines: get, write, a range in order,
and a view that stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ...formats.flink.database_stream import SortedFamilies

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...rocksdb.database import Items


class SortedTable(Protocol):
    """A table of a store: the entries of one state."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key; None where it has none."""
        ...

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Set the values of some keys; None removes a key, which may be missing."""
        ...

    def items(self, start: bytes, stop: bytes) -> Iterator[Items]:
        """Yield the entries from `start` to before `stop` in the order of their keys, some at a time.

        The keys and the values of one step have the same number. What is written meanwhile may be seen or not.
        """
        ...


class SortedView(SortedFamilies, Protocol):
    """All tables of a store as they were at one moment; it may be read by another thread."""

    def release(self) -> None:
        """Drop what was kept for this view; calling it twice is harmless."""
        ...


class SortedStore(Protocol):
    """Tables that are found by name."""

    def table(self, name: str) -> SortedTable:
        """Return a table, which is created where it is missing."""
        ...

    def drop(self, name: str) -> bool:
        """Remove an empty table; return False where that cannot be done now, because it may still be read."""
        ...

    def freeze(self) -> SortedView:
        """Return all tables as they are now. It must be short."""
        ...

    def close(self) -> None:
        """Free memory and files; the store cannot be used afterwards."""
        ...


def prefix_end(prefix: bytes) -> bytes:
    """Return the least key after all keys that begin with `prefix`, which is not empty and not all 0xFF."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1])
