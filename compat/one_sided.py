"""State that only one side has: stored state that the job does not take, and new state that starts empty (STATE-7).

Either is fine if it is intended. If the two may be one state under two names, the user has to decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from ..serializers.compatibility import CompatibilityResult, Decision, Finding, Verdict
from ..serializers.escaping import shell_word
from .description import StateKind
from .report import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .description import OperatorDescription, StateDescription
    from .policy import Policy
    from .report import OperatorReport, StateReport

Operator = TypeVar("Operator", "OperatorReport", "OperatorDescription")

_LEFT = {Status.ORPHANED, Status.NOT_IN_PROBE}


def with_likely_names(reports: Sequence[OperatorReport], policy: Policy) -> list[OperatorReport]:
    """Refuse each state that would start empty while one stored state that is left over is like it.

    Args:
        reports: The reports on all operators of both sides.
        policy: The policy that names the states that may start empty anyway.
    """
    return [_with_likely_uid(report, reports, policy) for report in reports]


def _with_likely_uid(report: OperatorReport, reports: Sequence[OperatorReport], policy: Policy) -> OperatorReport:
    if report.status is not Status.NEW:
        return attrs.evolve(report, states=tuple(_with_likely_name(state, report, policy) for state in report.states))
    stored = _stored_under_another_uid(report, reports)
    if stored is None or not report.uid:
        return report
    names = {state.name for state in stored.states}
    title = stored.title
    way = f"if it is that operator: --rename-uid {shell_word(f'{title}={report.uid}')}"
    reason = (
        f"the job's operator would start empty, although the stored operator {title!r}, which is not in the job, has "
        "this state"
    )
    states = (
        _refused(state, report, "", reason, way)
        if state.name in names and not policy.allows_empty(report, state.name)
        else state
        for state in report.states
    )
    return attrs.evolve(report, states=tuple(states))


def _stored_under_another_uid(report: OperatorReport, reports: Sequence[OperatorReport]) -> OperatorReport | None:
    """Return the stored operator missing in the job that has states of the same names, if there is exactly one."""
    left = (one for one in reports if one.status in _LEFT and (one.was is None or not one.was.stored_id))
    like = sharing_states({state.name for state in report.states}, left)
    return like[0] if len(like) == 1 else None


def _with_likely_name(state: StateReport, operator: OperatorReport, policy: Policy) -> StateReport:
    is_free = state.status is Status.NEW and not state.result.is_incompatible()
    if not is_free or policy.allows_empty(operator, state.name):
        return state
    becomes = state.becomes
    stored = (old for old in operator.states if _is_left(old))
    like = [old for old in stored if old.was is not None and becomes is not None and is_like(old.was, becomes)]
    if len(like) != 1:
        return state
    name = like[0].name
    reason = f"the job's state would start empty, although the stored state {name!r}, which is like it, is not taken"
    way = f"if it is that state: --rename-state {shell_word(f'{name}={state.name}')}"
    return _refused(state, operator, like[0].old, reason, way)


def _is_left(state: StateReport) -> bool:
    """Whether a stored state is not taken over and not renamed; renaming is intended."""
    return state.status in _LEFT and (state.was is None or not state.was.stored_name)


def sharing_states(names: set[str], operators: Iterable[Operator]) -> list[Operator]:
    """Return the operators that have states of these names: each may be the same operator with another uid."""
    return [one for one in operators if names & {state.name for state in one.states}]


def is_like(was: StateDescription, becomes: StateDescription) -> bool:
    """Whether a state may be another one renamed: the kind is equal, and the type is equal or the names are similar."""
    if was.kind is not becomes.kind or was.kind is StateKind.TIMERS:
        return False
    import difflib  # seldom needed, and slow to import

    return was.describe() == becomes.describe() or bool(difflib.get_close_matches(becomes.name, [was.name], 1))


def _refused(state: StateReport, operator: OperatorReport, old: str, reason: str, way: str) -> StateReport:
    name = shell_word(f"{operator.uid}/{state.name}" if operator.uid else state.name)
    ways = (way, f"if it is meant to start empty: --allow-empty {name}")
    finding = Finding("$<state>", "STATE-7", Verdict.INCOMPATIBLE, old, state.new, reason, ways)
    result: CompatibilityResult[Any] = CompatibilityResult.incompatible(finding)
    return attrs.evolve(state, result=result, decision=Decision.REFUSE)
