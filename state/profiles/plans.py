"""What is read of a savepoint for its profile, and by which tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

import attrs

from ...serializers.errors import DeclarationError, OldReaderUnavailable, StateShiftError
from ...serializers.wording import many
from ..columnar.table import StateTable
from ..formats.flink.handles import OperatorStateHandle
from ..runner import Independent
from ..savepoint.proof_tasks import parts_of
from ..savepoint.states import keyed_handles
from .element_pass import pass_elements
from .keyed_pass import pass_keyed
from .tallies import OperatorTally

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ...compat.description import StateKind
    from ..formats.flink.handles import KeyedHandle
    from ..runner import Conditions, Take
    from ..savepoint.reader import SavepointOperator
    from ..savepoint.states import SavepointState
    from ..storage.files import Folder

_PART_BYTES = 64 << 20


@attrs.frozen
class StatePlan:
    """A state.

    Attributes:
        name: Its name in the streams.
        kind: Its kind.
        tables: Its columns: the usual ones, and those that can hold all values; none: values are not decoded.
        not_decoded: Why they are not decoded, or "".
        time_to_live_ms: How long its values live; None: it is not known.
        stores_expiry: Whether values have the time at which they expire, as in stores of Spark.
    """

    name: str
    kind: StateKind
    tables: tuple[StateTable, ...] = attrs.field(default=(), repr=False)
    not_decoded: str = ""
    time_to_live_ms: int | None = None
    stores_expiry: bool = False

    @property
    def place(self) -> tuple[str, str]:
        """Its scope and name, by which an operator knows it."""
        return self.kind.scope, self.name

    @classmethod
    def of(cls, operator: SavepointOperator, state: SavepointState, time_to_live_ms: int | None) -> Self:
        """Return the plan of a state of a savepoint."""
        try:
            tables = tuple(StateTable.over(operator, state, exact=exact) for exact in (False, True))
        except (OldReaderUnavailable, DeclarationError, StateShiftError) as error:
            return cls(state.name, state.kind, (), error.what.splitlines()[0], time_to_live_ms)
        same = tables[0].schema == tables[1].schema
        return cls(state.name, state.kind, tables[: 1 if same else 2], "", time_to_live_ms)


@attrs.frozen
class OperatorPlan:
    """An operator.

    Attributes:
        title: Its name in messages.
        max_parallelism: The number of its key groups.
        states: Its states, by scope and name.
    """

    title: str
    max_parallelism: int
    states: dict[tuple[str, str], StatePlan] = attrs.field(repr=False)


@attrs.frozen
class ProfileTask:
    """A stream, or some key groups of one.

    Attributes:
        operator: The index of the operator.
        handle: The handle of the stream.
        subtask: The number of its subtask.
        key_groups: The key groups to read; None: all, or it is not keyed.
    """

    operator: int
    handle: KeyedHandle | OperatorStateHandle = attrs.field(repr=False)
    subtask: int
    key_groups: range | None = None

    @property
    def size_bytes(self) -> int:
        """The approximate number of bytes to read."""
        if self.key_groups is None or isinstance(self.handle, OperatorStateHandle):
            return self.handle.size
        return self.handle.size * len(self.key_groups) // max(len(self.handle.key_groups), 1)


@attrs.frozen
class Profiling(Independent[ProfileTask, OperatorTally]):
    """The pass over a savepoint.

    Attributes:
        operators: The operators.
        reference_ms: The time to which ages are counted.
    """

    operators: tuple[OperatorPlan, ...]
    reference_ms: int

    again: ClassVar[str] = "run it again; nothing was written"

    @classmethod
    def of(
        cls, tasks: Sequence[ProfileTask], folder: Folder, operators: Sequence[OperatorPlan], reference_ms: int
    ) -> Self:
        """Return the pass that tasks make."""
        what = f"profiling {folder}, {many(len(tasks), 'task')}"
        return cls(tuple(tasks), folder, "profiling", what, tuple(operators), reference_ms)

    def title(self, task: ProfileTask) -> str:
        return self.operators[task.operator].title

    def entries(self, result: OperatorTally) -> int:
        return sum(state.entries for state in result.states.values())

    def perform(self, task: ProfileTask, conditions: Conditions, take: Take) -> OperatorTally:
        plan = self.operators[task.operator]
        if isinstance(task.handle, OperatorStateHandle):
            return pass_elements(plan, task.handle, task.subtask, self.source, conditions.executor, self.reference_ms)
        groups, reference_ms = task.key_groups, self.reference_ms
        return pass_keyed(
            plan, task.handle, self.source, conditions.executor, key_groups=groups, reference_ms=reference_ms, take=take
        )


def tasks_of(
    index: int, operator: SavepointOperator, states: Collection[SavepointState], *, are_many: bool
) -> Iterator[ProfileTask]:
    """Yield the tasks that read some states of an operator.

    Args:
        index: The index of the operator.
        operator: The operator.
        states: The states.
        are_many: Whether large streams are divided among tasks.
    """
    if any(state.kind.is_keyed for state in states):
        for handle in keyed_handles(operator.stored):
            parts = parts_of(handle, _PART_BYTES) if are_many else [None]
            yield from (ProfileTask(index, handle, 0, part) for part in parts)
    if any(not state.kind.is_keyed for state in states):
        for subtask in operator.stored.subtasks:
            if subtask.lists is not None:
                yield ProfileTask(index, subtask.lists, subtask.index)
