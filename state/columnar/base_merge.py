"""Merging of rows of one state into a stored savepoint: the new savepoint has all of it except what the rows replace.

Streams of other operators, and other streams of the same operator, are copied unchanged. In the keyed streams of the
rows' operator the blocks of other states are copied, and the rows' blocks are merged in between.
Source: rules RUN-1 to RUN-3, RUN-5.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import attrs

from ...compat.header_snapshots import Labels
from ...compat.plan import MigrationPlan, OperatorAction, OperatorPlan, StateAction, StatePlan
from ...serializers.errors import MigrationFailed, located
from ..formats.flink.keyed_readers import blocks_ahead, open_keyed, read_header
from ..formats.flink.keyed_stream import KeyedStreamHeader
from ..formats.flink.meta_info import keyed_state
from ..formats.flink.metadata import OperatorState
from ..migration.rewrite import new_keyed_header
from ..migration.run import first_digests, new_parallelism, publish_result, split, subtasks_for
from ..migration.run_task import perform
from ..migration.tasks import CopyTask, KeyedTask, TaskResult, digest_of
from ..publication.lineage import StateCount
from ..savepoint.states import keyed_handles
from .new_savepoint import check_counts
from .row_files import sorted_batches
from .row_streams import NewOperator, RowCount, StreamResult, write_rowless, write_streams
from .stored_forms import KeptBlocks, StoredForms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..formats.flink.blocks import Block
    from ..formats.flink.handles import KeyedHandle
    from ..migration.tasks import Task
    from ..publication.lineage import Lineage
    from ..publication.target_lock import Claim
    from ..savepoint.reader import Savepoint, SavepointOperator
    from .row_files import RowFile
    from .state_write import StateWrite

_COPIES = 4
"""The number of files that are copied at a time, since each waits for the store."""
_PLACE = 0
"""The index of the operator in rows and results."""
_REPLACED = -1


def publish_beside(write: StateWrite, base: Savepoint, files: Sequence[RowFile], claim: Claim) -> Lineage:
    """Write and publish the new savepoint.

    Args:
        write: The settled write; the files of rows are in its target.
        base: The stored savepoint.
        files: The files of rows.
        claim: The claim on the target.

    Raises:
        ValueNotConvertible: Two rows have one key, or a key has an entry already.
        CorruptSavepoint: The base is damaged.
        MigrationFailed: The entries written are not those read and encoded.
    """
    rows = sum((file.rows for file in files), RowCount())
    merge = _Merge.of(write, base, sum(file.held for file in files))
    with located(savepoint=base.place, operator=merge.new.title):
        batches = sorted_batches(files, write.target, merge.state_id)
        results = list(write_streams(batches, {_PLACE: merge.new}, write.target, merge.kept))
        left = set(range(merge.new.parallelism)) - {result.subtask for result in results}
        results += [
            write_rowless(merge.new, _PLACE, subtask, write.target, merge.kept(_PLACE, subtask))
            for subtask in sorted(left)
        ]
    check_counts(results, {(_PLACE, merge.state_id): rows})
    counts = merge.counts(results, rows.rows)
    tasks: list[Task] = [task for task in split(base, merge.plan) if isinstance(task, CopyTask)]
    with ThreadPoolExecutor(_COPIES) as pool:
        copies = list(pool.map(lambda task: perform(task, base.folder, write.target), tasks))
    keyed = [TaskResult(result.stored, offsets=result.offsets) for result in results]
    keyed[0] = attrs.evolve(keyed[0], counts=counts)
    claim.require()
    if write.base_files is not None:
        write.base_files.require_unchanged()
    tasks += [merge.task(result.subtask) for result in results]
    return publish_result(base, merge.plan, tasks, [*keyed, *copies], write.target, merge.added)


@attrs.frozen
class _Merge:
    """The merge of rows into the streams of their operator.

    Attributes:
        base: The stored savepoint.
        stored: The operator in the base; without keyed state if it is new.
        plan: The plan for all operators.
        new: The operator in the new savepoint.
        state_id: The id of the rows' state in the new header.
        keeps: Whether the stored entries of that state are kept.
        forms: The converter of rows to the form of the entries that they replace; None if columns lose nothing.
        added: The operator, if the base does not have it.
        read: The number of entries kept from the base, by state id; under `_REPLACED` the number of replaced ones.
    """

    base: Savepoint
    stored: OperatorState
    plan: MigrationPlan
    new: NewOperator
    state_id: int
    keeps: bool
    forms: StoredForms | None
    added: tuple[OperatorState, ...]
    read: Counter[int] = attrs.field(factory=Counter)

    @classmethod
    def of(cls, write: StateWrite, base: Savepoint, size: int) -> _Merge:
        """Return the merge for a settled write; `size` is the size of the rows' entries in bytes."""
        state, key = write.source.description, write.source.key
        found = next((one for one in base.operators if one.operator_id == write.operator_id), None)
        own = _operator_plan(write, found)
        others = [_copied(one) for one in base.operators if one.operator_id != write.operator_id]
        target = write.restore_target
        plan = MigrationPlan(f"savepoint {base.place}", "rows of a DataFrame", (own, *others), target)
        handles = [] if found is None else list(keyed_handles(found.stored))
        headers = [read_header(handle, base.folder) for handle in handles]
        is_there = any(state.name == info.name for header in headers for info in header.states)
        header = _new_header(write, own, headers, is_there=is_there)
        state_id = header.state_id(state.name)
        if found is None:
            groups = write.max_parallelism
            count = write.parallelism or subtasks_for(size, groups)
            stored = OperatorState(bytes.fromhex(write.operator_id), count, groups, uid=own.uid)
        else:
            stored, groups, count = found.stored, found.max_parallelism, new_parallelism(found.stored, own)
        known = {} if found is None else {one.name: one.description for one in found.states if one.kind.is_keyed}
        states = tuple((known | {state.name: state})[info.name] for info in header.states)
        whole = frozenset({state_id} if state.kind.has_elements else ())
        new = NewOperator(write.operator_id, write.source.title, key, states, header, count, groups, whole)
        keeps = is_there and not write.overwrite
        forms = StoredForms.of(known[state.name], state) if write.overwrite and state.name in known else None
        return cls(base, stored, plan, new, state_id, keeps, forms, () if found is not None else (stored,))

    @property
    def _handles(self) -> list[KeyedHandle]:
        return list(keyed_handles(self.stored))

    def task(self, subtask: int) -> KeyedTask:
        """Return the task that describes the writing of a subtask's stream."""
        new = self.new
        groups, own = new.key_groups[subtask], self.plan.operators[0]
        handles = tuple(one for one in self._handles if one.reaches(groups))
        digests = first_digests(self.base, handles, groups)
        return KeyedTask(own, new.title, subtask, new.parallelism, groups, new.max_parallelism, handles, digests)

    def kept(self, _: int, subtask: int) -> KeptBlocks:
        """Return the stored blocks for a subtask's stream."""
        appended = self.state_id if self.keeps else None
        replaced = self.state_id if self.forms is not None else None
        return KeptBlocks(self._blocks(self.task(subtask)), appended, replaced, self.forms)

    def _blocks(self, task: KeyedTask) -> Iterator[Block]:
        for handle in sorted(task.handles, key=lambda handle: handle.first_key_group):
            xxh128 = digest_of(task.digests, handle.stream)
            with open_keyed(handle, self.base.folder, self.new.max_parallelism, xxh128) as reader:
                ids = [self.new.header.state_id(info.name) for info in reader.header.states]
                held: list[Block] = []
                for block in blocks_ahead(reader, task.key_groups):
                    if held and held[0].key_group != block.key_group:
                        yield from held
                        held = []
                    state_id = ids[block.state_id]
                    moved = attrs.evolve(block, state_id=state_id)
                    if state_id == self.state_id and not self.keeps:
                        self.read[_REPLACED] += block.entries
                        if self.forms is not None:
                            yield moved
                        continue
                    self.read[state_id] += block.entries
                    if state_id == self.state_id:
                        held.append(moved)  # the rows of the key group follow it
                    else:
                        yield moved
                yield from held

    def counts(self, results: Sequence[StreamResult], rows: int) -> tuple[StateCount, ...]:
        """Return the counts of all states of the operator, after checking that no entry was lost (rule RUN-2)."""
        own, counts = self.plan.operators[0], []
        for state_id, state in enumerate(self.new.states):
            is_own = state_id == self.state_id
            read = self.read[state_id] + (rows if is_own else 0)
            written = sum(result.entries[state_id] for result in results)
            if read != written:
                raise MigrationFailed(
                    f"{read:,} entries were read and encoded, and {written:,} written",
                    state=state.name,
                    rule="RUN-2",
                    advice="this is a bug in stateshift; nothing is published",
                )
            dropped = self.read[_REPLACED] if is_own else 0
            action = StateAction.WRITE if is_own else StateAction.COPY
            kind, rescaled = str(state.kind), self.forms.rescaled if is_own and self.forms is not None else 0
            count = StateCount(
                own.operator_id, own.uid, state.name, kind, str(action), read + dropped, written, dropped
            )
            counts.append(attrs.evolve(count, rescaled=rescaled))
        return tuple(counts)


def _new_header(
    write: StateWrite, own: OperatorPlan, headers: list[KeyedStreamHeader], *, is_there: bool
) -> KeyedStreamHeader:
    """Return the header of the stored streams with the rows' state replaced or appended."""
    state = write.source.description
    header = KeyedStreamHeader(write.source.key.snapshot_configuration(), (), compressed=False)
    if headers:
        header = new_keyed_header(own, headers)
    if is_there and not write.overwrite:
        return header
    assert state.namespace is not None  # noqa: S101 - of keyed state
    info = keyed_state(state.name, state.kind.name, state.namespace.snapshot, state.value.snapshot)
    infos = [info if one.name == state.name else one for one in header.states]
    return attrs.evolve(header, states=tuple(infos if is_there else [*infos, info]))


def _operator_plan(write: StateWrite, found: SavepointOperator | None) -> OperatorPlan:
    state = write.source.description
    new = Labels.of(state)
    stored = () if found is None else _copied(found).states
    was = next((one for one in stored if one.kind.is_keyed and one.name == state.name), None)
    own = StatePlan(state.name, state.kind, StateAction.WRITE, was.old if was is not None else new, new)
    uid = write.source.title if found is None and write.source.title != write.operator_id else ""
    return OperatorPlan(
        write.operator_id,
        uid if found is None else found.uid,
        OperatorAction.REWRITE,
        None if found is None else found.key,
        relabels_key=False,
        states=(*(one for one in stored if one is not was), own),
        is_reframed=found is not None and found.description.is_reframed,
    )


def _copied(operator: SavepointOperator) -> OperatorPlan:
    states = tuple(
        StatePlan(state.name, state.kind, StateAction.COPY, Labels.of(state.description), Labels.of(state.description))
        for state in operator.states
    )
    return OperatorPlan(
        operator.operator_id, operator.uid, OperatorAction.COPY, operator.key, relabels_key=False, states=states
    )
