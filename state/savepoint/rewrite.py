"""One piece of a migration: a stream is read, its states copied, relabelled or converted, and written anew.

Pure of any engine: `spark.migrate` schedules these tasks. Each may run twice, or be killed: it writes under a name of
its own attempt and changes nothing else. Source: DESIGN, section 4; rules RUN-1 to RUN-4, RUN-7.
"""

from __future__ import annotations

import zlib
from itertools import islice
from typing import TYPE_CHECKING, Any, assert_never

import attrs

from ...compat.plan import OperatorPlan, StateAction, StatePlan
from ...compat.transcode.framing import EntryFraming, ValueFraming, entry_framing, value_framing
from ...compat.transcode.objects import SEPARATOR
from ...compat.transcode.transcoder import Transcoder, make_element_transcoder, make_transcoder
from ...serializers.errors import CorruptSavepoint, MigrationFailed, StateShiftError, located, shown
from ...serializers.views import DataInputView
from ..key_groups import prefix_size
from .blocks import Block, join_pieces
from .entries import read_separated
from .entry_keys import decode, encode
from .keyed_stream import KeyedStreamHeader, KeyedStreamReader, KeyedStreamWriter
from .lineage import StateCount
from .meta_info import KEY_SERIALIZER, NAMESPACE_SERIALIZER, VALUE_SERIALIZER, MetaInfoKind, StateMetaInfo
from .operator_stream import OperatorStream, OperatorStreamHeader, read_operator_stream, write_operator_stream
from .publish import stream_name
from .sink import StoredBytes, StreamSink
from .sources import open_stream
from .states import info_snapshot, keyed_kind, state_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from .files import Folder
    from .handles import KeyedHandle, OperatorStateHandle, OperatorStateOffsets, StreamHandle

_COPY_BYTES = 4 << 20


@attrs.frozen
class KeyedTask:
    """Rewrite the keyed state of a range of key groups into the stream of one new subtask.

    Attributes:
        plan: Of the operator.
        title: What messages call the operator.
        subtask: Of the result.
        parallelism: Number of subtasks of the result.
        key_groups: Exactly those of the subtask.
        max_parallelism: Number of key groups of the operator.
        handles: The stored streams that hold any of them.
    """

    plan: OperatorPlan
    title: str
    subtask: int
    parallelism: int
    key_groups: range
    max_parallelism: int
    handles: tuple[KeyedHandle, ...] = attrs.field(repr=False)

    @property
    def size_bytes(self) -> int:
        """About how much there is to read."""
        return sum(handle.stream.size for handle in self.handles)


@attrs.frozen
class OperatorTask:
    """Rewrite the list and broadcast states of one subtask."""

    plan: OperatorPlan
    title: str
    subtask: int
    handle: OperatorStateHandle = attrs.field(repr=False)

    @property
    def size_bytes(self) -> int:
        """How much there is to read."""
        return self.handle.stream.size


@attrs.frozen
class CopyTask:
    """Copy a file as it is.

    Attributes:
        title: What messages call the operator.
        name: What the copy is called.
        stream: The file; never inline.
        sha256: Its digest where the source's lineage tells it, or "".
    """

    title: str
    name: str
    stream: StreamHandle
    sha256: str = ""

    @property
    def size_bytes(self) -> int:
        """How much there is to copy."""
        return self.stream.size


Task = KeyedTask | OperatorTask | CopyTask


@attrs.frozen
class TaskResult:
    """What a task wrote.

    Attributes:
        stored: The stream, in memory or under an attempt's name.
        offsets: Of key groups, for a keyed stream.
        states: Of elements, for an operator stream.
        counts: Of each state (rule RUN-2).
    """

    stored: StoredBytes
    offsets: tuple[int, ...] = attrs.field(default=(), repr=False)
    states: tuple[OperatorStateOffsets, ...] = attrs.field(default=(), repr=False)
    counts: tuple[StateCount, ...] = ()


def perform(task: Task, source: Folder, target: Folder) -> TaskResult:
    """Carry out a task.

    Raises:
        ValueNotConvertible: A value does not fit its new type; with state, key, path and rule.
        CorruptSavepoint: What was read is damaged, or entries lie in a wrong key group.
        MigrationFailed: What was written is not what was read.
        StorageFailed: A store failed; the task may be tried again.
    """
    with located(savepoint=source.place, operator=task.title):
        match task:
            case KeyedTask():
                return _rewrite_keyed(task, source, target)
            case OperatorTask():
                return _rewrite_operator(task, source, target)
            case CopyTask():
                return _copy(task, source, target)
            case _:
                assert_never(task)


def _copy(task: CopyTask, source: Folder, target: Folder) -> TaskResult:
    with open_stream(task.stream, source) as stream, StreamSink(target, task.name, inline_bytes=0) as sink:
        for start in range(0, stream.size, _COPY_BYTES):
            sink.write(stream.read_at(start, min(_COPY_BYTES, stream.size - start)))
        stored = sink.finish()
        if task.sha256 and stored.digest is not None and stored.digest.sha256 != task.sha256:
            raise CorruptSavepoint("the file is not what its lineage says: the digest differs", file=stream.name)
    return TaskResult(stored)


@attrs.define
class _Tally:
    """Counts of one state, kept while its entries pass."""

    read: int = 0
    written: int = 0
    dropped: int = 0
    keys_read: int = 0
    keys_written: int = 0

    def result(self, plan: OperatorPlan, state: StatePlan | None, info: StateMetaInfo) -> StateCount:
        """Give the counts for the lineage, after checking them (rule RUN-2)."""
        keeps_keys = state is None or state.user_key is None
        if self.read != self.written + self.dropped or (keeps_keys and self.keys_read != self.keys_written):
            raise MigrationFailed(
                f"{self.read} entries were read, {self.written} written and {self.dropped} dropped, "
                f"and the checksums of their keys are {self.keys_read:x} and {self.keys_written:x}",
                state=info.name,
                advice="this is a bug in stateshift or in a serializer; nothing is published",
            )
        action = StateAction.COPY if state is None else state.action
        keys = f"{self.keys_written:016x}" if action is StateAction.CONVERT else ""
        kind = str(state_kind(info))
        operator_id, name = plan.new_id or plan.operator_id, _new_name(info, state)
        return StateCount(operator_id, plan.uid, name, kind, str(action), self.read, self.written, self.dropped, keys)


def _rewrite_keyed(task: KeyedTask, source: Folder, target: Folder) -> TaskResult:
    headers = [_read_header(handle, source) for handle in task.handles]
    stored_infos = {info.name: info for header in headers for info in header.states}
    header = _new_keyed_header(task.plan, headers)
    tallies = {name: _Tally() for name in stored_infos}
    with StreamSink(target, stream_name(task.plan.operator_id, "keyed", task.subtask)) as sink:
        writer = KeyedStreamWriter(header, task.key_groups, sink.write)
        for handle in sorted(task.handles, key=lambda handle: handle.first_key_group):
            with open_stream(handle.stream, source) as stream:
                reader = KeyedStreamReader.open(stream, handle)
                for block in _rewritten(task, reader, header, tallies):
                    writer.add(block)
        offsets = writer.finish()
        stored = sink.finish()
    counts = tuple(
        tallies[name].result(task.plan, task.plan.state(name, keyed=True), info) for name, info in stored_infos.items()
    )
    return TaskResult(stored, offsets=offsets, counts=counts)


def _read_header(handle: KeyedHandle, source: Folder) -> KeyedStreamHeader:
    with open_stream(handle.stream, source) as stream:
        return KeyedStreamReader.open(stream, handle).header


def _new_keyed_header(plan: OperatorPlan, headers: list[KeyedStreamHeader]) -> KeyedStreamHeader:
    """Put all states of the stored streams under one header, with the plan's snapshots."""
    infos: dict[str, StateMetaInfo] = {}
    for info in (info for header in headers for info in header.states):
        state = plan.state(info.name, keyed=True)
        if not _is_dropped(state):
            infos.setdefault(info.name, _relabelled(info, state))
    key = plan.key or headers[0].key_snapshot
    return KeyedStreamHeader(key, tuple(infos.values()))


def _is_dropped(state: StatePlan | None) -> bool:
    return state is not None and state.action is StateAction.DROP


def _new_name(info: StateMetaInfo, state: StatePlan | None) -> str:
    return state.new_name if state is not None and state.new_name else info.name


def _relabelled(info: StateMetaInfo, state: StatePlan | None) -> StateMetaInfo:
    """Give a state's metadata the name and the snapshots of its plan."""
    if state is None or state.action is StateAction.COPY:
        return info
    info = attrs.evolve(info, name=_new_name(info, state))
    labels = {
        VALUE_SERIALIZER: state.new.value,
        NAMESPACE_SERIALIZER: state.new.namespace,
        KEY_SERIALIZER: state.new.key,
    }
    return info.with_snapshots(**{role: snapshot for role, snapshot in labels.items() if snapshot is not None})


def _rewritten(
    task: KeyedTask, reader: KeyedStreamReader, header: KeyedStreamHeader, tallies: dict[str, _Tally]
) -> Iterator[Block]:
    """Give the blocks of one stored stream under the ids of the new header; those of dropped states are counted."""
    infos = reader.header.states
    plans = [task.plan.state(info.name, keyed=True) for info in infos]
    new_ids = [
        None if _is_dropped(state) else header.state_id(_new_name(info, state))
        for info, state in zip(infos, plans, strict=True)
    ]
    rewriters = [_BlockRewriter.of(info, task, reader.header.key_snapshot) for info in reader.header.states]
    for block in _whole_runs(reader.blocks(task.key_groups), rewriters):
        rewriter, tally = rewriters[block.state_id], tallies[infos[block.state_id].name]
        new_id = new_ids[block.state_id]
        if new_id is None:
            tally.read += block.entries
            tally.dropped += block.entries
        elif rewriter is None:
            tally.read += block.entries
            tally.written += block.entries
            yield attrs.evolve(block, state_id=new_id)
        else:
            with located(file=reader.source.name):
                yield rewriter.rewrite(block, new_id, tally)


def _whole_runs(blocks: Iterator[Block], rewriters: list[_BlockRewriter | None]) -> Iterator[Block]:
    """Join the pieces of a long block for those states that must be seen whole, to find colliding user keys."""
    pending: list[Block] = []
    for block in blocks:
        if pending and (pending[0].key_group, pending[0].state_id) != (block.key_group, block.state_id):
            yield from join_pieces(pending)
            pending = []
        rewriter = rewriters[block.state_id]
        if rewriter is not None and rewriter.transcoder.needs_whole_run:
            pending.append(block)
        else:
            yield block
    if pending:
        yield from join_pieces(pending)


@attrs.define
class _BlockRewriter:
    """Converts the blocks of one state of one stored stream."""

    plan: StatePlan
    framing: EntryFraming
    transcoder: Transcoder
    proven: bool = False

    @classmethod
    def of(cls, info: StateMetaInfo, task: KeyedTask, key: TypeSerializerConfigSnapshot[Any]) -> _BlockRewriter | None:
        """Make the rewriter of a state; None where its entries are copied."""
        plan = task.plan.state(info.name, keyed=True)
        if plan is None or plan.action is not StateAction.CONVERT:
            return None
        framing = entry_framing(
            keyed_kind(info),
            key_group_bytes=prefix_size(task.max_parallelism),
            key=key.restore_serializer(),
            namespace=info_snapshot(info, NAMESPACE_SERIALIZER).restore_serializer(),
        )
        return cls(plan, framing, make_transcoder(plan, framing))

    def rewrite(self, block: Block, new_id: int, tally: _Tally) -> Block:
        """Convert a block; count it, and check where its entries lie."""
        transcoded = self.transcoder.transcode(block.data)
        written = transcoded.entries - transcoded.dropped
        result = Block(block.key_group, new_id, transcoded.data, written)
        tally.read += block.entries
        tally.written += written
        tally.dropped += transcoded.dropped
        prefix = block.key_group.to_bytes(self.framing.key_group_bytes, "big")
        for key, _ in block.items():  # noqa: PERF102 - a block is no dict
            if not key.startswith(prefix):
                raise CorruptSavepoint(
                    f"an entry lies in key group {block.key_group} and says that it belongs to another",
                    state=self.plan.name,
                    key=self.framing.show_key(key),
                    rule="RUN-3",
                )
            tally.keys_read = _add_key(tally.keys_read, key)
        for key, value in result.items():
            tally.keys_written = _add_key(tally.keys_written, key)
            if not self.proven:
                prove_readable(self.plan, key, value)
                self.proven = True
        return result


def _add_key(total: int, key: bytes) -> int:
    """Add a key to a checksum that does not depend on the order."""
    return total + (zlib.crc32(key) << 32 | zlib.adler32(key)) & 0xFFFFFFFFFFFFFFFF


def prove_readable(plan: StatePlan, key: bytes, value: bytes) -> None:
    """Read what was written with the new serializer, and write it again: the bytes must be the same (rule RUN-7).

    Raises:
        MigrationFailed: They are not, or the serializer fails.
        ValueNotConvertible: The new class does not take the value.
    """
    recoding = plan.value
    if recoding is None:
        return
    framing, writer = value_framing(plan.kind), recoding.writer
    if framing is ValueFraming.NULLABLE and DataInputView(value).read_boolean():
        return
    data = value[1:] if framing is ValueFraming.NULLABLE else value
    try:
        if framing is ValueFraming.SEPARATED:
            again = SEPARATOR.join(encode(writer, element) for element in read_separated(writer, data))
        else:
            again = encode(writer, decode(writer, data))
    except StateShiftError:
        raise
    except Exception as error:
        raise MigrationFailed(
            f"the new serializer fails on its own bytes {shown(data.hex())}: {type(error).__name__}: {error}",
            state=plan.name,
            key=shown(key.hex()),
            rule="RUN-7",
            advice="mend the serializer; nothing is published",
        ) from error
    if again != data:
        raise MigrationFailed(
            f"the new serializer reads its own bytes and writes others: {shown(data.hex())}, then {shown(again.hex())}",
            state=plan.name,
            key=shown(key.hex()),
            rule="RUN-7",
            advice="make the serializer deterministic; nothing is published",
        )


def _rewrite_operator(task: OperatorTask, source: Folder, target: Folder) -> TaskResult:
    with open_stream(task.handle.stream, source) as stream:
        stored_state = read_operator_stream(stream, task.handle)
    header = stored_state.header
    new_header = OperatorStreamHeader(
        _relabelled_all(task.plan, header.list_states), _relabelled_all(task.plan, header.broadcast_states)
    )
    elements, broadcast, tallies = _transcoded_elements(task.plan, stored_state)
    with StreamSink(target, stream_name(task.plan.operator_id, "operator", task.subtask)) as sink:
        states = write_operator_stream(new_header, elements, broadcast, sink.write)
        stored = sink.finish()
    counts = tuple(
        tallies[info.name].result(task.plan, _operator_plan(task.plan, info), info) for info in header.states
    )
    return TaskResult(stored, states=states, counts=counts)


def _operator_plan(plan: OperatorPlan, info: StateMetaInfo) -> StatePlan | None:
    return plan.state(info.name, keyed=False, broadcast=info.kind is MetaInfoKind.BROADCAST)


def _relabelled_all(plan: OperatorPlan, infos: tuple[StateMetaInfo, ...]) -> tuple[StateMetaInfo, ...]:
    pairs = [(info, _operator_plan(plan, info)) for info in infos]
    return tuple(_relabelled(info, state) for info, state in pairs if not _is_dropped(state))


def _transcoded_elements(
    plan: OperatorPlan, stored: OperatorStream
) -> tuple[dict[str, list[bytes]], dict[str, bytes], dict[str, _Tally]]:
    elements: dict[str, list[bytes]] = {}
    broadcast: dict[str, bytes] = {}
    tallies: dict[str, _Tally] = {}
    for info in stored.header.states:
        state = _operator_plan(plan, info)
        is_map = info.kind is MetaInfoKind.BROADCAST
        one_map = stored.broadcast.get(info.name)
        parts = list(stored.elements[info.name]) if not is_map else [] if one_map is None else [one_map]
        found = parts
        if state is not None and state.action is StateAction.CONVERT:
            transcoder = make_element_transcoder(state)
            found = [transcoder.transcode_element(part) for part in parts]
        if _is_dropped(state):
            tallies[info.name] = _Tally(read=len(parts), dropped=len(parts))
            continue
        tallies[info.name] = _Tally(read=len(parts), written=len(found))
        if not is_map:
            elements[_new_name(info, state)] = found
        elif found:
            broadcast[_new_name(info, state)] = found[0]
    return elements, broadcast, tallies


def sample_keyed(
    plan: OperatorPlan, state: StatePlan, handle: KeyedHandle, max_parallelism: int, source: Folder
) -> bool:
    """Convert the first entry of a state in a stream, and drop the result; False where there is no entry.

    A dry run proves the old reader and the conversion by it (rule READ-5); errors as `perform`.
    """
    task = KeyedTask(plan, "", 0, 1, handle.key_groups, max_parallelism, (handle,))
    with open_stream(handle.stream, source) as stream:
        reader = KeyedStreamReader.open(stream, handle)
        for block in reader.blocks():
            info = reader.header.states[block.state_id]
            if info.name != state.name or not block.entries:
                continue
            rewriter = _BlockRewriter.of(info, task, reader.header.key_snapshot)
            if rewriter is not None:
                first = Block.of(block.key_group, block.state_id, islice(block.items(), 1))
                rewriter.rewrite(first, block.state_id, _Tally())
                return True
    return False


def sample_elements(state: StatePlan, handle: OperatorStateHandle, source: Folder) -> bool:
    """Convert the first element of an operator's list state, or its broadcast map; as `sample_keyed`."""
    with open_stream(handle.stream, source) as stream:
        stored = read_operator_stream(stream, handle)
    parts = stored.elements.get(state.name) or tuple(
        data for name, data in stored.broadcast.items() if name == state.name
    )
    for part in parts[:1]:
        make_element_transcoder(state).transcode_element(part)
    return bool(parts)
