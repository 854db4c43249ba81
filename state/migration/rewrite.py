"""One piece of a migration: a stream is read, its states copied, relabelled or converted, and written anew.

Pure of any engine: `spark.migrate` schedules these tasks. Each may run twice, or be killed: it writes under a name of
its own attempt and changes nothing else. Source: DESIGN, section 4; rules RUN-1 to RUN-4, RUN-7.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs

from ...compat.plan import Compression, OperatorPlan, StateAction, StatePlan
from ...compat.transcode.executors import ExecutorName, paying
from ...compat.transcode.making import make_element_transcoder
from ...serializers.errors import StateShiftError, UnsupportedFormat, located
from ...serializers.unpickling import trusting
from ...serializers.views import DataInputView
from ..savepoint.keyed_readers import batches, blocks_ahead, open_keyed, read_header
from ..savepoint.keyed_stream import KeyedStreamHeader, KeyedStreamWriter
from ..savepoint.meta_info import (
    KEY_SERIALIZER,
    NAMESPACE_SERIALIZER,
    VALUE_SERIALIZER,
    MetaInfoKind,
    StateMetaInfo,
    keyed_options,
    merged_info,
)
from ..savepoint.operator_stream import (
    OperatorStream,
    OperatorStreamHeader,
    read_operator_stream,
    write_operator_stream,
)
from ..savepoint.publish import stream_name
from ..savepoint.sink import StreamSink
from ..savepoint.sources import Ahead, open_stream
from .block_rewriter import BlockRewriter, Tally, new_name, whole_runs
from .quarantine import Quarantine, TakesBadValues
from .tasks import KeyedTask, OperatorTask, TaskResult
from .together import convert_together

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..savepoint.blocks import Block
    from ..savepoint.files import Folder
    from ..savepoint.handles import KeyedHandle, OperatorStateHandle
    from ..savepoint.keyed_readers import KeyedReader
    from .together import Step

_MOST_TRIES = 100


def rewrite_keyed(task: KeyedTask, source: Folder, target: Folder) -> TaskResult:
    """Write the keyed stream of one new subtask; errors as of `performing.perform`."""
    headers = [read_header(handle, source) for handle in task.handles]
    stored_infos = {info.name: info for header in headers for info in header.states}
    header = new_keyed_header(task.plan, headers)
    tallies = {name: Tally() for name in stored_infos}
    with (
        StreamSink(target, stream_name(task.plan.operator_id, "keyed", task.subtask)) as sink,
        Quarantine(target, task.plan, "keyed", task.subtask) as quarantine,
    ):
        writer = KeyedStreamWriter(header, task.key_groups, sink.write)
        for handle in sorted(task.handles, key=lambda handle: handle.first_key_group):
            with open_keyed(handle, source, task.max_parallelism) as reader:
                for block in rewritten_blocks(
                    task.plan, task.key_groups, task.max_parallelism, reader, header, tallies, quarantine
                ):
                    writer.add(block)
        offsets = writer.finish()
        stored, aside = sink.finish(), quarantine.finish()
    counts = tuple(
        tallies[name].result(task.plan, task.plan.state(name, keyed=True), info) for name, info in stored_infos.items()
    )
    return TaskResult(stored, offsets=offsets, counts=counts, quarantine=aside)


def new_keyed_header(plan: OperatorPlan, headers: list[KeyedStreamHeader]) -> KeyedStreamHeader:
    """Put all states of the stored streams under one header, with the plan's snapshots."""
    infos: dict[str, StateMetaInfo] = {}
    for info in (info for header in headers for info in header.states):
        state = plan.state(info.name, keyed=True)
        if _is_dropped(state):
            continue
        new = _relabelled(info, state)
        infos[new.name], disagreed = merged_info(infos.get(new.name, new), new)
        if disagreed:
            raise UnsupportedFormat(
                f"the subtasks describe the state {info.name!r} differently, so their streams cannot become one",
                advice="migrate at the parallelism that the savepoint has",
                state=info.name,
            )
    key = plan.key or headers[0].key_snapshot
    compressed = _is_compressed(plan, any(header.compressed for header in headers))
    return KeyedStreamHeader(key, tuple(infos.values()), compressed)


def _is_compressed(plan: OperatorPlan, was: bool) -> bool:  # noqa: FBT001 - private, positional
    return was if plan.compression is Compression.KEEP else plan.compression is Compression.SNAPPY


def _is_dropped(state: StatePlan | None) -> bool:
    return state is not None and state.action is StateAction.DROP


def _relabelled(info: StateMetaInfo, state: StatePlan | None) -> StateMetaInfo:
    """Give a state's metadata the name and the snapshots of its plan."""
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


def new_state_id(plan: OperatorPlan, info: StateMetaInfo, header: KeyedStreamHeader) -> int | None:
    """Give the place of a stored state in the new header; None where it is dropped."""
    state = plan.state(info.name, keyed=True)
    return None if _is_dropped(state) else header.state_id(new_name(info, state))


def rewritten_blocks(
    plan: OperatorPlan,
    key_groups: range,
    max_parallelism: int,
    reader: KeyedReader,
    header: KeyedStreamHeader,
    tallies: dict[str, Tally],
    quarantine: TakesBadValues,
) -> Iterator[Block]:
    """Give the blocks of one stored stream under the ids of the new header, their values converted as planned.

    A thread reads and converts them; who takes them from here has them counted and proven.

    Args:
        plan: Of the operator.
        key_groups: Which are read.
        max_parallelism: Number of key groups of the stored operator.
        reader: Of the stream.
        header: The new one.
        tallies: Counts by stored name, which go on; entries of dropped states are counted, and not given.
        quarantine: Takes values that do not fit, where the plan allows any.
    """
    infos = reader.header.states
    plans = [plan.state(info.name, keyed=True) for info in infos]
    new_ids = [new_state_id(plan, info, header) for info in infos]
    aside = quarantine if plan.max_bad_values else None
    rewriters = [
        BlockRewriter.of(info, state, reader.header.key_snapshot, max_parallelism, aside)
        for info, state in zip(infos, plans, strict=True)
    ]

    def step(block: Block) -> Step:
        rewriter, new_id = rewriters[block.state_id], new_ids[block.state_id]
        tally = tallies[infos[block.state_id].name]
        if new_id is not None and rewriter is not None:
            return partial(rewriter.finish, rewriter.convert(block, new_id, surveys=line.waits), tally)
        return partial(_passed, block, new_id, tally)

    def steps() -> Iterator[list[Step]]:
        # numpy takes so long to find blocks that another thread does it; else a third one would only be in the way
        read = blocks_ahead if paying(0) is ExecutorName.NUMPY else type(reader).blocks
        for batch in batches(whole_runs(read(reader, key_groups), rewriters)):
            together = convert_together(batch, rewriters, new_ids)
            made = {state_id: found.steps(tallies[infos[state_id].name]) for state_id, found in together.items()}
            found: list[Step] = []
            try:
                found += (next(made[block.state_id]) if block.state_id in made else step(block) for block in batch)
            except StateShiftError:
                yield found  # what lies before the damage comes before the error
                raise
            yield found

    line = Ahead(steps())
    with located(file=reader.name):
        for some in line:
            for finish in some:
                new = finish()
                if new is not None:
                    yield new


def _passed(block: Block, new_id: int | None, tally: Tally) -> Block | None:
    """Count a block that stays as it is, or is dropped."""
    tally.read += block.entries
    if new_id is None:
        tally.dropped += block.entries
        return None
    tally.written += block.entries
    return attrs.evolve(block, state_id=new_id)


def rewrite_operator(task: OperatorTask, source: Folder, target: Folder) -> TaskResult:
    """Write the stream of list and broadcast state of one new subtask; errors as of `performing.perform`."""
    stored_state = _gathered(task, source)
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
        elements, broadcast, tallies = _transcoded_elements(task.plan, stored_state, quarantine)
        states = write_operator_stream(new_header, elements, broadcast, sink.write)
        stored, aside = sink.finish(), quarantine.finish()
    counts = tuple(
        tallies[info.name].result(task.plan, _operator_plan(task.plan, info), info) for info in header.states
    )
    return TaskResult(stored, states=states, counts=counts, quarantine=aside)


def _gathered(task: OperatorTask, source: Folder) -> OperatorStream:
    """Read what the subtask takes, from one stored stream after the other."""
    elements: dict[str, tuple[bytes, ...]] = {}
    broadcast: dict[str, bytes] = {}
    header = task.header
    for share in task.shares:
        with open_stream(share.handle.stream, source) as stream:
            found = read_operator_stream(stream, share.handle, share.elements)
        header = header or found.header
        for name, parts in found.elements.items():
            elements[name] = elements.get(name, ()) + parts
        broadcast |= found.broadcast
    header = header or OperatorStreamHeader()
    return OperatorStream(header, {info.name: elements.get(info.name, ()) for info in header.list_states}, broadcast)


def _operator_plan(plan: OperatorPlan, info: StateMetaInfo) -> StatePlan | None:
    return plan.state(info.name, keyed=False, broadcast=info.kind is MetaInfoKind.BROADCAST)


def _relabelled_all(plan: OperatorPlan, infos: tuple[StateMetaInfo, ...]) -> tuple[StateMetaInfo, ...]:
    pairs = [(info, _operator_plan(plan, info)) for info in infos]
    return tuple(_relabelled(info, state) for info, state in pairs if not _is_dropped(state))


def _transcoded_elements(
    plan: OperatorPlan, stored: OperatorStream, quarantine: Quarantine
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
            transcoder = make_element_transcoder(state, quarantines=plan.max_bad_values > 0)
            with trusting(state.trust):
                transcoded = transcoder.transcode(parts)
            quarantine.put(state, transcoded.quarantined)
            found, aside = list(transcoded.elements), len(transcoded.quarantined)
        read, written = (_count(side, is_map=is_map) for side in (parts, found))
        if _is_dropped(state):
            tallies[info.name] = Tally(read=read, dropped=read)
            continue
        tallies[info.name] = Tally(read=read, written=written, quarantined=aside)
        if not is_map:
            elements[new_name(info, state)] = found
        elif found:
            broadcast[new_name(info, state)] = found[0]
    return elements, broadcast, tallies


def _count(parts: list[bytes], *, is_map: bool) -> int:
    """Number of elements; of broadcast state that of the map's entries."""
    return sum(DataInputView(part).read_int() for part in parts) if is_map else len(parts)


def sample_keyed(
    state: StatePlan, handle: KeyedHandle, max_parallelism: int, source: Folder, *, quarantines: bool = False
) -> bool:
    """Convert the first entry of a state in a stream, and drop the result; False where there is no entry.

    A dry run proves the old reader and the conversion by it (rule READ-5); errors as `perform`. Where bad values go to
    quarantine, or what has expired is dropped, it is an entry that is written, from the first blocks that have one.
    """
    tally = Tally()
    looks_on = quarantines or (state.value is not None and state.value.expired_until_ms is not None)
    with open_keyed(handle, source, max_parallelism) as reader:
        wanted = [index for index, info in enumerate(reader.header.states) if info.name == state.name]
        for block in reader.blocks(state_ids=wanted) if wanted else ():
            info = reader.header.states[block.state_id]
            key = reader.header.key_snapshot
            rewriter = BlockRewriter.of(info, state, key, max_parallelism, forgets=quarantines)
            if rewriter is None:
                continue
            rewriter.rewrite(block if looks_on else rewriter.first_of(block), block.state_id, tally)
            if tally.written or not looks_on or tally.quarantined + tally.dropped > _MOST_TRIES:
                break
    return tally.written > 0 if looks_on else tally.read > 0


def sample_elements(
    state: StatePlan, handle: OperatorStateHandle, source: Folder, *, quarantines: bool = False
) -> bool:
    """Convert the first element of an operator's list state, or its broadcast map; as `sample_keyed`."""
    with open_stream(handle.stream, source) as stream:
        stored = read_operator_stream(stream, handle)
    parts = stored.elements.get(state.name) or tuple(
        data for name, data in stored.broadcast.items() if name == state.name
    )
    transcoder = make_element_transcoder(state, quarantines=quarantines)
    tried = parts[: _MOST_TRIES if quarantines else 1]
    with trusting(state.trust):
        return any(transcoder.transcode([part]).elements for part in tried)
