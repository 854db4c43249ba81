"""A sorted store in RocksDB: one column family for each state, and nothing in a write-ahead log.

What is lost with a process is restored from a checkpoint, so RocksDB writes no log, as with Flink.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from ....serializers.errors import DeclarationError, NoSpaceLeft, StateShiftError, StorageFailed
from ...rocksdb.database import open_live, require_library
from ...rocksdb.options_file import DEFAULT_FAMILY

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from ...rocksdb.database import FileNames, Items
    from ...savepoint.blocks import Block
    from .options import DatabaseOptions

_LEAST_ITEMS, _MOST_ITEMS = 16, 512
_READAHEAD_BYTES = 1 << 20
_FILE_BYTES, _FEW_ENTRIES = 64 << 20, 256
"""Of the files that are loaded: their size, as RocksDB's own, and how many entries of a key group are worth one."""
_AFTER_ALL_KEYS = b"\xff"
"""The first byte of a key is that of its key group, below 0x80."""


class RocksDBTable:
    """A column family.

    Args:
        family: The column family.
        write: Writes a batch.
        new_batch: Returns an empty batch of the column family.
        new_read_options: Returns options for an iterator.
    """

    def __init__(
        self,
        family: Any,
        write: Callable[[Any], None],
        new_batch: Callable[[], Any],
        new_read_options: Callable[[], Any],
    ) -> None:
        self._family, self._write, self._new_batch = family, write, new_batch
        self._new_read_options = new_read_options
        self._readers = 0
        self.get: Callable[[bytes], bytes | None] = family.get
        self.close: Callable[[], None] = family.close
        self.ingest: Callable[[list[str], Any], None] = family.ingest_external_file

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Set the values of some keys as one batch; None removes a key."""
        batch = self._new_batch()
        for key, value in changes.items():
            if value is None:
                batch.delete(key)
            else:
                batch[key] = value
        self._write(batch)

    def items(self, start: bytes, stop: bytes) -> Iterator[Items]:
        """Yield the entries from `start` to before `stop` in the order of their keys, some at a time."""
        options = self._new_read_options()
        options.set_total_order_seek(True)
        options.set_iterate_upper_bound(stop)
        self._readers += 1
        try:
            with reported("read its files"):
                iterator = self._family.iter(options)
                iterator.seek(start)
            most = _LEAST_ITEMS
            while True:
                with reported("read its files"):
                    found = _taken(iterator, most)
                if not found[0]:
                    return
                yield found
                most = min(2 * most, _MOST_ITEMS)
        finally:
            self._readers -= 1

    @property
    def is_read(self) -> bool:
        """Whether an iteration has not come to its end."""
        return self._readers > 0


class RocksDBView:
    """The column families at one moment: an iterator of RocksDB goes on seeing what there was when it was made.

    A snapshot of rocksdict 0.3.29 is of no use for this: its iterators see later changes.
    """

    def __init__(self, iterators: dict[str, Any]) -> None:
        self._iterators, self._lock = iterators, Lock()
        self.families = frozenset(iterators)

    def items(self, family: str, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Items]:
        """Yield the entries of a column family in a range of keys, in order; None: without a limit.

        Raises:
            StateShiftError: The view was released.
        """
        at = start or b""
        while True:
            with self._lock, reported("read its files"):
                if not self._iterators:
                    raise StateShiftError("the snapshot was released before it was written")
                iterator = self._iterators[family]
                iterator.seek(at)
                found = _taken(iterator, _MOST_ITEMS, stop)
            if not found[0]:
                return
            yield found
            at = found[0][-1] + b"\0"

    @property
    def is_released(self) -> bool:
        """Whether nothing can be read any more."""
        return not self._iterators

    def release(self) -> None:
        """Release what RocksDB kept for this view."""
        with self._lock:
            self._iterators.clear()


class _Loading:
    """Puts entries into a column family as files, which RocksDB takes as they are; see `RocksDBStore.loading`.

    Args:
        table: The table of the column family.
        path: The path of the first file; a number is appended to it.
        options: The options of the column family, as those of a database.
    """

    def __init__(self, table: RocksDBTable, path: Path, options: Any) -> None:
        self._library, self._table, self._path, self._options = require_library(), table, path, options
        self._files: list[str] = []
        self._writer: Any = None
        self._size, self._last = 0, b""

    def add(self, block: Block) -> None:
        """Add entries; those that come after greater ones are written, because a file is in order."""
        if self._writer is None and block.entries < _FEW_ENTRIES:
            self._table.write(dict(block.items()))
            return
        if self._writer is None:
            self._files.append(f"{self._path}-{len(self._files)}.sst")
            self._writer, self._size = self._library.SstFileWriter(self._options), 0
            self._writer.open(self._files[-1])
        writer, last, late = self._writer, self._last, dict[bytes, bytes]()
        for key, value in block.items():
            if key > last:
                writer[key] = value
                last = key
            else:
                late[key] = value
        self._last = last
        if late:
            self._table.write(late)
        self._size += block.size_bytes
        if self._size > _FILE_BYTES:
            self._finish()

    def ingest(self) -> None:
        """Hand the files over to the database, which moves them."""
        if self._writer is not None:
            self._finish()
        if self._files:
            options = self._library.IngestExternalFileOptions()
            options.set_move_files(True)
            self._table.ingest(self._files, options)

    def _finish(self) -> None:
        self._writer.finish()
        self._writer = None


class RocksDBStore:
    """A database in a local folder. Created with `new` or `restored`.

    Args:
        database: The opened database.
        folder: Its folder.
        options: Makes the options of new column families.
        families: The names of its column families, without `default`.
    """

    def __init__(self, database: Any, folder: Path, options: DatabaseOptions, families: Collection[str] = ()) -> None:
        self._library, self._database, self._options, self.folder = require_library(), database, options, folder
        self._write_options = self._library.WriteOptions()
        self._write_options.disable_wal = True
        self._tables = {name: self._opened(name) for name in families}
        self._views: list[RocksDBView] = []

    @classmethod
    def new(cls, folder: Path, options: DatabaseOptions) -> RocksDBStore:
        """Create an empty database in a folder that does not exist yet."""
        with reported("create a database"):
            return cls(require_library().Rdict(str(folder), options=options.database()), folder, options)

    @classmethod
    def restored(
        cls, folder: Path, options: DatabaseOptions, names: FileNames, sizes: Mapping[str, int]
    ) -> RocksDBStore:
        """Open a database whose files are in a folder; arguments and errors as in `open_live`."""
        database, families = open_live(folder, names, sizes, options.apply)
        return cls(database, folder, options, families)

    def table(self, name: str) -> RocksDBTable:
        """Return the table of a state, which is created where it is missing."""
        if name == DEFAULT_FAMILY:
            raise DeclarationError(
                f"a state cannot be named {name!r} with RocksDB, which has a column family of that name",
                advice="give the state another name",
                state=name,
            )
        if name not in self._tables:
            self._database.create_column_family(name, self._options.column_family())
            self._tables[name] = self._opened(name)
        return self._tables[name]

    @contextmanager
    def loading(self) -> Iterator[Callable[[str, Block], None]]:
        """Yield a function that puts blocks of new entries into the table of a name, which has all of them at the end.

        Many entries in order become files, which takes less time than to write them (`benchmarks.rocksdb_access`).
        """
        begun: dict[str, _Loading] = {}
        folder = self.folder.with_name(f"{self.folder.name}-loaded")
        folder.mkdir()

        def add(name: str, block: Block) -> None:
            if name not in begun:
                path = folder / str(len(begun))
                begun[name] = _Loading(self._tables[name], path, self._options.column_family())
            begun[name].add(block)

        try:
            with reported("load entries"):
                yield add
                for loading in begun.values():
                    loading.ingest()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def drop(self, name: str) -> bool:
        """Remove an empty table; return False where it may still be read: rocksdict's iterators do not outlive it."""
        self._views = [view for view in self._views if not view.is_released]
        if self._views or self._tables[name].is_read:
            return False
        self._tables.pop(name).close()
        with reported("drop a column family"):
            self._database.drop_column_family(name)
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
        view = RocksDBView({name: self._database.get_column_family(name).iter(options) for name in self._tables})
        self._views = [*(one for one in self._views if not one.is_released), view]
        return view

    def clip(self, start: bytes, stop: bytes) -> None:
        """Remove the entries outside a range of keys; only where there are any, as such a removal slows reads down."""
        for name, table in self._tables.items():
            for first, last in ((b"", start), (stop, _AFTER_ALL_KEYS)):
                if next(table.items(first, last), None) is not None:
                    with reported("write"):
                        self._database.get_column_family(name).delete_range(first, last, self._write_options)

    def link(self, folder: Path) -> None:
        """Write everything to files, and make a folder with hard links to them; it must not exist.

        Raises:
            StorageFailed: The disk is full, or does not work.
        """
        with reported("write its files"):
            self._library.Checkpoint(self._database).create_checkpoint(str(folder))

    def close(self) -> None:
        """Close the database; its files stay."""
        for table in self._tables.values():
            table.close()
        self._tables.clear()
        self._database.close()

    def _opened(self, name: str) -> RocksDBTable:
        family, handle = self._database.get_column_family(name), self._database.get_column_family_handle(name)

        def new_batch() -> Any:
            batch = self._library.WriteBatch(raw_mode=True)
            batch.set_default_column_family(handle)
            return batch

        return RocksDBTable(family, self._write, new_batch, self._library.ReadOptions)

    def _write(self, batch: Any) -> None:
        with reported("write"):
            self._database.write(batch, self._write_options)


def _taken(iterator: Any, most: int, stop: bytes | None = None) -> Items:
    """Return the next entries, at most so many and before `stop`; damage is an error, and not an end."""
    keys: list[bytes] = []
    values: list[bytes] = []
    valid, key_of, value_of, move = iterator.valid, iterator.key, iterator.value, iterator.next
    while valid() and len(keys) < most:
        key = key_of()
        if stop is not None and key >= stop:
            break
        keys.append(key)
        values.append(value_of())
        move()
    if not keys:
        iterator.status()
    return tuple(keys), tuple(values)


@contextmanager
def reported(what: str) -> Iterator[None]:
    """Convert the errors of rocksdict, which have no class of their own.

    Args:
        what: What the database cannot do then.

    Raises:
        NoSpaceLeft: The disk is full.
        StorageFailed: Anything else.
    """
    try:
        yield
    except Exception as error:
        if type(error) is not Exception:
            raise
        kind = NoSpaceLeft if "No space left" in str(error) else StorageFailed
        raise kind(f"RocksDB cannot {what}: {' '.join(str(error).split())}") from error
