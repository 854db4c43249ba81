"""A database that is read where it lies, by ranges of its files: for a few keys, and without RocksDB.

The MANIFEST says which files may have a key; of these the footer, the index, the range deletions and the blocks with
the key are read. An entry counts if no newer one of its key, and no newer deletion of a range, is in another file.
"""

from __future__ import annotations

from heapq import merge
from itertools import groupby
from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import UnsupportedFormat, located
from .database import require_same_families
from .options_file import DEFAULT_FAMILY
from .ranges import families_of_tables
from .table_reader import MERGE, VALUE, open_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from .database import Items
    from .manifest import Manifest, TableFile
    from .options_file import Family, StoredOptions
    from .table_blocks import TableBytes
    from .table_reader import Table

_Entry = tuple[bytes, int, int, bytes]
"""A key, the negative sequence number of an entry, its type, and its value."""
_Deletion = tuple[bytes, bytes, int]
_MOST_ITEMS = 256


@attrs.define(eq=False)
class StoredTables:
    """A database, as `DatabaseStreamReader` reads one. Created with `of`.

    Attributes:
        families: The names of the tables, without `default`.
    """

    families: frozenset[str]
    _tables: Mapping[str, tuple[str, ...]]
    _settings: Mapping[str, Family]
    _files: Mapping[str, tuple[TableFile, ...]]
    _open: Callable[[str], TableBytes]
    _opened: dict[str, Table] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, manifest: Manifest, options: StoredOptions, open_file: Callable[[str], TableBytes]) -> StoredTables:
        """Return a database whose MANIFEST and OPTIONS are read.

        Args:
            manifest: What the MANIFEST says.
            options: What the OPTIONS file says.
            open_file: Opens a file with entries by its name.

        Raises:
            CorruptSavepoint: The two are not of one database.
        """
        settings = {family.name: family for family in options.families}
        require_same_families(manifest.families.keys(), settings.keys())
        tables = families_of_tables(settings)
        return cls(frozenset(tables) - {DEFAULT_FAMILY}, tables, settings, manifest.families, open_file)

    def items(self, family: str, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Items]:
        """Yield the entries of a table, as `SortedFamilies` has them.

        Raises:
            CorruptSavepoint: A file is damaged.
            UnsupportedFormat: A file has something that only RocksDB reads.
        """
        for part in self._tables[family]:
            with located(state=part):
                yield from self._items(part, start, stop)

    def _items(self, part: str, start: bytes | None, stop: bytes | None) -> Iterator[Items]:
        tables = [self._table(file) for file in self._files[part] if file.reaches(start, stop)]
        deletions = [one for table in tables for one in table.range_deletions()]
        entries = merge(*(_entries(table, start, stop) for table in tables))
        keys, values = list[bytes](), list[bytes]()
        for key, versions in groupby(entries, lambda entry: entry[0]):
            covering = [sequence for first, after, sequence in deletions if first <= key < after]
            value = _value(versions, max(covering, default=-1), self._settings[part])
            if value is not None:
                keys.append(key)
                values.append(value)
            if len(keys) == _MOST_ITEMS:
                yield tuple(keys), tuple(values)
                keys, values = [], []
        if keys:
            yield tuple(keys), tuple(values)

    def _table(self, file: TableFile) -> Table:
        if file.name not in self._opened:
            self._opened[file.name] = open_table(self._open(file.name), file)
        return self._opened[file.name]


def _entries(table: Table, start: bytes | None, stop: bytes | None) -> Iterator[_Entry]:
    for records in table.blocks(start, stop):
        for key, sequence, kind, value in records.items():
            yield key, -sequence, kind, value


def _value(versions: Iterable[_Entry], deleted: int, family: Family) -> bytes | None:
    """Return the value of a key; None: it is deleted.

    Args:
        versions: Its entries, the newest first.
        deleted: The sequence number of the newest deletion of a range with the key.
        family: The settings of its column family.
    """
    parts, before = list[bytes](), 1
    for _, negative, kind, value in versions:
        if negative == before:
            raise UnsupportedFormat("two entries of a key have one sequence number, whose order only RocksDB knows")
        before = negative
        if -negative < deleted or kind not in {VALUE, MERGE}:
            break
        parts.append(value)
        if kind == VALUE:
            break
        if not family.appends:
            raise UnsupportedFormat("there is an entry to be merged, and the column family has no merge operator")
    return family.delimiter.encode().join(reversed(parts)) if parts else None
