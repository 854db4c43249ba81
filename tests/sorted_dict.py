"""A third backend: a sorted store in a dict, as a user may write one."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Table = dict[bytes, bytes]


class DictTable:
    """A table that is sorted when it is read."""

    def __init__(self, entries: Table) -> None:
        self.entries = entries
        self.get = entries.get

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        for key, value in changes.items():
            self.entries.pop(key, None) if value is None else self.entries.__setitem__(key, value)

    def items(self, start: bytes | None, stop: bytes | None) -> Iterator[tuple[tuple[bytes, ...], tuple[bytes, ...]]]:
        keys = sorted(self.entries)
        keys = keys[bisect_left(keys, start or b"") : None if stop is None else bisect_left(keys, stop)]
        if keys:
            yield tuple(keys), tuple(self.entries[key] for key in keys)


class DictStore:
    """Tables in a dict; a frozen one is a copy."""

    def __init__(self, tables: dict[str, DictTable] | None = None) -> None:
        self._tables = tables or {}

    @property
    def families(self) -> frozenset[str]:
        return frozenset(self._tables)

    def table(self, name: str) -> DictTable:
        return self._tables.setdefault(name, DictTable({}))

    def drop(self, name: str) -> bool:
        return self._tables.pop(name) is not None

    def items(
        self, family: str, start: bytes | None = None, stop: bytes | None = None
    ) -> Iterator[tuple[tuple[bytes, ...], tuple[bytes, ...]]]:
        return self._tables[family].items(start, stop)

    def freeze(self) -> DictStore:
        return DictStore({name: DictTable(dict(table.entries)) for name, table in self._tables.items()})

    def release(self) -> None:
        self._tables.clear()

    close = release
