"""The factory of transcoders: it returns one for the plan of a state, using an op list if the plan has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compat.description import StateKind
from ...compat.plan import StateAction
from ...serializers.errors import DeclarationError
from .block_transcoder import BlockTranscoder
from .byte_rewrites import element_program_of, program_of
from .choice import ExecutorName
from .element_blocks import ElementBlocks
from .elements import BroadcastMaps, ListElements
from .kind_changes import KindTranscoder
from .objects import ObjectTranscoder

if TYPE_CHECKING:
    from ...compat.plan import StatePlan
    from .framing import EntryFraming
    from .transcoder import ElementTranscoder, Transcoder


def make_transcoder(
    plan: StatePlan, framing: EntryFraming, executor: ExecutorName, *, quarantines: bool = False
) -> Transcoder:
    """Return a transcoder of the entries of a keyed state.

    Args:
        plan: A plan whose action is `convert`; states that are copied or relabelled need no transcoder.
        framing: The layout of the state's entries.
        executor: The name of the executor that runs the op list, if there is one.
        quarantines: Whether values that do not fit are returned instead of raised (rule RUN-4).

    Raises:
        DeclarationError: The plan converts nothing, or the state is not keyed.
    """
    _require(plan, keyed=True)
    if plan.transform is not None:
        return KindTranscoder(plan, framing, quarantines)
    objects = ObjectTranscoder(plan, framing, quarantines)
    program = program_of(plan, framing) if executor is not ExecutorName.OBJECTS else None
    return objects if program is None else BlockTranscoder(objects, program, executor)


def make_element_transcoder(plan: StatePlan, executor: ExecutorName, *, quarantines: bool = False) -> ElementTranscoder:
    """Return a transcoder of the elements of an operator's list state (split or union), or of broadcast maps.

    Raises:
        DeclarationError: The plan converts nothing, or the state is keyed.
    """
    _require(plan, keyed=False)
    make = BroadcastMaps if plan.kind is StateKind.BROADCAST else ListElements
    objects = make(plan, quarantines)
    program = element_program_of(plan) if executor is not ExecutorName.OBJECTS else None
    return objects if program is None else ElementBlocks(objects, program, executor)


def _require(plan: StatePlan, *, keyed: bool) -> None:
    if plan.action is not StateAction.CONVERT or plan.kind.is_keyed is not keyed:
        wanted = "keyed" if keyed else "operator"
        raise DeclarationError(
            f"no {wanted} state to be converted: {plan.name!r} is {plan.kind} state, and its plan is {plan.action}",
            advice="ask for a transcoder only where the plan says convert",
            state=plan.name,
        )
