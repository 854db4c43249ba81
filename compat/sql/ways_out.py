"""What a user of Flink SQL can do: rules of types offer what the code of a job can, and a query has no such code.

Ways out are chosen by what they are as data: the rule of a finding, what a way comes down to, the options it names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from ...serializers.compatibility import Verdict
from ...serializers.ways_out import Does, Option, WayOut, ways_out

if TYPE_CHECKING:
    from ...serializers.compatibility import Finding
    from ..report import OperatorReport, RoleReport, StateReport

    Told = TypeVar("Told", RoleReport, StateReport)

KEEP_QUERY: Final = "keep this part of the query as it was"
EMPTY: Final = "start the query without its state, on all of its input"
_KEEP_TIME = WayOut("keep the time to live as it was:", command="stateshift ttl set PLAN NODE:INDEX=TTL")
_OWN = "SQL-"
"""How the ids of the rules begin that know of queries."""
_OF_RULE: Final = {"STATE-4": (_KEEP_TIME,), "STATE-5": (_KEEP_TIME,)}
_OF_VERDICT: Final = {
    Verdict.REQUIRES_MIGRATION: (KEEP_QUERY,), Verdict.REQUIRES_MIGRATION_WITH_FALLBACK: (KEEP_QUERY,),
    Verdict.INCOMPATIBLE: (KEEP_QUERY, EMPTY),
}  # fmt: skip
_TAKEN: Final = frozenset(
    {Option.RENAME_STATE, Option.RENAME_UID, Option.DROP, Option.ALLOW_EMPTY, Option.REPARTITION, Option.OLD_PLAN,
     Option.MAX_PARALLELISM}
)  # fmt: skip
"""The options that need no code of a job."""


def of_query(report: OperatorReport, *, is_old_known: bool) -> OperatorReport:
    """Return the report on an operator of a query, with the ways out that the user of a query can take.

    Args:
        report: The report.
        is_old_known: Whether the plan of the old query is known already.
    """
    taken = _TAKEN - {Option.OLD_PLAN} if is_old_known else _TAKEN

    def told(one: Told) -> Told:
        findings = tuple(_takeable(finding, taken) for finding in one.result.findings)
        return attrs.evolve(one, result=attrs.evolve(one.result, findings=findings))

    key, whole = (None if one is None else told(one) for one in (report.key, report.whole))
    return attrs.evolve(report, key=key, whole=whole, states=tuple(map(told, report.states)))


def _takeable(finding: Finding, taken: frozenset[Option]) -> Finding:
    if not finding.ways_out:
        return finding
    if finding.rule.startswith(_OWN):
        kept = [way for way in finding.ways_out if _is_taken(way, taken) or not way.mentions(Option.OLD_PLAN)]
        return attrs.evolve(finding, ways_out=tuple(kept))
    kept = [way for way in finding.ways_out if _is_taken(way, taken)]
    if not any(way.told and way.does is Does.CHANGE for way in kept):  # else what is to be done is known
        kept += ways_out(_OF_RULE.get(finding.rule) or _OF_VERDICT.get(finding.verdict, ()))
    return attrs.evolve(finding, ways_out=tuple(kept))


def _is_taken(way: WayOut, taken: frozenset[Option]) -> bool:
    if way.does is Does.MIGRATE:
        return True
    return way.does is Does.CHANGE and bool(way.told) and all(one.option in taken for one in way.told)
