"""State that only one side has: stored state that the job does not take, and new state that starts empty (STATE-7).

Either is fine if it is intended. If the two may be one state under two names, the user has to decide.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import attrs

from ..serializers.compatibility import Finding, Verdict
from ..serializers.ways_out import Option, WayOut
from .description import StateKind
from .lazy_tables import state_in, whole
from .report import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .description import OperatorDescription, StateDescription
    from .policy import Policy
    from .report import OperatorReport, StateReport

_SIMILAR = 0.6
"""How alike two names are, at least: what difflib takes by default."""


def _similar(name: str, states: Iterable[StateDescription]) -> Iterator[StateDescription]:
    """Yield the states whose name is similar."""
    from difflib import SequenceMatcher  # seldom needed, and slow to import

    matcher = SequenceMatcher(b=name)
    for one in states:
        matcher.set_seq1(one.name)
        # The first two take less time, and are never smaller than the last.
        if all(ratio() >= _SIMILAR for ratio in (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)):
            yield one


Operator = TypeVar("Operator", "OperatorReport", "OperatorDescription")

_MOST = 1000
"""Among so many states, at most, a name is looked for: of more, many would be similar by chance, and it takes long."""
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
        left = Candidates.of(whole(one.was for one in report.states if _is_left(one) and one.was is not None))
        return attrs.evolve(
            report, states=tuple(_with_likely_name(state, report, left, policy) for state in report.states)
        )
    stored = _stored_under_another_uid(report, reports)
    if stored is None or not report.uid:
        return report
    names = {state_in(state.name) for state in stored.states}
    title = stored.title
    way = WayOut.telling("if it is that operator:", Option.RENAME_UID, title, report.uid)
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
    return attrs.evolve(report, states=tuple(states), likely_uid=title)


def _stored_under_another_uid(report: OperatorReport, reports: Sequence[OperatorReport]) -> OperatorReport | None:
    """Return the stored operator missing in the job that has states of the same names, if there is exactly one."""
    left = (one for one in reports if one.status in _LEFT and (one.was is None or not one.was.stored_id))
    like = sharing_states({state.name for state in report.states}, left)
    return like[0] if len(like) == 1 else None


def _with_likely_name(state: StateReport, operator: OperatorReport, left: Candidates, policy: Policy) -> StateReport:
    is_free = state.status is Status.NEW and not state.result.is_incompatible()
    if not is_free or state.becomes is None or policy.allows_empty(operator, state.name):
        return state
    stored = left.only_one_like(state.becomes)
    if stored is None:
        return state
    name = stored.name
    reason = f"the job's state would start empty, although the stored state {name!r}, which is like it, is not taken"
    way = WayOut.telling("if it is that state:", Option.RENAME_STATE, name, state.name)
    return _refused(state, operator, stored.describe(), reason, way)


def _is_left(state: StateReport) -> bool:
    """Whether a stored state is not taken over and not renamed; renaming is intended."""
    return state.status in _LEFT and (state.was is None or not state.was.stored_name)


def sharing_states(names: set[str], operators: Iterable[Operator]) -> list[Operator]:
    """Return the operators that have states of these names: each may be the same operator with another uid."""
    return [one for one in operators if names & {state_in(state.name) for state in one.states}]


@attrs.frozen
class Candidates:
    """States of one side, among which the former or later name of a state of the other side is looked for.

    Attributes:
        by_type: The states of each kind and type.
        by_kind: The states of each kind.
    """

    by_type: dict[tuple[StateKind, str], list[StateDescription]]
    by_kind: dict[StateKind, list[StateDescription]]

    @classmethod
    def of(cls, states: Iterable[StateDescription]) -> Candidates:
        """Return the candidates among some states; timers have no name of their own."""
        by_type: dict[tuple[StateKind, str], list[StateDescription]] = {}
        by_kind: dict[StateKind, list[StateDescription]] = {}
        for state in states:
            if state.kind is not StateKind.TIMERS:
                by_type.setdefault((state.kind, state.describe()), []).append(state)
                by_kind.setdefault(state.kind, []).append(state)
        return cls(by_type, by_kind)

    def only_one_like(self, state: StateDescription) -> StateDescription | None:
        """Return the only candidate that may be `state` under another name; None: there is none, or there are several.

        It may be that state if the kind is equal, and the type is equal or the names are similar. Names are compared
        among at most 1,000 candidates.
        """
        text = state.describe()
        like = list(self.by_type.get((state.kind, text), ()))
        if len(like) > 1:  # names say nothing more, and comparing them takes long
            return None
        of_kind = self.by_kind.get(state.kind, ())
        if len(of_kind) <= _MOST:
            like += list(islice((one for one in _similar(state.name, of_kind) if one not in like), 2))
        return like[0] if len(like) == 1 else None


def _refused(state: StateReport, operator: OperatorReport, old: str, reason: str, way: WayOut) -> StateReport:
    name = f"{operator.uid}/{state.name}" if operator.uid else state.name
    may_be_empty = operator.whole is None or not operator.whole.result.is_incompatible()
    empty = WayOut.telling("if it is meant to start empty:", Option.ALLOW_EMPTY, name)
    ways = (way, empty) if may_be_empty else (way,)
    finding = Finding("$<state>", "STATE-7", Verdict.INCOMPATIBLE, old, state.new, reason, ways)
    return state.refused(finding)
