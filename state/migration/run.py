"""The engine-independent part of a migration: its division into tasks, and the publication of their results.

    plan = reshape(savepoint, plan)      # for another parallelism or compression
    tasks = split(savepoint, plan)
    results = [perform(task, savepoint.folder, target) for task in tasks]      # in any order, anywhere
    publish_result(savepoint, plan, tasks, results, target)

Source: DESIGN, section 4; rules, section 11.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import attrs

from ...compat.plan import MigrationPlan, OperatorPlan, StateAction, StatePlan
from ...compat.plan_data import to_data
from ...compat.targets import Target
from ...serializers.errors import MigrationFailed, UnsupportedFormat, located
from ...serializers.ways_out import Option, WayOut
from ..formats.flink.handles import (
    CANONICAL,
    CANONICAL_ADVICE,
    DATABASE,
    AbsoluteFileHandle,
    DatabaseFile,
    DatabaseHandle,
    InlineHandle,
    KeyedHandle,
    KeyGroupsHandle,
    OperatorStateHandle,
    RelativeFileHandle,
)
from ..formats.flink.keyed_readers import open_keyed, read_header
from ..formats.flink.metadata import OperatorState, SubtaskState, write_metadata
from ..formats.flink.operator_stream import read_operator_stream_header
from ..formats.flink.properties import CANONICAL_PROPERTIES, NATIVE_PROPERTIES
from ..formats.flink.redistribution import Share, deal_out, joined_headers
from ..formats.flink.roots import uri_of
from ..formats.flink.sources import InlineBytes, open_stream
from ..key_groups import key_group_range
from ..publication.commit import Commit
from ..publication.lineage import FileDigest, add_counts, add_files
from ..publication.publish import source_facts, stream_name
from ..publication.runs import serializers_name
from ..publication.stored_serializers import place_of, read_stored_serializers, write_pickles
from ..rocksdb.database import is_table
from ..savepoint.states import keyed_handles, require_own_key_groups
from ..savepoint.stream_proofs import prove_copied
from .kept_families import require_of_6, with_kept
from .outputs import require_writable_families
from .quarantine import require_few, require_whole
from .rewrite import new_keyed_header, sample_elements, sample_keyed
from .tasks import CopyTask, KeepTask, KeyedTask, OperatorTask, RekeyTask, Task, TaskResult, digest_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..formats.flink.handles import StreamHandle
    from ..formats.flink.operator_stream import OperatorStreamHeader
    from ..publication.lineage import Lineage
    from ..savepoint.reader import Savepoint
    from ..storage.files import Folder
    from .tasks import Digests

_FIELDS = {
    "keyed": "managed_keyed",
    "operator": "managed_operator",
    "raw-keyed": "raw_keyed",
    "raw-operator": "raw_operator",
}
"""The parts of a subtask, and the attributes of `SubtaskState` with their handles."""
_LOOKED_AT = frozenset({"keyed", "operator"})
"""The parts of a subtask whose entries and elements are checked; only the operator itself can read raw state."""
SUBTASK_BYTES = 64 << 20
"""An operator gets more subtasks if one would hold more than this, so that tasks stay small."""


def split(savepoint: Savepoint, plan: MigrationPlan) -> tuple[Task, ...]:
    """Return the tasks of a migration, the largest first.

    Args:
        savepoint: The source.
        plan: The plan, to which `reshape` has added another parallelism or compression.

    Raises:
        UnsupportedFormat: A stream that must be rewritten is in a format of which only the header can be read, or
            subtasks to be joined describe a state differently.
        CorruptSavepoint: `_metadata` differs from its lineage, or unchanged state inside it is damaged.
    """
    tasks: list[Task] = []
    with located(savepoint=savepoint.place):
        savepoint.require_intact_metadata()
    for stored in savepoint.metadata.operators:
        operator = plan.operator(stored.operator_id.hex())
        with located(savepoint=savepoint.place, operator=str(stored)):
            require_own_key_groups(stored)
            _look_at_inline(stored, operator)
            tasks += _operator_tasks(savepoint, stored, operator, is_old=plan.target is Target.FLINK_1_20)
    return tuple(sorted(tasks, key=lambda task: -task.size_bytes))


def _operator_tasks(
    savepoint: Savepoint, stored: OperatorState, plan: OperatorPlan | None, *, is_old: bool
) -> Iterator[Task]:
    rewrites = plan if plan is not None and plan.is_rewritten else None
    if rewrites is not None and rewrites.rewrites_keyed:
        handles = list(keyed_handles(stored))
        _require_reachable(savepoint, stored, handles)
        count = new_parallelism(stored, rewrites)
        if rewrites.rekeying is not None:
            yield from _rekey_tasks(savepoint, stored, rewrites, handles, count)
            handles = []
        made, most = [], stored.max_parallelism
        for index in range(count):
            groups = key_group_range(index, count, most)
            overlapping = tuple(handle for handle in handles if handle.reaches(groups))
            if overlapping:
                digests = first_digests(savepoint, overlapping, groups)
                made.append(KeyedTask(rewrites, str(stored), index, count, groups, most, overlapping, digests, is_old))
        yield from with_kept(made, savepoint.folder)
    if rewrites is not None and rewrites.rewrites_operator_state:
        yield from _list_tasks(savepoint, stored, rewrites)
    for subtask in stored.subtasks:
        for part, handle in _copied_streams(subtask, plan):
            if not isinstance(handle.stream, InlineHandle):
                yield _copy_task(savepoint, stored, part, subtask.index, handle)
        keyed = subtask.managed_keyed
        if isinstance(keyed, DatabaseHandle) and plan is not None and "keyed" not in _rewritten(plan):
            if is_old:
                require_of_6(keyed, savepoint.folder)
            digests = _digests(savepoint, [keyed.stream])
            where = subtask.index, stored.parallelism, keyed.key_groups, stored.max_parallelism
            yield KeepTask(plan, str(stored), *where, keyed, digests)


def _look_at_inline(stored: OperatorState, plan: OperatorPlan | None) -> None:
    """Check the unchanged state inside `_metadata`, which no task copies."""
    for subtask in stored.subtasks:
        for part, handle in _copied_streams(subtask, plan):
            if isinstance(handle.stream, InlineHandle) and part in _LOOKED_AT:
                prove_copied(InlineBytes(handle.stream.data), handle, stored.max_parallelism, alone=True)


def _rekey_tasks(
    savepoint: Savepoint, stored: OperatorState, plan: OperatorPlan, handles: list[KeyedHandle], count: int
) -> Iterator[RekeyTask]:
    """Yield a task for each new subtask; each needs all stored streams, since its entries may come from any."""
    if not handles:
        return
    require_writable_families(plan, handles, savepoint.folder)
    header = new_keyed_header(plan, [read_header(handle, savepoint.folder) for handle in handles])
    groups, streams = plan.max_parallelism or stored.max_parallelism, tuple(handles)
    digests = _digests(savepoint, (handle.stream for handle in handles))
    for index in range(count):
        own = key_group_range(index, count, groups)
        yield RekeyTask(plan, str(stored), index, count, own, groups, stored.max_parallelism, streams, header, digests)


def _list_tasks(savepoint: Savepoint, stored: OperatorState, plan: OperatorPlan) -> Iterator[OperatorTask]:
    """Yield the tasks for list and broadcast state: one for each subtask that had any, or for each new subtask."""
    subtasks = sorted(stored.subtasks, key=lambda subtask: subtask.index)
    handles = {subtask.index: subtask.lists for subtask in subtasks if subtask.lists is not None}
    if not plan.is_rescaled:
        for index, handle in handles.items():
            digests = _digests(savepoint, [handle.stream])
            yield OperatorTask(plan, str(stored), index, (Share.whole(handle),), digests=digests)
    elif handles:
        header = joined_headers(_operator_header(handle, savepoint) for handle in handles.values())
        for index, shares in enumerate(deal_out(tuple(handles.values()), plan.parallelism)):
            digests = _digests(savepoint, (share.handle.stream for share in shares))
            yield OperatorTask(plan, str(stored), index, shares, header, digests)


def _operator_header(handle: OperatorStateHandle, savepoint: Savepoint) -> OperatorStreamHeader:
    with open_stream(handle.stream, savepoint.folder) as source:
        return read_operator_stream_header(source, handle)


def _require_reachable(savepoint: Savepoint, stored: OperatorState, handles: list[KeyedHandle]) -> None:
    """Raise if a native stream must be rewritten in which the ends of a state's values are unknown."""
    for handle in handles:
        if handle.frames_values:
            continue
        with open_keyed(handle, savepoint.folder, stored.max_parallelism) as reader:
            for state, why in [*reader.hidden.items()][:1]:
                raise UnsupportedFormat(
                    f"the keyed state is in the heap backend's native format, in which lengths frame no value: {why}",
                    advice=CANONICAL_ADVICE,
                    state=state,
                )


def _digests(savepoint: Savepoint, streams: Iterable[StreamHandle]) -> Digests:
    """Return the expected digests of files, by path, as far as the lineage has them."""
    found = {}
    for stream in streams:
        if isinstance(stream, RelativeFileHandle) and (digest := savepoint.digest_of(stream.path)) is not None:
            found[stream.path] = digest.xxh128
    return found


def first_digests(savepoint: Savepoint, handles: Iterable[KeyedHandle], key_groups: range) -> Digests:
    """Return the digests of the streams that begin in a range of key groups: one task checks each as a whole."""
    return _digests(savepoint, (handle.stream for handle in handles if handle.first_key_group >= key_groups.start))


def _copy_task(
    savepoint: Savepoint, stored: OperatorState, part: str, subtask: int, handle: KeyGroupsHandle | OperatorStateHandle
) -> CopyTask:
    digests = _digests(savepoint, [handle.stream])
    name = stream_name(stored.operator_id.hex(), part, subtask)
    looked_at = handle if part in _LOOKED_AT else None
    digest = digest_of(digests, handle.stream)
    return CopyTask(str(stored), name, handle.stream, digest, looked_at, stored.max_parallelism)


def _copied_streams(
    subtask: SubtaskState, plan: OperatorPlan | None
) -> Iterator[tuple[str, KeyGroupsHandle | OperatorStateHandle]]:
    """Yield part and handle of each stream of a subtask that is copied unchanged.

    Raises:
        UnsupportedFormat: Keyed state is in a database, is to be canonical, and its entries cannot be told apart.
    """
    for part, field in _FIELDS.items():
        handle = subtask.lists if part == "operator" else getattr(subtask, field)
        if handle is None or part in _rewritten(plan):
            continue
        if isinstance(handle, DatabaseHandle):
            if plan is not None and plan.is_native:
                continue  # a `KeepTask` has it
            raise UnsupportedFormat(
                "the keyed state is in files of a database, and cannot be written in the canonical format: its header "
                "cannot be read",
                advice=(
                    WayOut.telling("leave its files as they are:", Option.FORMAT, "keep"),
                    "or register the snapshot classes that `stateshift inspect` names as unknown",
                ),
            )
        yield part, handle


def _rewritten(plan: OperatorPlan | None) -> list[str]:
    """Return the parts of subtasks that are rewritten."""
    if plan is None or not plan.is_rewritten:
        return []
    are_rewritten = {"keyed": plan.rewrites_keyed, "operator": plan.rewrites_operator_state}
    return [part for part, is_rewritten in are_rewritten.items() if is_rewritten]


def new_parallelism(stored: OperatorState, plan: OperatorPlan) -> int:
    """Return the number of subtasks of a rewritten keyed operator.

    Without the option it is the same as before, or more if there is much keyed state and no other state, which would
    have to be redistributed. It does not depend on the machine, so that a repeated run writes the same files (rule
    RUN-5).
    """
    if plan.parallelism:
        return plan.parallelism
    is_bound = any(
        subtask.lists or subtask.raw_operator or subtask.raw_keyed or subtask.finished for subtask in stored.subtasks
    )
    if is_bound:
        return stored.parallelism
    if plan.is_native:  # with as many as the job has, Flink opens the files, and inserts nothing
        return stored.parallelism
    size = sum(handle.size for handle in keyed_handles(stored))
    groups = plan.max_parallelism or stored.max_parallelism
    return min(max(stored.parallelism, subtasks_for(size, groups)), groups)


def subtasks_for(size: int, max_parallelism: int) -> int:
    """Return the default number of subtasks of an operator whose entries have `size` bytes.

    It is a power of two, as are most numbers of key groups and cores, so that the work is distributed evenly.
    """
    return min(1 << max(0, -(-size // SUBTASK_BYTES) - 1).bit_length(), max_parallelism)


def publish_result(
    savepoint: Savepoint,
    plan: MigrationPlan,
    tasks: Sequence[Task],
    results: Sequence[TaskResult],
    target: Folder,
    added: Sequence[OperatorState] = (),
    *,
    generation: str = "",
) -> Lineage:
    """Rename the files to their final names, and write the lineage and `_metadata`, which completes the savepoint.

    Args:
        savepoint: The source.
        plan: The plan of the run.
        tasks: All tasks.
        results: The result of each task, in any order.
        target: The folder of the results.
        added: The operators that the source does not have; their state is in the results.
        generation: The suffix of the names of files (`runs.final_name`).

    Raises:
        MigrationFailed: A result is missing, more values are in quarantine than may be, a merged value may lack one of
            them, or the target was lost to another run.
    """
    by_name = {result.stored.name: result for result in results}
    counts = add_counts([count for result in results for count in result.counts])
    if sent := add_counts([count for result in results for count in result.sent]):
        from .new_keys import settled

        counts = settled(counts, sent)
    require_whole(counts)
    require_few(counts, max((operator.max_bad_values for operator in plan.operators), default=0))
    tasks_by_name = {name_of(task): task for task in tasks}
    missing = sorted(tasks_by_name.keys() - by_name.keys())
    if missing:
        raise MigrationFailed(f"the results of {len(missing)} tasks are missing, such as {missing[0]}")
    commit = Commit(target, generation)
    streams = {result.stored.name: commit.stream(result.stored) for result in results}
    for result in results:
        streams |= {
            part.stored.name: _placed(commit.stream(part.stored), target if plan.absolute else None)
            for part in result.database
        }
        if result.quarantine is not None:
            commit.name(result.quarantine)
    all_operators = (*savepoint.metadata.operators, *added)
    checkpoint_id = savepoint.metadata.checkpoint_id
    operators = tuple(
        _new_operator(stored, plan, tasks_by_name, by_name, streams, checkpoint_id) for stored in all_operators
    )
    kept = _kept_serializers(savepoint, plan)
    if kept:
        name = serializers_name(generation)
        commit.files[name] = FileDigest.of(write_pickles(target, kept, name))
    before = savepoint.lineage
    metadata = attrs.evolve(savepoint.metadata, operators=operators)
    if any(operator.is_native for operator in plan.operators):
        metadata = attrs.evolve(metadata, properties=NATIVE_PROPERTIES)
    elif any(operator.is_reframed for operator in plan.operators) and not any(map(_has_native, operators)):
        metadata = attrs.evolve(metadata, properties=CANONICAL_PROPERTIES)
    return commit.publish(
        metadata.written_for(plan.target),
        job=plan.job,
        states=counts,
        kept=add_files(one for result in results for one in result.kept),
        source=source_facts(savepoint.place, write_metadata(savepoint.metadata)),
        plan=to_data(plan),
        history=before.as_history() if before is not None else (),
        position=savepoint.position,
    )


def _has_native(stored: OperatorState) -> bool:
    return not all(handle.is_canonical for handle in keyed_handles(stored))


def _kept_serializers(savepoint: Savepoint, plan: MigrationPlan) -> dict[str, bytes]:
    """Return the stored serializers of states with unchanged types: the next migration may need them (rule READ-2)."""
    found = read_stored_serializers(savepoint.folder, savepoint.lineage)
    kept = {}
    for operator in plan.operators if found else ():
        for state in operator.states:
            place = place_of(operator.operator_id, state.kind.scope, state.name)
            is_kept = state.action in {StateAction.COPY, StateAction.RELABEL, StateAction.REKEY}
            stays = is_kept and state.old == state.new
            if place in found and stays:
                name = place_of(operator.new_id or operator.operator_id, state.kind.scope, state.new_name or state.name)
                kept[name] = found[place]
    return kept


def name_of(task: Task) -> str:
    """Return the name of the stream that a task writes, which is unique within a run."""
    if isinstance(task, CopyTask):
        return task.name
    part = "operator" if isinstance(task, OperatorTask) else "keyed"
    return stream_name(task.plan.operator_id, part, task.subtask)


def calls_of(task: Task) -> dict[str, dict[str, str]]:
    """Return the user code that a task calls: by state, the fingerprints of functions by name."""
    return {} if isinstance(task, CopyTask) else task.plan.code(keyed=not isinstance(task, OperatorTask))


def _new_operator(
    stored: OperatorState,
    migration: MigrationPlan,
    tasks: dict[str, Task],
    results: dict[str, TaskResult],
    streams: dict[str, StreamHandle],
    checkpoint_id: int,
) -> OperatorState:
    operator_id = stored.operator_id.hex()
    plan = migration.operator(operator_id)
    rewrites = plan if plan is not None and plan.is_rewritten else None
    keyed: dict[int, KeyedHandle] = {}
    parallelism = stored.parallelism if rewrites is None else rewrites.parallelism or stored.parallelism
    subtasks = {subtask.index: _new_subtask(subtask, operator_id, plan, streams) for subtask in stored.subtasks}
    if rewrites is not None and rewrites.is_rescaled:
        subtasks = {index: SubtaskState(index) for index in range(parallelism)}
    for name, task in tasks.items():
        if isinstance(task, CopyTask) or task.plan.operator_id != operator_id:
            continue
        result = results[name]
        if isinstance(task, KeyedTask | RekeyTask | KeepTask):
            parallelism = task.parallelism
            if task.plan.is_native:
                keyed[task.subtask] = _database_handle(result, task.key_groups, streams, checkpoint_id)
            else:
                keyed[task.subtask] = KeyGroupsHandle(CANONICAL, task.key_groups.start, result.offsets, streams[name])
        else:
            handle = OperatorStateHandle(result.states, streams[name])
            subtasks[task.subtask] = attrs.evolve(subtasks[task.subtask], managed_operator=handle)
    for index, keyed_handle in keyed.items():
        subtasks[index] = attrs.evolve(subtasks.get(index, SubtaskState(index)), managed_keyed=keyed_handle)
    left = tuple(subtask for index, subtask in subtasks.items() if index < parallelism)
    groups = migration.max_parallelism_of(operator_id) or stored.max_parallelism
    new = attrs.evolve(stored, parallelism=parallelism, max_parallelism=groups, subtasks=left)
    if plan is None or not plan.new_id:
        return new
    return attrs.evolve(new, operator_id=bytes.fromhex(plan.new_id), uid=plan.uid)


def _placed(stream: StreamHandle, absolute: Folder | None) -> StreamHandle:
    """Return the handle of a file; with its absolute URI if a folder is given, which is that of the file."""
    if absolute is None or not isinstance(stream, RelativeFileHandle):
        return stream
    return AbsoluteFileHandle(f"{uri_of(absolute)}/{stream.path}", stream.size)


def _database_handle(
    result: TaskResult, key_groups: range, streams: dict[str, StreamHandle], checkpoint_id: int
) -> DatabaseHandle:
    """Return the handle of a database that a task wrote; its ids are those of no other."""
    files = [DatabaseFile(part.name, streams[part.stored.name]) for part in result.database]
    return DatabaseHandle(
        DATABASE,
        checkpoint_id,
        str(uuid.uuid4()),
        key_groups,
        streams[result.stored.name],
        tuple(file for file in files if is_table(file.name)),
        tuple(file for file in files if not is_table(file.name)),
        result.size_bytes,
        str(uuid.uuid4()),
    )


def _new_subtask(
    subtask: SubtaskState, operator_id: str, plan: OperatorPlan | None, streams: dict[str, StreamHandle]
) -> SubtaskState:
    """Return a subtask with its copied streams; the caller adds the rewritten ones."""
    handles: dict[str, Any] = dict.fromkeys(_FIELDS.values())
    for part, handle in _copied_streams(subtask, plan):
        copied = handle
        if not isinstance(handle.stream, InlineHandle):
            copied = attrs.evolve(handle, stream=streams[stream_name(operator_id, part, subtask.index)])
        handles[_FIELDS[part]] = (
            attrs.evolve(copied, merged=None) if isinstance(copied, OperatorStateHandle) else copied
        )
    return attrs.evolve(subtask, **handles)


def try_out(savepoint: Savepoint, plan: MigrationPlan) -> dict[tuple[str, str], bool]:
    """Convert one entry of every state that is to be converted, and write nothing (rule READ-5).

    Returns:
        Whether there was an entry to try, by operator id and state; if bad values are quarantined, one that fits.

    Raises:
        ValueNotConvertible, OldReaderUnavailable, CorruptSavepoint: The run would fail in the same way.
    """
    tried: dict[tuple[str, str], bool] = {}
    for stored in savepoint.metadata.operators:
        operator = plan.operator(stored.operator_id.hex())
        if operator is None:
            continue
        wanted = [one for one in operator.states if one.action in {StateAction.CONVERT, StateAction.REKEY}]
        with located(savepoint=savepoint.place, operator=str(stored)):
            for name, found in _tried_out(savepoint, stored, operator, wanted):
                tried[operator.operator_id, name] = found
    return tried


def _tried_out(
    savepoint: Savepoint, stored: OperatorState, operator: OperatorPlan, states: list[StatePlan]
) -> Iterator[tuple[str, bool]]:
    """Convert an entry of each state, and its key if keys are rewritten; yield the name, and whether there is one."""
    quarantines, folder = operator.max_bad_values > 0, savepoint.folder
    handles, groups = list(keyed_handles(stored)), stored.max_parallelism
    lists = [subtask.lists for subtask in stored.subtasks if subtask.lists]
    keyed = [state for state in states if state.kind.is_keyed]
    for state in states:
        with located(state=state.name):
            if not state.kind.is_keyed:
                yield state.name, any(sample_elements(state, one, folder, quarantines=quarantines) for one in lists)
            elif operator.rekeying is not None:
                from .new_keys import rekey_sample

                found = any(rekey_sample(operator, state.name, handle, groups, folder) for handle in handles)
                if state.action is StateAction.REKEY:
                    yield state.name, found
    left = {state.name: state for state in keyed if state.action is StateAction.CONVERT}
    for handle in handles if left else ():
        for name in sample_keyed(left.values(), handle, groups, folder, quarantines=quarantines):
            del left[name]
            yield name, True
        if not left:
            break
    yield from ((name, False) for name in left)
