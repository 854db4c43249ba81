"""A sorted store in RocksDB, with nothing in a write-ahead log: what is lost with a process comes from a checkpoint.

A state is a column family of its name. RocksDB merges the files of a family as a whole: now and then a checkpoint would
have everything in it again. So a store may divide large states by key groups, into parts that seldom merge together.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ....serializers.errors import DeclarationError
from ...rocksdb.database import open_live, reported_writing, require_library
from ...rocksdb.options_file import DEFAULT_FAMILY
from ...rocksdb.ranges import families_of_tables, family_of, key_groups_of, table_of
from .tables import ColumnFamily, RocksDBTable, RocksDBView

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from ...formats.flink.blocks import Block
    from ...rocksdb.database import FileNames, Items
    from ...rocksdb.ranges import KeyRanges
    from .options import DatabaseOptions

_FILE_BYTES, _FEW_ENTRIES = 64 << 20, 256
"""Of the files that are loaded: their size, as RocksDB's own, and how many entries of a key group are worth one."""


class Loading:
    """Puts entries into a column family as files, which RocksDB takes as they are.

    Args:
        family: The column family.
        path: The path of the first file; a number is appended to it.
        options: The options of the column family, as those of a database.
    """

    def __init__(self, family: ColumnFamily, path: Path, options: Any) -> None:
        self._library, self._family, self._path, self._options = require_library(), family, path, options
        self._files: list[str] = []
        self._writer: Any = None
        self._size, self._last = 0, b""

    def add(self, block: Block) -> None:
        """Add entries; those that come after greater ones are written, because a file is in order."""
        if self._writer is None and block.entries < _FEW_ENTRIES:
            self._family.write(dict(block.items()))
            return
        writer, last, late = self._begun(), self._last, dict[bytes, bytes]()
        for key, value in block.items():
            if key > last:
                writer[key] = value
                last = key
            else:
                late[key] = value
        self._last = last
        if late:
            self._family.write(late)
        self._grown(block.size_bytes)

    def add_in_order(self, items: Items) -> None:
        """Add entries whose keys are in order, and greater than all before."""
        writer = self._begun()
        for key, value in zip(*items, strict=True):
            writer[key] = value
        self._grown(sum(map(len, items[0])) + sum(map(len, items[1])))

    def ingest(self) -> None:
        """Hand the files over to the database, which moves them."""
        if self._writer is not None:
            self._finish()
        if self._files:
            options = self._library.IngestExternalFileOptions()
            options.set_move_files(True)
            self._family.ingest(self._files, options)

    def _begun(self) -> Any:
        if self._writer is None:
            self._files.append(f"{self._path}-{len(self._files)}.sst")
            self._writer, self._size = self._library.SstFileWriter(self._options), 0
            self._writer.open(self._files[-1])
        return self._writer

    def _grown(self, size: int) -> None:
        self._size += size
        if self._size > _FILE_BYTES:
            self._finish()

    def _finish(self) -> None:
        self._writer.finish()
        self._writer = None


_READAHEAD_BYTES = 1 << 20
_LARGE_BYTES = 32 << 20
"""From which size on a state is divided: smaller ones would only be more files in each checkpoint."""
_AFTER_ALL_KEYS = b"\xff"
"""The first byte of a key is that of its key group, below 0x80."""


class RocksDBStore:
    """A database in a local folder. Created with `new` or `restored`.

    Args:
        database: The opened database.
        folder: Its folder.
        options: Makes the options of new column families.
        ranges: The key groups, and how large states are divided.
        families: The names of its column families, without `default`.
    """

    def __init__(
        self, database: Any, folder: Path, options: DatabaseOptions, ranges: KeyRanges, families: Collection[str] = ()
    ) -> None:
        self._library, self._database, self._options, self.folder = require_library(), database, options, folder
        self._ranges = ranges
        self._write_options = self._library.WriteOptions()
        self._write_options.disable_wal = True
        self._tables = {name: self._table(parts) for name, parts in families_of_tables(families).items()}
        self._views: list[RocksDBView] = []
        self._obsolete: list[ColumnFamily] = []

    @classmethod
    def new(cls, folder: Path, options: DatabaseOptions, ranges: KeyRanges) -> RocksDBStore:
        """Create an empty database in a folder that does not exist yet."""
        with reported_writing("create a database"):
            return cls(require_library().Rdict(str(folder), options=options.database()), folder, options, ranges)

    @classmethod
    def restored(
        cls, folder: Path, options: DatabaseOptions, ranges: KeyRanges, names: FileNames, sizes: Mapping[str, int]
    ) -> RocksDBStore:
        """Open a database whose files are in a folder, and remove the entries of other key groups.

        Arguments and errors as in `open_live`.
        """
        database, families = open_live(folder, names, sizes, options.apply)
        try:
            store = cls(database, folder, options, ranges, families)
            store._clip()
        except BaseException:
            database.close()
            raise
        return store

    def table(self, name: str) -> RocksDBTable:
        """Return the table of a state, which is created where it is missing."""
        if name == DEFAULT_FAMILY or key_groups_of(name) is not None:
            raise DeclarationError(
                f"a state cannot be named {name!r} with RocksDB, where a column family of that name is something else",
                advice="give the state another name",
                state=name,
            )
        if name not in self._tables:
            self._tables[name] = self._table([self._created(name)])
        return self._tables[name]

    @contextmanager
    def loading(self) -> Iterator[Callable[[str, Block], None]]:
        """Yield a function that puts blocks of new entries into the table of a name, which has all of them at the end.

        Many entries in order become files, which takes less time than to write them (`benchmarks.rocksdb_access`).
        """
        begun: dict[str, Loading] = {}
        with self._files_to_load() as folder:

            def add(name: str, block: Block) -> None:
                family = self._tables[name].family_at(self._ranges.start(block.key_group))
                if family.name not in begun:
                    begun[family.name] = self._loading(family, folder / str(len(begun)))
                begun[family.name].add(block)

            yield add
            for loading in begun.values():
                loading.ingest()

    def drop(self, name: str) -> bool:
        """Remove an empty table; return False where it may still be read: rocksdict's iterators do not outlive it."""
        if self._may_be_read(name):
            return False
        for family in self._tables.pop(name).families:
            self._drop(family)
        return True

    @property
    def families(self) -> frozenset[str]:
        """The names of the states."""
        return frozenset(self._tables)

    def freeze(self) -> RocksDBView:
        """Return all tables as they are now."""
        options = self._library.ReadOptions()
        options.fill_cache(v=False)
        options.set_total_order_seek(True)
        options.set_readahead_size(_READAHEAD_BYTES)
        families = {name: [family.name for family in table.families] for name, table in self._tables.items()}
        view = RocksDBView(
            {
                name: [self._database.get_column_family(part).iter(options) for part in parts]
                for name, parts in families.items()
            }
        )
        self._views = [*(one for one in self._views if not one.is_released), view]
        return view

    def link(self, folder: Path) -> None:
        """Write everything to files, and make a folder with hard links to them; it must not exist.

        Before, states that have become large are divided, if nothing reads them.

        Raises:
            StorageFailed: The disk is full, or does not work.
        """
        self._drop_obsolete()
        for name, table in self._tables.items():
            wanted = self._wanted(name)
            if wanted != [family.name for family in table.families] and not self._may_be_read(name):
                self._move(table, wanted)
        with reported_writing("write its files"):
            self._library.Checkpoint(self._database).create_checkpoint(str(folder))

    def close(self) -> None:
        """Close the database, also for those that still read it; its files stay. Closing it twice is harmless."""
        for view in self._views:
            view.release()
        for family in [*self._obsolete, *(family for table in self._tables.values() for family in table.families)]:
            family.close()
        self._tables.clear()
        with suppress(self._library.DbClosedError):
            self._database.close()

    # Column families

    def _created(self, name: str) -> str:
        self._database.create_column_family(name, self._options.column_family(name))
        return name

    def _table(self, names: Sequence[str]) -> RocksDBTable:
        """Return a table over some column families, in the order of their keys."""
        families = [self._opened(name) for name in names]
        return RocksDBTable(families, [self._start(name) for name in names])

    def _start(self, family: str) -> bytes:
        key_groups = key_groups_of(family)
        return b"" if key_groups is None else self._ranges.start(key_groups.start)

    def _opened(self, name: str) -> ColumnFamily:
        return ColumnFamily(name, self._database.get_column_family(name), self._write, self._library.ReadOptions)

    def _write(self, family: str, changes: Mapping[bytes, bytes | None]) -> None:
        with reported_writing("write"):
            batch = self._library.WriteBatch(raw_mode=True)
            batch.set_default_column_family(self._database.get_column_family_handle(family))
            for key, value in changes.items():
                if value is None:
                    batch.delete(key)
                else:
                    batch[key] = value
            self._database.write(batch, self._write_options)

    def _drop(self, family: ColumnFamily) -> None:
        family.close()
        with reported_writing("drop a column family"):
            self._database.drop_column_family(family.name)

    def _drop_obsolete(self) -> None:
        """Drop column families whose entries are in others, too: a checkpoint with both could not be restored."""
        while self._obsolete:
            self._drop(self._obsolete[-1])
            self._obsolete.pop()

    def _may_be_read(self, name: str) -> bool:
        self._views = [view for view in self._views if not view.is_released]
        return bool(self._views) or self._tables[name].is_read

    # Ranges

    def _wanted(self, name: str) -> list[str]:
        """Return the column families that a table should have."""
        families = self._tables[name].families
        if self._ranges.count == 1:
            return [name]
        parts = self._ranges.parts(self._ranges.key_groups)
        if len(families) > 1 or len(parts) == 1 or families[0].stored_bytes() < _LARGE_BYTES:
            return [family.name for family in families]
        return [family_of(name, part) for part in parts]

    def _move(self, table: RocksDBTable, names: list[str]) -> None:
        """Move the entries of a table to new column families; where that fails, the table is what it was."""
        before, families = table.families, list[ColumnFamily]()
        starts = [self._start(name) for name in names]
        bounds = [b"", *starts[1:], _AFTER_ALL_KEYS]
        try:
            with self._files_to_load() as folder:
                for number, name in enumerate(names):
                    families.append(self._opened(self._created(name)))
                    loading = self._loading(families[-1], folder / str(number))
                    for family in before:  # each block is read once, so it need not be in the cache
                        for items in family.items(bounds[number], bounds[number + 1], fill_cache=False):
                            loading.add_in_order(items)
                    loading.ingest()
        except BaseException:
            self._obsolete += families
            raise
        table.become(families, starts)
        self._obsolete += before
        self._drop_obsolete()

    def _clip(self) -> None:
        """Remove the entries of other key groups; only where there are any, as such a removal slows reads down."""
        own = self._ranges.key_groups
        others = (b"", self._ranges.start(own.start)), (self._ranges.start(own.stop), _AFTER_ALL_KEYS)
        for table in self._tables.values():
            self._cover(table)
            for family in table.families:
                for first, last in others:
                    if next(family.items(first, last), None) is not None:
                        with reported_writing("write"):
                            column_family = self._database.get_column_family(family.name)
                            column_family.delete_range(first, last, self._write_options)

    def _cover(self, table: RocksDBTable) -> None:
        """Drop the column families of other key groups, and create those of own ones that a divided table lacks."""
        own, parts = self._ranges.key_groups, [key_groups_of(family.name) for family in table.families]
        divided = [part for part in parts if part is not None]
        if not divided:
            return
        kept = [part for part in divided if part.start < own.stop and part.stop > own.start]
        for family, part in zip(table.families, divided, strict=True):
            if part not in kept:
                self._drop(family)
        first, after = (kept[0].start, kept[-1].stop) if kept else (own.stop, own.stop)
        lacking = [*self._ranges.parts(range(own.start, first)), *self._ranges.parts(range(after, own.stop))]
        name = table_of(table.families[0].name)
        opened = {family.name: family for family in table.families}
        for part in lacking:
            opened[family_of(name, part)] = self._opened(self._created(family_of(name, part)))
        covering = sorted([*kept, *lacking], key=lambda part: part.start)
        names = [family_of(name, part) for part in covering]
        table.become([opened[name] for name in names], [self._start(name) for name in names])

    @contextmanager
    def _files_to_load(self) -> Iterator[Path]:
        folder = self.folder.with_name(f"{self.folder.name}-loaded")
        folder.mkdir()
        try:
            with reported_writing("load entries"):
                yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _loading(self, family: ColumnFamily, path: Path) -> Loading:
        return Loading(family, path, self._options.column_family(family.name))
