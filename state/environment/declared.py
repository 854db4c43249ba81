"""The state that a program declares, seen without a run: its functions are opened, and closed again.

It is declared as PyFlink keeps it, so that the program is checked against a savepoint of the same program there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...serializers.errors import DeclarationError
from ..backends.heap.backend import HashMapStateBackend
from ..backends.restore_check import RESTORING
from ..job import DEFAULT_KEY_GROUPS, Job, Operator
from ..runtime.runtime_context import TaskInfo
from ..runtime.sources import SourceFunction
from ..runtime.watermarks import WatermarkStrategy
from .graph import in_order
from .stations import FunctionTask, Outputs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..runtime.descriptors import StateDescriptor
    from .graph import Transformation


class _Noting(HashMapStateBackend):
    """Notes the states that are asked for."""

    def get_or_create_keyed_state(self, descriptor: StateDescriptor) -> Any:
        self.noted.setdefault(descriptor.name, descriptor)
        return super().get_or_create_keyed_state(descriptor)

    noted: dict[str, StateDescriptor]


def declared_job(last: Iterable[Transformation]) -> Job:
    """Return the operators of a program that have keyed state.

    Args:
        last: The transformations that the program ends with.

    Raises:
        DeclarationError: An operator with state has no uid, so that Flink would not find its state.
    """
    return Job(tuple(_operators(last)))


def _operators(last: Iterable[Transformation]) -> Iterator[Operator]:
    for one in in_order(last):
        if one.key_type is None or isinstance(one.body, SourceFunction | WatermarkStrategy):
            continue
        states = tuple(_noted(one).values())
        if states and not one.uid:
            raise DeclarationError(
                f"the operator {one.name!r} has state and no uid, by which Flink finds it", advice="set it: .uid(…)"
            )
        if states:
            yield Operator.pyflink(one.uid, states, key=one.key_type)


def _noted(one: Transformation) -> dict[str, StateDescriptor]:
    noted: dict[str, StateDescriptor] = {}

    def backend(*given: Any) -> _Noting:
        made = _Noting(*given)
        made.noted = noted
        return made

    groups = one.max_parallelism or DEFAULT_KEY_GROUPS
    task = FunctionTask(one, backend, TaskInfo(name=one.name, max_parallelism=groups), one.uid or one.name)
    try:
        task.begin(Outputs(lambda *_: None, {}), (), RESTORING)
    finally:
        task.close()
    return noted
