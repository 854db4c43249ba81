"""What a revision and a job say of each other, state by state: there, and back.

Each key and state is asked by itself, so that an override or a level of one is no matter of another.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.compatibility import Decision
from ...serializers.errors import NothingInCommon
from ..check import check
from ..description import StateKind
from ..memo import Memo
from ..policy import ACCEPT_ALL
from ..report import Status
from .losses import is_doubt, removed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...serializers.compatibility import Finding
    from ..description import JobDescription, OperatorDescription, SerializerDescription, StateDescription
    from ..report import CheckReport, OperatorReport, StateReport
    from .losses import Guard

KEY = "<key>"
"""What stands for an operator's key where a state is named."""

Findings = tuple["Finding", ...]

Answer = tuple[str, str, Decision, Findings]
"""Operator, state, what is decided of it, and what was found."""


def with_shared_parts(job: JobDescription) -> JobDescription:
    """Return a job in which equal types are one object: states that are alike are then judged once."""
    known: dict[str, list[SerializerDescription]] = {}

    def shared(part: SerializerDescription | None) -> SerializerDescription | None:
        if part is None:
            return None
        like = known.setdefault(part.describe(), [])
        found = next((one for one in like if one.is_one_with(part)), None)
        if found is None:
            like.append(part)
        return found or part

    def of_state(state: StateDescription) -> StateDescription:
        value = shared(state.value) or state.value
        return attrs.evolve(state, value=value, key=shared(state.key), namespace=shared(state.namespace))

    operators = (
        attrs.evolve(one, key=shared(one.key), states=tuple(map(of_state, one.states))) for one in job.operators
    )
    return attrs.evolve(job, operators=tuple(operators))


def answers(
    revision: JobDescription,
    candidate: JobDescription,
    *,
    is_back: bool,
    guard: Guard | None,
    known: Memo[tuple[Any, ...], Any] | None = None,
) -> Iterator[Answer]:
    """Ask one side about the other; gives what was found of each key and state that both have.

    With a guard, also of each state that the job does not take.

    Args:
        revision: What was recorded, or is stored.
        candidate: The job as it is to be.
        is_back: Whether the revision's job is to take over what the candidate writes, instead of the other way round.
        guard: What is refused beside what the rules refuse.
        known: What was answered about other revisions: the same is not asked again.

    Raises:
        NothingInCommon: The sides share no operator, and there is no guard, which tells what that means.
    """
    old, new = (candidate, revision.as_probe()) if is_back else (revision, candidate)
    try:
        report = check(old, new, policy=guard.policy if guard else ACCEPT_ALL, known=known)
        yield from _of_report(report, guard, known or Memo())
    except NothingInCommon:
        if guard is None:
            raise
    if guard is not None:
        for operator, state, finding in removed(revision, candidate, is_back=is_back):
            forbidden = guard.policy.forbidden(finding)
            decision = Decision.REFUSE if forbidden.forbidden else Decision.START
            yield operator, state, decision, (forbidden,)


def _of_report(report: CheckReport, guard: Guard | None, known: Memo[tuple[Any, ...], Any]) -> Iterator[Answer]:
    for operator in report.operators:
        states = operator.states
        if operator.key is not None:
            yield operator.title, KEY, operator.key.decision, operator.key.result.findings
            if operator.key.decision is Decision.REFUSE:
                states = _without_key(operator, report)
        is_renamed = operator.was is not None and operator.was.stored_id
        for state in states:
            if state.status in {Status.MATCHED, Status.UNREADABLE, Status.DROPPED}:
                is_start = state.decision is Decision.START
                decision = Decision.MIGRATE if is_renamed and is_start else state.decision
                findings = state.result.findings
                if guard is not None and state.was is not None and state.was.value.knows_nulls:
                    _, findings = known.once((id(findings),), partial(_sure, findings))
                yield operator.title, state.name, decision, findings


def _sure(findings: Findings) -> tuple[Findings, Findings]:
    """Return findings, and those of them that are no mere doubts."""
    return findings, tuple(finding for finding in findings if not is_doubt(finding))


def _without_key(operator: OperatorReport, report: CheckReport) -> tuple[StateReport, ...]:
    """Ask again of the states of an operator whose key is refused: an override may let that pass, and not them.

    Timers are their keys.
    """

    def keyless(side: JobDescription, of_side: OperatorDescription | None) -> JobDescription:
        assert of_side is not None  # noqa: S101 - the key was judged, so both sides have the operator
        states = tuple(state for state in of_side.states if state.kind is not StateKind.TIMERS)
        return attrs.evolve(side, operators=(attrs.evolve(of_side, key=None, states=states),))

    (again,) = check(keyless(report.old, operator.was), keyless(report.new, operator.becomes)).operators
    return again.states
