"""Checks of a revision against a job, or a query of Spark, in both directions, state by state.

Each key and state is checked by itself, so that an override or a level of one does not affect another.
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

KEY, KEY_GROUPS, WHOLE = "<key>", "<max parallelism>", "<operator>"
"""The names of what is of an operator, in places where states are named."""
READS = "query", "<reads>"
"""The place of what a query of Spark reads."""

Findings = tuple["Finding", ...]

Answer = tuple[str, str, Decision, Findings]
"""An operator, a state, the decision on it, and the findings."""


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
    """Yield the answer about each key and state that both sides have.

    With a guard, it also yields an answer for each state that the job does not take.

    Args:
        revision: The recorded or stored side.
        candidate: The new version of the job.
        is_back: Whether the revision's job is to take over what the candidate writes, instead of the other way round.
        guard: What is refused beyond the rules.
        known: The answers about other revisions, which are reused.

    Raises:
        NothingInCommon: The sides share no operator, and there is no guard, which would report all states as removed.
    """
    policy, accept = (ACCEPT_ALL, ()) if guard is None else (guard.policy, guard.accept)
    if revision.computations or candidate.computations:
        from ..queries.verdict import judge

        old, new = (candidate, revision) if is_back else (revision, candidate)
        yield from _of_query(judge(old, new, known=old, accept=accept, policy=policy))
        return
    old, new = (candidate, revision.as_probe()) if is_back else (revision, candidate)
    try:
        report = check(old, new, policy=policy, known=known)
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
        if operator.key_groups is not None:
            yield operator.title, KEY_GROUPS, operator.key_groups.decision, operator.key_groups.result.findings
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


def _of_query(report: CheckReport) -> Iterator[Answer]:
    """Yield the answers about what a query reads, and about each operator, its key and its states."""
    if report.reads is not None:
        yield *READS, report.reads.decision, report.reads.result.findings
    for operator in report.operators:
        for place, role in ((KEY, operator.key), (WHOLE, operator.whole)):
            if role is not None:
                yield operator.uid, place, role.decision, role.result.findings
        for state in operator.states:
            if state.status is Status.MATCHED or state.result.findings:
                yield operator.uid, state.name, state.decision, state.result.findings


def _sure(findings: Findings) -> tuple[Findings, Findings]:
    """Return the findings, and those of them that are not mere doubts."""
    return findings, tuple(finding for finding in findings if not is_doubt(finding))


def _without_key(operator: OperatorReport, report: CheckReport) -> tuple[StateReport, ...]:
    """Check the states of an operator with a refused key again, without the key: an override may accept only the key.

    Timers are left out, since a timer is nothing but its key and namespace.
    """

    def keyless(side: JobDescription, of_side: OperatorDescription | None) -> JobDescription:
        assert of_side is not None  # noqa: S101 - the key was judged, so both sides have the operator
        states = tuple(state for state in of_side.states if state.kind is not StateKind.TIMERS)
        return attrs.evolve(side, operators=(attrs.evolve(of_side, key=None, states=states),))

    (again,) = check(keyless(report.old, operator.was), keyless(report.new, operator.becomes)).operators
    return again.states
