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
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from ...compat.plan import StateAction
from ...serializers.errors import StateShiftError, located
from ...serializers.views import DataOutputView
from ..formats.flink.blocks import Block
from ..formats.flink.handles import DatabaseHandle
from ..formats.flink.keyed_stream import KeyedStreamWriter, write_keyed_header
from ..formats.flink.sources import InlineBytes, open_stream
from ..publication.publish import part_name, stream_name, table_name
from ..publication.sink import StoredBytes, StreamSink, linked_stream
from ..rocksdb.database import CURRENT, FileNames
from ..rocksdb.manifest import write_manifest
from ..rocksdb.options_file import DEFAULT_FAMILY, Family, StoredOptions, print_stored_options, read_options
from ..rocksdb.table_reader import open_table
from ..rocksdb.table_writer import TableWriter, require_writable
from ..transcode.frames import ascends
from .tasks import NOTHING_KEPT, DatabasePart, KeyedTask, TaskResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future
    from contextlib import AbstractContextManager

    from ...compat.plan import OperatorPlan
    from ..formats.flink.handles import KeyedHandle
    from ..formats.flink.keyed_stream import KeyedStreamHeader
    from ..formats.flink.sources import ByteSource
    from ..publication.lineage import StateFiles
    from ..rocksdb.manifest import TableFile
    from ..rocksdb.table_reader import Table
    from ..storage.files import Folder
    from ..transcode.executor_choice import ExecutorName
    from .tasks import KeptFamilies, RekeyTask

_HELD_BYTES = 64 << 20
_ITEMS = 1 << 10
_MOST_WAITING = 4
"""How many pieces, of about a megabyte each, may wait to be written."""
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
    executor: ExecutorName,
) -> Iterator[KeyedOutput]:
    """Open the output of a task; if the `with` block fails, what was written is removed.

    Args:
        task: The task.
        header: The header of what is written.
        source: The folder of the stored state.
        target: The folder to write to.
        executor: The executor that makes the blocks of files.

    Raises:
        UnsupportedFormat: A column family of the source has files that cannot be written.
        LibraryNotFound: The library for the checksums of a database is not installed.
    """
    name = stream_name(task.plan.operator_id, "keyed", task.subtask)
    if not task.plan.is_native:
        with StreamSink(target, name) as sink:
            yield _Canonical(sink, KeyedStreamWriter(header, task.key_groups, sink.write))
        return
    kept = task.kept if isinstance(task, KeyedTask) else NOTHING_KEPT
    database = _Database(header, options_of(task, header, source), target, name, kept, executor)
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
        options = _stored_options(handle, source)
        version = options.version
        for family in options.families:
            state = task.plan.state(family.name, keyed=True)
            renamed = state.new_name or family.name if state is not None else family.name
            families[renamed] = attrs.evolve(family, name=renamed)
    (flinks,) = _FLINKS.families
    names = [DEFAULT_FAMILY, *(info.name for info in header.states)]
    return StoredOptions(version, tuple(families.get(one, attrs.evolve(flinks, name=one)) for one in names))


def _stored_options(handle: DatabaseHandle, source: Folder) -> StoredOptions:
    name = FileNames.of([file.name for file in handle.files]).options
    stream = next(file.stream for file in handle.private if file.name == name)
    with open_stream(stream, source) as stored, located(file=name):
        return read_options(stored.read_at(0, stored.size), name)


def require_writable_families(plan: OperatorPlan, read: Iterable[KeyedHandle], source: Folder) -> None:
    """Refuse column families that are to be rewritten and whose files cannot be written.

    Args:
        plan: The plan of the operator.
        read: The stored streams whose states are rewritten.
        source: The folder of the stored state.

    Raises:
        UnsupportedFormat: There is such a family.
    """
    for handle in read if plan.is_native else ():
        if isinstance(handle, DatabaseHandle):
            for family in _stored_options(handle, source).families:
                state = plan.state(family.name, keyed=True)
                if family.name != DEFAULT_FAMILY and (state is None or state.action is not StateAction.DROP):
                    require_writable(family)


class _Database:
    """Writes a database.

    Args:
        header: Its states.
        options: The options, with its states in their order.
        target: The folder to write to.
        name: The name of the stream.
        kept: The column families that stay as they are.
        executor: The executor that makes blocks.
    """

    def __init__(
        self,
        header: KeyedStreamHeader,
        options: StoredOptions,
        target: Folder,
        name: str,
        kept: KeptFamilies,
        executor: ExecutorName,
    ) -> None:
        self._header, self._target, self._name = header, target, name
        self._options = options
        self._manifest, self._options_number, self._next = range(kept.next_file, kept.next_file + 3)
        self._kept = kept
        self._kept_parts: list[DatabasePart] = []
        self._kept_states: tuple[StateFiles, ...] = ()
        self._tables: dict[int, _TableFile] = {}
        self._threads = _Threads()
        self._written: list[str] = []
        self._states = {
            at: _SortedState(TableWriter(family, self._new_file, executor), self._opened, executor)
            for at, family in enumerate(options.families[1:])
            if family.name not in kept.files
        }

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
        files: dict[str, Sequence[TableFile]] = {}
        for at, state in self._states.items():
            with located(state=self._header.states[at].name):
                files[self._header.states[at].name] = state.finish()
        written = sorted((table for tables in files.values() for table in tables), key=lambda table: table.number)
        parts = [*self._kept_parts, *(DatabasePart(table.name, self._tables[table.number].stored) for table in written)]
        files |= self._kept.files
        listed = [(info.name, files[info.name]) for info in self._header.states]
        manifest = f"MANIFEST-{self._manifest:06d}"
        contents = {
            manifest: ("manifest", write_manifest([(DEFAULT_FAMILY, ()), *listed], self._next)),
            f"OPTIONS-{self._options_number:06d}": ("options", print_stored_options(self._options).encode()),
            CURRENT: ("current", f"{manifest}\n".encode()),
        }
        for file, (what, data) in contents.items():
            parts.append(DatabasePart(file, self._put(part_name(self._name, what), data)))
        self._threads.end()
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
        self._threads.end()
        for table in self._tables.values():
            table.sink.discard()
        for attempt in self._written:
            with suppress(StateShiftError):  # the original failure is the one to report
                self._target.delete(attempt)

    def _new_file(self) -> tuple[int, _TableFile]:
        number, self._next = self._next, self._next + 1
        table = self._tables[number] = _TableFile(StreamSink(self._target, self._table(number)), self._threads)
        return number, table

    @contextmanager
    def _opened(self, file: TableFile) -> Iterator[ByteSource]:
        """Open a file that was written; at the end of the `with` block remove it."""
        stored = self._tables[file.number].stored
        if stored.data is not None:
            yield InlineBytes(stored.data, file.name)
            return
        with self._target.open_range(stored.attempt) as source:
            yield source
        self._target.delete(stored.attempt)

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


class _Threads:
    """What waits for a disk: a thread writes, another one syncs the files that are finished."""

    def __init__(self) -> None:
        self.writing, self.syncing = ThreadPoolExecutor(1), ThreadPoolExecutor(1)

    def end(self) -> None:
        """Wait for both."""
        self.writing.shutdown()
        self.syncing.shutdown()


@attrs.define
class _TableFile:
    """A file with entries: a small one goes into `_metadata`, as Flink does it.

    Bytes are written in their order while the next ones are made; an error comes with a later call.
    """

    sink: StreamSink
    _threads: _Threads
    _waiting: deque[Future[int]] = attrs.field(factory=deque)
    _finished: Future[StoredBytes] = attrs.field(init=False)

    def write(self, data: bytes | memoryview) -> int:
        self._waiting.append(self._threads.writing.submit(self.sink.write, data))
        if len(self._waiting) > _MOST_WAITING:
            self._waiting.popleft().result()
        return len(data)

    def finish(self) -> None:
        self._finished = self._threads.syncing.submit(self._finish)

    def _finish(self) -> StoredBytes:
        for written in self._waiting:
            written.result()
        return self.sink.finish()

    @property
    def stored(self) -> StoredBytes:
        """What was written, as soon as it is synced."""
        return self._finished.result()


class _SortedState:
    """Sorts the entries of a state in each key group; what is too much for the memory is written in parts.

    Those of a database are in order already. A part is final, unless a later one has keys before its last: then the
    parts are merged.

    Args:
        writer: Writes them.
        opened: Opens a file that was written, and removes it when the `with` block ends.
        executor: The executor that looks at the order.
    """

    def __init__(
        self,
        writer: TableWriter,
        opened: Callable[[TableFile], AbstractContextManager[ByteSource]],
        executor: ExecutorName,
    ) -> None:
        self._writer, self._opened, self._executor = writer, opened, executor
        self._key_group, self._size = -1, 0
        self._held: list[Block] = []
        self._last = b""
        self._parts: list[int] = []

    def add(self, block: Block) -> None:
        block.refuse_oversized()
        if block.key_group != self._key_group:
            self._write()
            self._key_group = block.key_group
        if block.entries:
            self._held.append(block)
            self._size += block.size_bytes
        if self._size > _HELD_BYTES:
            if not self._parts:
                self._begin_part()
            self._put()

    def finish(self) -> list[TableFile]:
        self._write()
        return self._writer.finish()

    def _write(self) -> None:
        """Write what is left of a key group."""
        self._put()
        if len(self._parts) > 1:
            self._merge()
        self._parts, self._last = [], b""

    def _put(self) -> None:
        held, self._held, self._size = self._held, [], 0
        if not held:
            return
        is_in_order = all(ascends(block.data, self._executor) for block in held) and all(
            one.key_at(one.find_last_entry()) < other.key_at(0) for one, other in pairwise(held)
        )
        if not is_in_order:
            held = [*_blocks_of(self._key_group, sorted(chain.from_iterable(block.items() for block in held)))]
        if self._parts and held[0].key_at(0) <= self._last:
            self._begin_part()
        for block in held:
            self._writer.add(block.data, block.entries)
        self._last = held[-1].key_at(held[-1].find_last_entry())

    def _begin_part(self) -> None:
        self._writer.cut()
        self._parts.append(len(self._writer.files))

    def _merge(self) -> None:
        self._writer.cut()
        written = self._writer.files[:]
        del self._writer.files[self._parts[0] :]
        with ExitStack() as stack:
            parts = [
                [
                    open_table(stack.enter_context(self._opened(file)), file, self._executor)
                    for file in written[begin:end]
                ]
                for begin, end in pairwise([*self._parts, len(written)])
            ]
            for block in _blocks_of(self._key_group, heapq.merge(*map(_items, parts))):
                self._writer.add(block.data, block.entries)


def _items(tables: list[Table]) -> Iterator[tuple[bytes, bytes]]:
    return ((key, value) for table in tables for records in table.blocks() for key, _, _, value in records.items())


def _blocks_of(key_group: int, items: Iterable[tuple[bytes, bytes]]) -> Iterator[Block]:
    left = iter(items)
    while some := [*islice(left, _ITEMS)]:
        yield Block.of(key_group, 0, some)
