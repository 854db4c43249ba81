"""The caller's policy: it can turn any flag into an error, and allow states to start empty.

Source: compatibility rules, section 1 ("Policies may turn any flag into an error") and section 2, step 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar

import attrs

from ..serializers.compatibility import Decision, Flag
from ..serializers.ways_out import Does, Option, WayOut

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..serializers.compatibility import CompatibilityResult, Finding
    from .description import OperatorDescription
    from .report import CheckReport, OperatorReport, RoleReport, StateReport

T = TypeVar("T")

LOOK = WayOut("find out whether a stored value fails:", command="stateshift check SAVEPOINT --scan")
"""The way out for a flag that only the stored values can answer."""


def _flags(given: Iterable[Flag | str]) -> frozenset[Flag]:
    return frozenset(map(Flag, given))


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(given)


@attrs.frozen
class Policy:
    """Changes that are refused although the rules allow them, and states accepted although they look like a mistake.

    Attributes:
        forbid: The flags that turn a finding into a refusal; `Policy(forbid=Flag)` forbids all.
        allow_empty: The new states that may start empty, each by its name, or as `UID/STATE` (rule STATE-7).
    """

    forbid: frozenset[Flag] = attrs.field(default=frozenset(), converter=_flags)
    allow_empty: tuple[str, ...] = attrs.field(default=(), converter=_names)
    asks: ClassVar[Mapping[Flag, Option]] = {}  # what it forbids only until an option allows it
    accepted_by: ClassVar[str] = ""  # how a caller who set no policy accepts what a default one forbids

    def __bool__(self) -> bool:
        return bool(self.forbid or self.allow_empty)

    def allows_empty(self, operator: OperatorReport | OperatorDescription, state: str) -> bool:
        """Whether a state of the new side may start empty."""
        names = {state, f"{operator.uid}/{state}", f"{operator.operator_id}/{state}"}
        return not names.isdisjoint(self.allow_empty)

    def applied(self, report: OperatorReport) -> OperatorReport:
        """Refuse the key and the states of an operator with forbidden flags; their verdicts stay as they are."""
        if not self.forbid:
            return report
        key = self.of_role(report.key) if report.key is not None else None
        groups = self.of_role(report.key_groups) if report.key_groups is not None else None
        whole = self.of_role(report.whole) if report.whole is not None else None
        states = tuple(map(self._state, report.states))
        return attrs.evolve(report, key=key, key_groups=groups, whole=whole, states=states)

    def before_scan(self) -> Policy:
        """Return the policy for a check that a scan follows: it does not refuse what the scan is to answer."""
        return attrs.evolve(self, forbid=self.forbid - {Flag.MAY_FAIL_PER_VALUE})

    def after_scan(self, report: CheckReport) -> CheckReport:
        """Return the report of a scanned check under this policy: what the scan has cleared is not refused."""
        left = Policy(self.forbid & {Flag.MAY_FAIL_PER_VALUE})

        def is_cleared(operator: OperatorReport, state: StateReport | None) -> bool:
            answer = report.scan_of(operator, state)
            return answer is not None and answer.is_fine

        operators = []
        for operator in report.operators:
            key = operator.key
            if key is not None and not is_cleared(operator, None):
                key = left.of_role(key)
            states = tuple(one if is_cleared(operator, one) else left._state(one) for one in operator.states)
            operators.append(attrs.evolve(operator, key=key, states=states))
        return attrs.evolve(report, operators=tuple(operators), policy=self)

    def of_role(self, role: RoleReport) -> RoleReport:
        """Refuse what is not of a state, if it has forbidden flags."""
        result = self._result(role.result)
        return role if result is role.result else attrs.evolve(role, result=result, decision=Decision.REFUSE)

    def _state(self, state: StateReport) -> StateReport:
        result = self._result(state.result)
        return state if result is state.result else attrs.evolve(state, result=result, decision=Decision.REFUSE)

    def _result(self, result: CompatibilityResult[T]) -> CompatibilityResult[T]:
        """Return the result with forbidden findings marked, or the same object if none is."""
        findings = tuple(map(self.forbidden, result.findings))
        return attrs.evolve(result, findings=findings) if findings != result.findings else result

    def forbidden(self, finding: Finding) -> Finding:
        """Return the finding with its forbidden flags marked, or the same object if it has none."""
        flags = dict.fromkeys(one.flag for one in finding.flags)
        forbidden = tuple(flag for flag in flags if flag in self.forbid)
        if not forbidden:
            return finding
        others = [way for way in finding.ways_out if way.does is not Does.MIGRATE]
        accept: WayOut | str = f"accept it: {self.accepted_by or 'do not forbid ' + ', '.join(forbidden)}"
        if len(forbidden) == 1 and forbidden[0] in self.asks:
            accept = WayOut.telling("accept it:", self.asks[forbidden[0]])
        looks = [LOOK] if Flag.MAY_FAIL_PER_VALUE in forbidden else []
        return attrs.evolve(finding, forbidden=forbidden, ways_out=(*looks, *others, accept))


class AskingPolicy(Policy):
    """A policy that forbids `partial` and `stale` where nobody has allowed it yet (rules SQL-15 and SQL-19)."""

    asks: ClassVar[Mapping[Flag, Option]] = {Flag.PARTIAL: Option.ALLOW_PARTIAL, Flag.STALE: Option.ALLOW_STALE}


ACCEPT_ALL = Policy()
"""The default policy: it refuses only what the rules refuse."""
