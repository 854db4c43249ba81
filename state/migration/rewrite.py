"""Rewriting of one stream: its states are copied, relabelled or converted.

These tasks are independent of the engine that schedules them. Each may run twice, or be killed: it writes to a file of
its own attempt, and changes nothing else. Source: DESIGN, section 4; rules RUN-1 to RUN-4, RUN-7.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

import attrs

from ...compat.plan import Compression, OperatorPlan, StateAction, StatePlan
from ...serializers.errors import CorruptSavepoint, UnsupportedFormat, located
from ...serializers.pickled.trust import trusting
from ...serializers.views import DataInputView
from ..formats.flink.database_files import release_copies
from ..formats.flink.entries import read_pieces
from ..formats.flink.keyed_readers import open_keyed, read_header
from ..formats.flink.keyed_stream import KeyedStreamHeader
from ..formats.flink.meta_info import (
    KEY_SERIALIZER,
    NAMESPACE_SERIALIZER,
    VALUE_SERIALIZER,
    MetaInfoKind,
    StateMetaInfo,
    keyed_options,
    merged_info,
)
from ..formats.flink.operator_stream import (
    OperatorStream,
    OperatorStreamHeader,
    read_operator_stream,
    require_written_order,
    write_operator_stream,
)
from ..formats.flink.sources import open_proven, open_stream
from ..formats.flink.state_kinds import keyed_kind
from ..formats.flink.suspects import suspect
from ..publication.publish import stream_name
from ..publication.sink import StreamSink
from ..savepoint.stream_proofs import prove_elements
from ..transcode.executor_choice import choose_executor
from ..transcode.factory import make_element_transcoder
from .block_rewriter import BlockRewriter, Tally, new_name
from .outputs import keyed_output
from .quarantine import Quarantine, stored_types
from .stream_rewriter import StreamRewriter, is_dropped
from .tasks import KeyedTask, OperatorTask, TaskResult, digest_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..formats.flink.handles import KeyedHandle, OperatorStateHandle
    from ..formats.flink.keyed_stream import KeyedReader
    from ..storage.files import Folder
    from ..transcode.executor_choice import ExecutorName

_MOST_TRIES = 100


def rewrite_keyed(
    task: KeyedTask, source: Folder, target: Folder, executor: ExecutorName, *, alone: bool = False
) -> TaskResult:
    """Write the keyed stream of one new subtask; arguments and errors as in `run_task.perform`."""
    header = new_keyed_header(task.plan, [read_header(handle, source) for handle in task.handles])
    stored_infos = {info.name: info for handle in task.read for info in read_header(handle, source).states}
    tallies = {name: Tally() for name in stored_infos}
    foreign = 0
    with (
        keyed_output(task, header, source, target, executor) as output,
        Quarantine(target, task.plan, "keyed", task.subtask) as quarantine,
    ):
        for handle in sorted(task.read, key=lambda handle: handle.first_key_group):
            xxh128 = digest_of(task.digests, handle.stream)
            with open_keyed(handle, source, task.max_parallelism, xxh128, executor=executor) as reader:
                stream = StreamRewriter(task.plan, task.max_parallelism, reader, header, tallies, quarantine)
                try:
                    stream.write(task.key_groups, output.writer, alone=alone)
                except CorruptSavepoint as error:
                    suspect_reader(error, task.plan, reader)
                    raise
                foreign += reader.foreign if handle.first_key_group in task.key_groups else 0
        written, aside = output.finish(), quarantine.finish()
    if task.read != task.handles:
        release_copies(task.read, source)  # nobody else reads a part of a database
    counts = tuple(
        tallies[name].result(task.plan, task.plan.state(name, keyed=True), info) for name, info in stored_infos.items()
    )
    return written.result(counts=(*task.kept.counts, *counts), quarantine=aside, foreign=foreign)


def suspect_reader(error: CorruptSavepoint, plan: OperatorPlan, reader: KeyedReader) -> None:
    """Say in an error about a value of a stream whether its reader fails on all values of the state."""
    name = error.where.get("state")
    ids = [index for index, info in enumerate(reader.header.states) if info.name == name]
    state = plan.state(str(name), keyed=True) if ids else None
    if state is None or state.value is None:
        return
    old = state.value.reader
    values = (data for block in reader.blocks(state_ids=ids) for _, data in block.items())
    with trusting(state.trust):
        suspect(error, old, partial(read_pieces, keyed_kind(reader.header.states[ids[0]]), old), values)


def new_keyed_header(plan: OperatorPlan, headers: list[KeyedStreamHeader]) -> KeyedStreamHeader:
    """Return one header with all states of the stored streams, and the plan's snapshots."""
    infos: dict[str, StateMetaInfo] = {}
    for info in (info for header in headers for info in header.states):
        state = plan.state(info.name, keyed=True)
        if is_dropped(state):
            continue
        new = _relabelled(info, state)
        infos[new.name], disagreed = merged_info(infos.get(new.name, new), new)
        if disagreed:
            raise UnsupportedFormat(
                f"the subtasks describe the state {info.name!r} differently, so their streams cannot become one",
                advice="migrate at the parallelism of the savepoint",
                state=info.name,
            )
    key = plan.key or headers[0].key_snapshot
    compressed = _is_compressed(plan, any(header.compressed for header in headers))
    return KeyedStreamHeader(key, tuple(infos.values()), compressed)


def _is_compressed(plan: OperatorPlan, was: bool) -> bool:  # noqa: FBT001 - private, positional
    return was if plan.compression is Compression.KEEP else plan.compression is Compression.SNAPPY


def _relabelled(info: StateMetaInfo, state: StatePlan | None) -> StateMetaInfo:
    """Return a state's metadata with the name and the snapshots of its plan."""
    if state is None or state.action is StateAction.COPY:
        return info
    info = attrs.evolve(info, name=new_name(info, state))
    if state.transform is not None:
        info = attrs.evolve(info, options=keyed_options(state.kind.name))
    labels = {
        VALUE_SERIALIZER: state.new.value,
        NAMESPACE_SERIALIZER: state.new.namespace,
        KEY_SERIALIZER: state.new.key,
    }
    return info.with_snapshots(**{role: snapshot for role, snapshot in labels.items() if snapshot is not None})


def rewrite_operator(task: OperatorTask, source: Folder, target: Folder, executor: ExecutorName) -> TaskResult:
    """Write the stream of list and broadcast state of one new subtask; errors as in `run_task.perform`."""
    stored_state = _gathered(task, source, executor)
    header = stored_state.header
    new_header = OperatorStreamHeader(
        _relabelled_all(task.plan, header.list_states),
        _relabelled_all(task.plan, header.broadcast_states),
        _is_compressed(task.plan, header.compressed),
    )
    with (
        StreamSink(target, stream_name(task.plan.operator_id, "operator", task.subtask)) as sink,
        Quarantine(target, task.plan, "operator", task.subtask) as quarantine,
    ):
        elements, broadcast, tallies = _transcoded_elements(task.plan, stored_state, executor, quarantine)
        states = write_operator_stream(new_header, elements, broadcast, sink.write)
        stored, aside = sink.finish(), quarantine.finish()
    counts = tuple(
        tallies[info.name].result(task.plan, _operator_plan(task.plan, info), info) for info in header.states
    )
    return TaskResult(stored, states=states, counts=counts, quarantine=aside)


def _gathered(task: OperatorTask, source: Folder, executor: ExecutorName) -> OperatorStream:
    """Read the shares of the subtask, from one stored stream after the other."""
    elements: dict[str, tuple[bytes, ...]] = {}
    broadcast: dict[str, bytes] = {}
    header = task.header
    for share in task.shares:
        xxh128 = digest_of(task.digests, share.handle.stream)
        require_written_order(share.handle)
        with open_proven(share.handle.stream, source, xxh128) as stream:
            found = read_operator_stream(stream, share.handle, share.elements)
            for info in _kept_as_they_are(task.plan, found.header):
                with located(file=stream.name):
                    prove_elements(info, found.parts_of(info), executor)
        header = header or found.header
        for name, parts in found.elements.items():
            elements[name] = elements.get(name, ()) + parts
        broadcast |= found.broadcast
    header = header or OperatorStreamHeader()
    return OperatorStream(header, {info.name: elements.get(info.name, ()) for info in header.list_states}, broadcast)


def _kept_as_they_are(plan: OperatorPlan, header: OperatorStreamHeader) -> Iterator[StateMetaInfo]:
    """Yield the states that are neither dropped nor converted, which no conversion reads."""
    for info in header.states:
        state = _operator_plan(plan, info)
        if not is_dropped(state) and (state is None or state.action is not StateAction.CONVERT):
            yield info


def _operator_plan(plan: OperatorPlan, info: StateMetaInfo) -> StatePlan | None:
    return plan.state(info.name, keyed=False, broadcast=info.kind is MetaInfoKind.BROADCAST)


def _relabelled_all(plan: OperatorPlan, infos: tuple[StateMetaInfo, ...]) -> tuple[StateMetaInfo, ...]:
    pairs = [(info, _operator_plan(plan, info)) for info in infos]
    return tuple(_relabelled(info, state) for info, state in pairs if not is_dropped(state))


def _transcoded_elements(
    plan: OperatorPlan, stored: OperatorStream, executor: ExecutorName, quarantine: Quarantine
) -> tuple[dict[str, list[bytes]], dict[str, bytes], dict[str, Tally]]:
    elements: dict[str, list[bytes]] = {}
    broadcast: dict[str, bytes] = {}
    tallies: dict[str, Tally] = {}
    for info in stored.header.states:
        state = _operator_plan(plan, info)
        is_map = info.kind is MetaInfoKind.BROADCAST
        one_map = stored.broadcast.get(info.name)
        parts = list(stored.elements[info.name]) if not is_map else [] if one_map is None else [one_map]
        found, aside = parts, 0
        if state is not None and state.action is StateAction.CONVERT:
            transcoder = make_element_transcoder(state, executor, quarantines=plan.max_bad_values > 0)
            with trusting(state.trust):
                transcoded = transcoder.transcode(parts)
            quarantine.put(state, transcoded.quarantined, stored_types(plan, info, None, 0))
            found, aside = list(transcoded.elements), len(transcoded.quarantined)
        read, written = (count_elements(side, is_map=is_map) for side in (parts, found))
        if is_dropped(state):
            tallies[info.name] = Tally(read=read, dropped=read)
            continue
        tallies[info.name] = Tally(read=read, written=written, quarantined=aside)
        if not is_map:
            elements[new_name(info, state)] = found
        elif found:
            broadcast[new_name(info, state)] = found[0]
    return elements, broadcast, tallies


def count_elements(parts: Sequence[bytes], *, is_map: bool) -> int:
    """Return the number of elements; for broadcast state that of the map's entries."""
    return sum(DataInputView(part).read_int() for part in parts) if is_map else len(parts)


def sample_keyed(
    states: Iterable[StatePlan], handle: KeyedHandle, max_parallelism: int, source: Folder, *, quarantines: bool = False
) -> list[str]:
    """Convert the first entry of each of some states in a stream, and discard it; return the states that have one.

    A dry run checks the old reader and the conversion by it (rule READ-5); errors as in `run_task.perform`. If bad
    values are quarantined, or expired values dropped, blocks are converted until one entry would be written.
    """
    with open_keyed(handle, source, max_parallelism) as reader:
        ids = defaultdict(list)
        for index, info in enumerate(reader.header.states):
            ids[info.name].append(index)
        found = []
        for state in states:
            with located(state=state.name):
                if _has_sample(state, reader, ids[state.name], max_parallelism, quarantines=quarantines):
                    found.append(state.name)
    return found


def _has_sample(
    state: StatePlan, reader: KeyedReader, state_ids: list[int], max_parallelism: int, *, quarantines: bool
) -> bool:
    tally = Tally()
    looks_on = quarantines or (state.value is not None and state.value.expired_until_ms is not None)
    for block in reader.blocks(state_ids=state_ids) if state_ids else ():
        info = reader.header.states[block.state_id]
        key = reader.header.key_snapshot
        rewriter = BlockRewriter.of(info, state, key, max_parallelism, reader.executor, forgets=quarantines)
        if rewriter is None:
            continue
        rewriter.rewrite(block if looks_on else rewriter.first_of(block), block.state_id, tally)
        if tally.written or not looks_on or tally.quarantined + tally.dropped > _MOST_TRIES:
            break
    return tally.written > 0 if looks_on else tally.read > 0


def sample_elements(
    state: StatePlan, handle: OperatorStateHandle, source: Folder, *, quarantines: bool = False
) -> bool:
    """Convert the first element of an operator's list state, or its broadcast map, as `sample_keyed`."""
    with open_stream(handle.stream, source) as stream:
        stored = read_operator_stream(stream, handle)
    parts = stored.elements.get(state.name) or tuple(
        data for name, data in stored.broadcast.items() if name == state.name
    )
    transcoder = make_element_transcoder(state, choose_executor(0), quarantines=quarantines)
    tried = parts[: _MOST_TRIES if quarantines else 1]
    with trusting(state.trust):
        return any(transcoder.transcode([part]).elements for part in tried)
