"""The files of a database that a handle points at, in a local folder of our own; the stored files are only read.

Local files are linked. Files on a store and segments of merged files are copied to a shared folder once, several at a
time, and are linked from there. Source: notes on native snapshots, sections 1 and 2.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from ....serializers.errors import CorruptSavepoint, UnsupportedFormat, located
from ...progress import Progress, report_progress
from ...rocksdb.database import CURRENT, FileNames, open_database, require_current, require_library, require_same
from ...rocksdb.manifest import read_manifest
from ...rocksdb.options_file import read_options
from ...rocksdb.stored_tables import StoredTables
from ...rocksdb.workspace import release, shared_folder
from ...storage.identity import each_place_once
from .handles import AbsoluteFileHandle, DatabaseHandle, InlineHandle, RelativeFileHandle, SegmentHandle
from .missing_files import require_files
from .sources import file_of, open_stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ...rocksdb.database import Database, Items
    from ...storage.files import Folder
    from .handles import DatabaseFile
    from .metadata import SavepointMetadata

_DOWNLOADS = 8
"""How many files are copied from a store at a time."""


@contextmanager
def open_database_of(handle: DatabaseHandle, folder: Folder) -> Iterator[Database]:
    """Open the database that a handle points at, until the `with` block ends.

    Args:
        handle: From `_metadata`.
        folder: The folder of that `_metadata`.

    Raises:
        SavepointNotFound: A file is missing.
        UntrustedPlace: A file is outside the savepoint's allowed folders.
        CorruptSavepoint: A file is damaged, or of another database.
        UnsupportedFormat: The database has settings that Flink does not set.
        NoSpaceLeft: The disk for temporary files is too small.
        LibraryNotFound: `rocksdict` is not installed.
    """
    names = FileNames.of([file.name for file in handle.files])
    sizes = {file.name: file.stream.size for file in handle.files}
    with (
        _local_paths(handle.files, folder) as paths,
        tempfile.TemporaryDirectory(prefix="stateshift-rocksdb-", ignore_cleanup_errors=True) as ours,
    ):
        for name in names.tables:
            Path(ours, name).symlink_to(paths[name])
        for name in (CURRENT, names.manifest, names.options):
            Path(ours, name).write_bytes(paths[name].read_bytes())
        with stored_names(handle.files, folder), open_database(Path(ours), names, sizes) as database:
            yield database


@attrs.define
class FewOfDatabase:
    """Some entries of a database: they are read by ranges, and by RocksDB if a file has what only it reads."""

    _handle: DatabaseHandle
    _folder: Folder
    _stack: ExitStack
    _tables: StoredTables | None = None
    _database: Database | None = None

    @classmethod
    @contextmanager
    def opened(cls, handle: DatabaseHandle, folder: Folder) -> Iterator[FewOfDatabase]:
        """Open the database that a handle points at, until the `with` block ends; errors as `open_database_of`."""
        with ExitStack() as stack:
            found = cls(handle, folder, stack)
            with suppress(UnsupportedFormat):
                found._tables = stack.enter_context(_open_tables_of(handle, folder))
            yield found

    @property
    def families(self) -> frozenset[str]:
        """The names of the tables."""
        return self._whole.families if self._tables is None else self._tables.families

    @property
    def _whole(self) -> Database:
        if self._database is None:
            self._database = self._stack.enter_context(open_database_of(self._handle, self._folder))
        return self._database

    def items(self, family: str, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Items]:
        """Yield the entries of a table in the order of their keys, some at a time; errors as in `open_database_of`."""
        if self._tables is not None:
            try:
                yield from [*self._tables.items(family, start, stop)]
                return
            except UnsupportedFormat:
                self._tables = None
        yield from self._whole.items(family, start, stop)


@contextmanager
def _open_tables_of(handle: DatabaseHandle, folder: Folder) -> Iterator[StoredTables]:
    """Open the database that a handle points at where its files lie, for some entries, until the `with` block ends.

    Args:
        handle: From `_metadata`.
        folder: The folder of that `_metadata`.

    Raises:
        SavepointNotFound, UntrustedPlace, CorruptSavepoint, LibraryNotFound: As `open_database_of`.
        UnsupportedFormat: A file has something that only RocksDB reads.
    """
    names, files = FileNames.of([file.name for file in handle.files]), {file.name: file for file in handle.files}

    def read(name: str) -> bytes:
        with open_stream(files[name].stream, folder) as source:
            return source.read_at(0, source.size)

    require_library()
    with ExitStack() as opened, stored_names(handle.files, folder):
        manifest, options = read_manifest(read(names.manifest), names.manifest), read(names.options)
        require_current(read(CURRENT), names)
        listed = {table.name: table.size for tables in manifest.families.values() for table in tables}
        require_same(listed, names, {name: file.stream.size for name, file in files.items()})
        yield StoredTables.of(
            manifest,
            read_options(options, names.options),
            lambda name: opened.enter_context(open_stream(files[name].stream, folder)),
        )


@contextmanager
def database_placed(handle: DatabaseHandle, folder: Folder, target: Path) -> Iterator[FileNames]:
    """Put the files of a database into a folder of our own, and add their stored names to errors of the `with` block.

    Files with entries become hard links where the disk is the same, else copies: a link stays whole when the stored
    file is deleted.

    Args:
        handle: From `_metadata`.
        folder: The folder of that `_metadata`.
        target: The local folder, which is created.

    Raises:
        SavepointNotFound, UntrustedPlace, CorruptSavepoint, NoSpaceLeft, LibraryNotFound: As `open_database_of`.
    """
    names = FileNames.of([file.name for file in handle.files])
    with _local_paths(handle.files, folder) as paths:
        target.mkdir(parents=True)
        for name in names.tables:
            try:
                os.link(paths[name], target / name)
            except OSError:
                shutil.copyfile(paths[name], target / name)
        for name in (CURRENT, names.manifest, names.options):
            shutil.copyfile(paths[name], target / name)
    with stored_names(handle.files, folder):
        yield names


@contextmanager
def stored_names(files: Sequence[DatabaseFile], folder: Folder) -> Iterator[None]:
    """Add to errors where a file lies that they name as the database does: the stored name is another one."""
    try:
        yield
    except CorruptSavepoint as error:
        text = f"{error.where.get('file', '')} {error.what}"
        for file in files:
            if file.name in text and isinstance(file.stream, RelativeFileHandle | AbsoluteFileHandle | SegmentHandle):
                place, name = file_of(file.stream, folder)
                error.where["file"] = f"{file.name}, stored as {place.place}/{name}"
                break
        raise


@contextmanager
def _local_paths(files: Sequence[DatabaseFile], folder: Folder) -> Iterator[dict[str, Path]]:
    """Yield the local path of each file by the name that the database gives it."""
    with each_place_once():
        paths = {file.name: path for file in files if (path := _local_path(file, folder)) is not None}
    others = [file for file in files if file.name not in paths]
    require_files((file.stream for file in files if file.name in paths), folder)
    if not others:
        yield paths
        return
    size = sum(file.stream.size for file in others)
    with shared_folder(_key(files, folder), size, lambda target: _copy_all(others, folder, target)) as local:
        yield paths | {file.name: local / file.name for file in others}


def _key(files: Sequence[DatabaseFile], folder: Folder) -> str:
    """Return the name of the shared folder for the files of a database: other files have another one.

    Bytes within `_metadata` tell files apart: databases without some families have MANIFESTs of equal names.
    """
    identity = [(folder.place, file.name, file.stream, _data(file)) for file in files]
    return sha256(repr(identity).encode()).hexdigest()[:32]


def _data(file: DatabaseFile) -> bytes:
    return file.stream.data if isinstance(file.stream, InlineHandle) else b""


@contextmanager
def databases_released(metadata: SavepointMetadata, folder: Folder) -> Iterator[None]:
    """Delete the copies of a snapshot's databases on this machine when the `with` block ends.

    Workers of Spark are killed, and cannot delete what they used. What a process still reads stays.
    """
    try:
        yield
    finally:
        release_copies((subtask.managed_keyed for one in metadata.operators for subtask in one.subtasks), folder)


def release_copies(handles: Iterable[object], folder: Folder) -> None:
    """Delete the copies of databases on this machine, except those that a process still reads.

    Args:
        handles: The handles of the databases; handles of other kinds are left out.
        folder: The folder of their snapshot.
    """
    release(_key(handle.files, folder) for handle in handles if isinstance(handle, DatabaseHandle))


def _local_path(file: DatabaseFile, folder: Folder) -> Path | None:
    """Return the path of a whole local file; None for any other, which must be copied."""
    if not isinstance(file.stream, (RelativeFileHandle, AbsoluteFileHandle)):
        return None
    place, name = file_of(file.stream, folder)
    if not place.is_local:
        return None
    return Path(place.place, name)


def _copy_all(files: Sequence[DatabaseFile], folder: Folder, target: Path) -> None:
    """Copy files, the largest first, several at a time."""
    began, total = time.monotonic(), sum(file.stream.size for file in files)
    with ThreadPoolExecutor(_DOWNLOADS) as threads:
        largest_first = sorted(files, key=lambda file: -file.stream.size)
        copies = [threads.submit(_copy, file, folder, target / file.name) for file in largest_first]
        try:
            done = 0
            for count, copy in enumerate(as_completed(copies), 1):
                done += copy.result()
                seconds = time.monotonic() - began
                report_progress(Progress("downloading", count, len(files), 0, done, total, seconds))
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise


def _copy(file: DatabaseFile, folder: Folder, target: Path) -> int:
    """Copy a file; return its size in bytes."""
    with located(file=file.name), open_stream(file.stream, folder) as source, target.open("wb") as out:
        for piece in source.pieces():
            out.write(piece)
    if target.stat().st_size != file.stream.size:
        raise CorruptSavepoint(f"only {target.stat().st_size:,} of {file.stream.size:,} bytes came", file=file.name)
    return file.stream.size
