"""Checkpoints of RocksDB: the files of the database, of which an incremental one writes only the new ones.

The synchronous part removes some expired values, in place of a compaction filter, which rocksdict lacks; it writes what
is in memory to files, and links all files into a folder. The asynchronous part copies
those that the last complete checkpoint does not have. Files with entries go to the folder that checkpoints share, the
others beside `_metadata`. Source: notes on native snapshots, section 1.
"""

from __future__ import annotations

import shutil
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import attrs

from ....serializers.views import DataOutputView
from ...formats.flink.handles import DATABASE, AbsoluteFileHandle, DatabaseFile, DatabaseHandle
from ...formats.flink.keyed_stream import write_keyed_header
from ...formats.flink.roots import uri_of
from ...publication.publish import INLINE_BYTES, part_name
from ...publication.sink import StreamSink
from ...rocksdb.database import FileNames
from ..snapshots import SnapshotResult, SnapshotStrategy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ...formats.flink.handles import StreamHandle
    from ...formats.flink.keyed_stream import KeyedStreamHeader
    from ...storage.files import Folder
    from ..snapshots import SnapshotTarget
    from .backend import EmbeddedRocksDBStateBackend

_PIECE_BYTES = 1 << 20
_SWEPT_ENTRIES = 10_000
"""How many entries of each state with TTL a checkpoint looks at."""
_LEFT_OUT = (".log", ".json")  # the empty write-ahead log, and a note of rocksdict to itself


@attrs.frozen
class LinkedFiles:
    """The files of a database at one moment.

    Attributes:
        header: The key snapshot and the states.
        folder: A folder of our own with links to the files.
        names: The files by their role.
    """

    header: KeyedStreamHeader
    folder: Path
    names: FileNames

    def release(self) -> None:
        """Delete the links."""
        shutil.rmtree(self.folder, ignore_errors=True)


class DatabaseCheckpointStrategy(SnapshotStrategy[LinkedFiles]):
    """Writes the files of the database under handle 11, as Flink's RocksDB backend does.

    Args:
        backend: The backend.
        incremental: Whether files that the last complete checkpoint has are not written again.
        threads: How many files are written at a time.
    """

    def __init__(self, backend: EmbeddedRocksDBStateBackend, *, incremental: bool, threads: int) -> None:
        self._backend, self._incremental, self._threads = backend, incremental, threads
        self._backend_id = str(uuid.uuid4())
        self._complete: Mapping[str, DatabaseFile] = {}
        self._written: dict[int, Mapping[str, DatabaseFile]] = {}

    def take_over(self, handle: DatabaseHandle) -> None:
        """Note the files of a restored checkpoint for the next one; the database has kept their names."""
        self._complete = {file.name: file for file in handle.shared}

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._complete = self._written.get(checkpoint_id, self._complete)
        self._written = {later: files for later, files in self._written.items() if later > checkpoint_id}

    def sync_prepare_resources(self, checkpoint_id: int) -> LinkedFiles:
        self._backend.sweep(_SWEPT_ENTRIES)
        self._backend.flush()
        folder = self._backend.link_files()
        try:
            found = (file.name for file in folder.iterdir())
            names = FileNames.of([name for name in found if not name.endswith(_LEFT_OUT)])
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return LinkedFiles(self._backend.table_header, folder, names)

    def async_snapshot(self, resources: LinkedFiles, target: SnapshotTarget) -> SnapshotResult:
        if not resources.header.states:
            return SnapshotResult()
        names, shared = resources.names, target.shared
        kept = self._kept(names, shared) if shared is not None and self._incremental else {}
        new = [name for name in names.tables if name not in kept]
        with ThreadPoolExecutor(self._threads) as threads:
            copies = [threads.submit(self._copied, resources.folder / name, name, target) for name in new]
            try:
                written = [copy.result() for copy in target.steps(copies)]
            except BaseException:
                target.cancel()
                raise
        files = kept | {name: DatabaseFile(name, stream) for name, stream in zip(new, written, strict=True)}
        if shared is not None:
            shared.sync()
        private = [
            DatabaseFile(name, _beside(resources.folder / name, part_name(target.name, part), target))
            for name, part in ((names.options, "options"), (names.manifest, "manifest"), ("CURRENT", "current"))
        ]
        view = DataOutputView()
        write_keyed_header(resources.header, view)
        header = target.commit.put(part_name(target.name, "header"), view.getvalue())
        self._written[target.checkpoint_id] = files
        return SnapshotResult(
            DatabaseHandle(
                DATABASE,
                target.checkpoint_id,
                self._backend_id,
                self._backend.key_groups,
                header,
                tuple(files[name] for name in names.tables),
                tuple(private),
                sum(stream.size for stream in (*written, header, *(file.stream for file in private))),
                str(uuid.uuid4()),
            )
        )

    def _kept(self, names: FileNames, shared: Folder) -> dict[str, DatabaseFile]:
        """Return the files that need not be written, because they are in the shared folder."""
        start = f"{uri_of(shared)}/"
        return {
            name: file
            for name in names.tables
            if (file := self._complete.get(name)) is not None
            and isinstance(file.stream, AbsoluteFileHandle)
            and file.stream.uri.startswith(start)
        }

    @staticmethod
    def _copied(path: Path, name: str, target: SnapshotTarget) -> StreamHandle:
        """Copy a file with entries to the shared folder, or beside `_metadata` where there is none."""
        if target.shared is None:
            return _beside(path, f"{part_name(target.name, 'table')}-{name.partition('.')[0]}", target, inline_bytes=0)
        stored = str(uuid.uuid4())
        with path.open("rb") as source, target.shared.output(stored) as out:
            while piece := source.read(_PIECE_BYTES):
                target.check()
                out.write(piece)
            out.sync()
        return AbsoluteFileHandle(f"{uri_of(target.shared)}/{stored}", path.stat().st_size)


def _beside(path: Path, name: str, target: SnapshotTarget, *, inline_bytes: int = INLINE_BYTES) -> StreamHandle:
    """Copy a file to the folder of `_metadata`, or into `_metadata` itself where it is small."""
    with path.open("rb") as source, StreamSink(target.commit.folder, name, inline_bytes=inline_bytes) as sink:
        while piece := source.read(_PIECE_BYTES):
            target.check()
            sink.write(piece)
        return target.commit.stream(sink.finish())
