"""Publication of a snapshot of a whole job: the parts that its subtasks wrote become one `_metadata`.

commit = Commit(folder)
… each subtask of each operator writes, and has a SubtaskSnapshot …
publish_snapshot(commit, [OperatorSnapshot(operator, 128, subtasks)], checkpoint_id=3, is_checkpoint=True)
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs

from ..formats.flink.metadata import OperatorState, SavepointMetadata, SubtaskState
from ..formats.flink.properties import CHECKPOINT_PROPERTIES
from ..formats.flink.state_kinds import keyed_kind
from ..publication.lineage import StateCount
from .snapshots import SnapshotResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..formats.flink.handles import KeyedHandle, OperatorStateHandle
    from ..job import Operator
    from ..publication.commit import Commit
    from ..publication.lineage import Lineage


@attrs.frozen
class SubtaskSnapshot:
    """What one subtask wrote.

    Attributes:
        keyed: Its keyed state and timers.
        lists: Its list and broadcast state.
        raw_keyed: Keyed state that the operator wrote itself.
        raw_operator: Operator state that the operator wrote itself.
    """

    keyed: SnapshotResult = attrs.field(factory=SnapshotResult)
    lists: OperatorStateHandle | None = None
    raw_keyed: KeyedHandle | None = None
    raw_operator: OperatorStateHandle | None = None


@attrs.frozen
class OperatorSnapshot:
    """What all subtasks of an operator wrote.

    Attributes:
        operator: The operator; only its uid, id and name matter.
        max_parallelism: The number of key groups.
        subtasks: The subtasks in their order; their number is the parallelism.
    """

    operator: Operator
    max_parallelism: int
    subtasks: Sequence[SubtaskSnapshot]

    def state(self) -> OperatorState:
        """Return the operator's part of `_metadata`."""
        subtasks = tuple(
            SubtaskState(
                index,
                managed_keyed=subtask.keyed.handle,
                managed_operator=subtask.lists,
                raw_keyed=subtask.raw_keyed,
                raw_operator=subtask.raw_operator,
            )
            for index, subtask in enumerate(self.subtasks)
        )
        identity = bytes.fromhex(self.operator.id), len(subtasks), self.max_parallelism
        return OperatorState(*identity, self.operator.name, self.operator.uid, subtasks=subtasks)

    def counts(self) -> list[StateCount]:
        """Return the numbers of entries of the keyed states, for the lineage."""
        entries = Counter[tuple[str, str]]()
        for subtask in self.subtasks:
            for info, count in subtask.keyed.counts:
                entries[info.name, str(keyed_kind(info))] += count
        operator = self.operator
        return [
            StateCount(operator.id, operator.uid, name, kind, "write", 0, count)
            for (name, kind), count in entries.items()
        ]


def publish_snapshot(
    commit: Commit,
    operators: Iterable[OperatorSnapshot],
    checkpoint_id: int = 1,
    *,
    is_checkpoint: bool = False,
    job: str = "a running job",
    **facts: Any,
) -> Lineage:
    """Write `_metadata`, which makes the folder of the commit a savepoint or checkpoint; return its lineage.

    Args:
        commit: The commit, through which all parts were written.
        operators: All operators that have state.
        checkpoint_id: The id of the checkpoint.
        is_checkpoint: Whether it is a checkpoint; Flink may remove one that it has claimed.
        job: The origin of the types, in words.
        facts: Further attributes of the lineage: what `restored_facts` returned.
    """
    all_of_them = list(operators)
    metadata = SavepointMetadata.new(tuple(operator.state() for operator in all_of_them), checkpoint_id)
    if is_checkpoint:
        metadata = attrs.evolve(metadata, properties=CHECKPOINT_PROPERTIES)
    counts = [count for operator in all_of_them for count in operator.counts()]
    return commit.publish(metadata, job=job, states=counts, **facts)
