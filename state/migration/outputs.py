"""What a task writes keyed state to: a canonical stream, or the files of a database (`native`).

    with keyed_output(task, header, source, target) as output:
        output.writer.add(block)      # key groups ascending
        written = output.finish()

A database is written as `docs/explanation/native-savepoints.md` says: a column family for each state, in files of the
last level. RocksDB wants the keys of a family in order; those of a state in one key group are sorted first, because
the heap backend has none, and converted keys may have another one.
"""

from __future__ import annotations

import heapq
import struct
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from ...serializers.errors import StateShiftError, located
from ...serializers.views import DataOutputView
from ..formats.flink.handles import DatabaseHandle
from ..formats.flink.keyed_stream import KeyedStreamWriter, write_keyed_header
from ..formats.flink.sources import open_stream
from ..publication.lineage import FileDigest, StateFiles
from ..publication.publish import INLINE_BYTES, part_name, stream_name, table_name
from ..publication.sink import StoredBytes, StreamSink, copied_stream, linked_stream
from ..rocksdb.database import CURRENT, FileNames
from ..rocksdb.manifest import write_manifest
from ..rocksdb.options_file import DEFAULT_FAMILY, Family, StoredOptions, print_stored_options, read_options
from ..rocksdb.table_writer import TableWriter
from ..storage.files import Folder
from .tasks import NOTHING_KEPT, DatabasePart, KeyedTask, TaskResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...compat.plan import OperatorPlan
    from ..formats.flink.blocks import Block
    from ..formats.flink.keyed_stream import KeyedStreamHeader
    from ..rocksdb.manifest import TableFile
    from .tasks import KeptFamilies, RekeyTask

_HELD_BYTES = 64 << 20
_LENGTHS = struct.Struct(">ii")
_FLINKS = StoredOptions("8.10.0", (Family(DEFAULT_FAMILY, "StringAppendTESTOperator"),))
"""What Flink sets by default: for a state that was not in a database before."""


class BlockWriter(Protocol):
    """Takes blocks, key groups ascending and the pieces of a block one after the other."""

    def add(self, block: Block) -> None:
        """Write a block, or the next piece of one."""


@attrs.frozen
class Written:
    """Keyed state that was written.

    Attributes:
        stored: The stream: all of it, or the header of a database.
        offsets: The offsets of the key groups of a canonical stream.
        database: The files of a database.
        kept: The states of a database whose files were not read.
    """

    stored: StoredBytes
    offsets: tuple[int, ...] = ()
    database: tuple[DatabasePart, ...] = ()
    kept: tuple[StateFiles, ...] = ()

    def result(self, **facts: Any) -> TaskResult:
        """Return the result of the task; arguments as the other attributes of that."""
        return TaskResult(self.stored, offsets=self.offsets, database=self.database, kept=self.kept, **facts)


class KeyedOutput(Protocol):
    """An output that is open.

    Attributes:
        writer: Takes the blocks.
    """

    @property
    def writer(self) -> BlockWriter:
        """Takes the blocks."""

    def finish(self) -> Written:
        """Write what is left, and return all that was written."""


@contextmanager
def keyed_output(
    task: KeyedTask | RekeyTask,
    header: KeyedStreamHeader,
    source: Folder,
    target: Folder,
) -> Iterator[KeyedOutput]:
    """Open the output of a task; if the `with` block fails, what was written is removed.

    Args:
        task: The task.
        header: The header of what is written.
        source: The folder of the stored state.
        target: The folder to write to.

    Raises:
        UnsupportedFormat: A column family of the source has files that cannot be written.
        LibraryNotFound: The library that writes databases is not installed.
    """
    name = stream_name(task.plan.operator_id, "keyed", task.subtask)
    if not task.plan.is_native:
        with StreamSink(target, name) as sink:
            yield _Canonical(sink, KeyedStreamWriter(header, task.key_groups, sink.write))
        return
    with tempfile.TemporaryDirectory(prefix="stateshift-rocksdb-", ignore_cleanup_errors=True) as scratch:
        kept = task.kept if isinstance(task, KeyedTask) else NOTHING_KEPT
        database = _Database(header, options_of(task, header, source), target, name, Path(scratch), kept)
        try:
            database.keep(task.plan, source)
            yield database
        except BaseException:
            database.discard()
            raise


@attrs.frozen
class _Canonical:
    _sink: StreamSink
    writer: KeyedStreamWriter

    def finish(self) -> Written:
        offsets = self.writer.finish()
        return Written(self._sink.finish(), offsets)


def options_of(task: KeyedTask | RekeyTask, header: KeyedStreamHeader, source: Folder) -> StoredOptions:
    """Return the options of a new database: those of the stored ones, and of Flink for states that were in none.

    Args:
        task: The task.
        header: The states of the new database.
        source: The folder of the stored state.
    """
    families: dict[str, Family] = {}
    version = _FLINKS.version
    for handle in task.handles:
        if not isinstance(handle, DatabaseHandle):
            continue
        name = FileNames.of([file.name for file in handle.files]).options
        stream = next(file.stream for file in handle.private if file.name == name)
        with open_stream(stream, source) as stored, located(file=name):
            options = read_options(stored.read_at(0, stored.size), name)
        version = options.version
        for family in options.families:
            state = task.plan.state(family.name, keyed=True)
            renamed = state.new_name or family.name if state is not None else family.name
            families[renamed] = attrs.evolve(family, name=renamed)
    (flinks,) = _FLINKS.families
    names = [DEFAULT_FAMILY, *(info.name for info in header.states)]
    return StoredOptions(version, tuple(families.get(one, attrs.evolve(flinks, name=one)) for one in names))


class _Database:
    """Writes a database.

    Args:
        header: Its states.
        options: The options, with its states in their order.
        target: The folder to write to.
        name: The name of the stream.
        scratch: A local folder.
        kept: The column families that stay as they are.
    """

    def __init__(
        self,
        header: KeyedStreamHeader,
        options: StoredOptions,
        target: Folder,
        name: str,
        scratch: Path,
        kept: KeptFamilies,
    ) -> None:
        self._header, self._target, self._name = header, target, name
        self._place = target if target.is_local else Folder.at(scratch)
        self._options = options
        self._manifest, self._options_number, self._next = range(kept.next_file, kept.next_file + 3)
        self._kept = kept
        self._kept_parts: list[DatabasePart] = []
        self._kept_states: tuple[StateFiles, ...] = ()
        self._attempts: dict[int, str] = {}
        self._written: list[str] = []
        self._states = [
            _SortedState(TableWriter(family, self._new_file), scratch, number)
            for number, family in enumerate(options.families[1:])
        ]

    @property
    def writer(self) -> _Database:
        """Itself."""
        return self

    def add(self, block: Block) -> None:
        """Write a block, or the next piece of one."""
        with located(state=self._header.states[block.state_id].name):
            self._states[block.state_id].add(block)

    def finish(self) -> Written:
        """Write what is left: the last files, and those that list them."""
        files = []
        for info, state in zip(self._header.states, self._states, strict=True):
            with located(state=info.name):
                files.append((info.name, state.finish()))
        written = sorted((table for _, tables in files for table in tables), key=lambda table: table.number)
        parts = [*self._kept_parts, *(DatabasePart(table.name, self._stored(table.number)) for table in written)]
        listed = [(name, self._kept.files.get(name, tables)) for name, tables in files]
        manifest = f"MANIFEST-{self._manifest:06d}"
        contents = {
            manifest: ("manifest", write_manifest([(DEFAULT_FAMILY, ()), *listed], self._next)),
            f"OPTIONS-{self._options_number:06d}": ("options", print_stored_options(self._options).encode()),
            CURRENT: ("current", f"{manifest}\n".encode()),
        }
        for file, (what, data) in contents.items():
            parts.append(DatabasePart(file, self._put(part_name(self._name, what), data)))
        view = DataOutputView()
        write_keyed_header(self._header, view)
        return Written(self._put(self._name, view.getvalue()), (), tuple(parts), self._kept_states)

    def keep(self, plan: OperatorPlan, source: Folder) -> None:
        """Link the files of families that stay, or copy them where that cannot be done.

        Args:
            plan: The plan of the operator.
            source: The folder of the stored state.
        """
        for state, tables in self._kept.files.items():
            place = self._kept.places.get(state, source)
            for table in tables:
                with located(state=state, file=table.name):
                    stream = self._kept.stored[table.name].stream
                    stored = self._noted(linked_stream(stream, place, self._target, self._table(table.number)))
                self._kept_parts.append(DatabasePart(table.name, stored))
        self._kept_states = self._kept.states(plan)

    def discard(self) -> None:
        """Remove the files that were written, as far as the store allows it."""
        for attempt in self._written:
            with suppress(StateShiftError):  # the original failure is the one to report
                self._target.delete(attempt)

    def _new_file(self) -> tuple[int, Path]:
        number, self._next = self._next, self._next + 1
        attempt = self._attempts[number] = self._target.attempt_name(self._table(number))
        if self._place is self._target:
            self._written.append(attempt)
        return number, Path(self._place.place, attempt)

    def _stored(self, number: int) -> StoredBytes:
        """Return a finished file: a small one goes into `_metadata`, as Flink does it."""
        name, attempt = self._table(number), self._attempts[number]
        size = self._place.size(attempt)
        if size <= INLINE_BYTES:
            stored = StoredBytes(name, size, data=self._place.read(attempt))
        elif self._place is self._target:
            return StoredBytes(name, size, attempt=attempt, digest=FileDigest.of_file(self._target, attempt))
        else:
            with self._place.open_range(attempt) as file:
                stored = self._noted(copied_stream(file, self._target, name))
        self._place.delete(attempt)
        return stored

    def _put(self, name: str, data: bytes) -> StoredBytes:
        with StreamSink(self._target, name) as sink:
            sink.write(data)
            return self._noted(sink.finish())

    def _noted(self, stored: StoredBytes) -> StoredBytes:
        if stored.attempt:
            self._written.append(stored.attempt)
        return stored

    def _table(self, number: int) -> str:
        return table_name(self._name, number)


class _SortedState:
    """Sorts the entries of a state in each key group; what is too much for the memory waits in files.

    Args:
        writer: Writes them.
        scratch: A local folder.
        number: The number of the state.
    """

    def __init__(self, writer: TableWriter, scratch: Path, number: int) -> None:
        self._writer, self._scratch, self._number = writer, scratch, number
        self._key_group, self._size = -1, 0
        self._held: list[tuple[bytes, bytes]] = []
        self._runs: list[Path] = []

    def add(self, block: Block) -> None:
        if block.key_group != self._key_group:
            self._write()
            self._key_group = block.key_group
        self._held += block.items()
        self._size += block.size_bytes
        if self._size > _HELD_BYTES:
            self._set_aside()

    def finish(self) -> list[TableFile]:
        self._write()
        return self._writer.finish()

    def _write(self) -> None:
        self._held.sort()
        if self._runs:
            self._writer.add(heapq.merge(self._held, *map(_read_run, self._runs)))
            for run in self._runs:
                run.unlink()
        else:
            self._writer.add(self._held)
        self._held, self._size, self._runs = [], 0, []

    def _set_aside(self) -> None:
        self._held.sort()
        run = self._scratch / f"{self._number}-{len(self._runs)}"
        with run.open("wb") as out:
            out.writelines(_LENGTHS.pack(len(key), len(value)) + key + value for key, value in self._held)
        self._runs.append(run)
        self._held, self._size = [], 0


def _read_run(path: Path) -> Iterator[tuple[bytes, bytes]]:
    with path.open("rb") as run:
        while lengths := run.read(_LENGTHS.size):
            key_size, value_size = _LENGTHS.unpack(lengths)
            yield run.read(key_size), run.read(value_size)
