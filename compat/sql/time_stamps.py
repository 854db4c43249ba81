"""Time stamps that Flink writes itself: state of a query that gets a time to live, which Flink 2.3 takes as it is.

It writes the time of the restore before each value as it restores; earlier releases refuse (tried with 2.3 and 1.20:
tests/interop/test_sql_ttl_switched.py). Where state loses its time to live Flink 2.3 starts, too, but what had expired
comes back: that stays a migration. Rules STATE-4 and STATE-5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.compatibility import Decision, Verdict
from ..report import Status

if TYPE_CHECKING:
    from ..report import OperatorReport, StateReport

_FIRST = (2, 3)
STAMPS = "Flink writes the time of the restore before each value, so that nothing expires because of it"


def writes_stamps(version: str) -> bool:
    """Whether a release of Flink is known to write time stamps into state that has none."""
    parts = version.split(".")[:2]
    return all(one.isascii() and one.isdecimal() for one in parts) and tuple(map(int, parts)) >= _FIRST


def stamped_by_flink(report: OperatorReport, version: str) -> OperatorReport:
    """Return the report on an operator of a query with what Flink itself makes of a new time to live.

    Args:
        report: The report.
        version: The release of Flink that has compiled the new query.
    """
    if not writes_stamps(version) or report.is_renumbered or report.is_rekeyed:
        return report
    return attrs.evolve(report, states=tuple(map(_stamped, report.states)))


def _stamped(state: StateReport) -> StateReport:
    """Return a state that only needs time stamps as one that starts; `migrate` writes them all the same."""
    to_do = [one for one in state.result.findings if one.verdict >= Verdict.REQUIRES_MIGRATION]
    is_alone = bool(to_do) and all(one.rule == "STATE-4" and not one.flags for one in to_do)
    if state.status is not Status.MATCHED or state.decision is not Decision.MIGRATE or state.note or not is_alone:
        return state
    verdict = Verdict.COMPATIBLE_AFTER_RECONFIGURATION
    findings = tuple(
        attrs.evolve(one, verdict=verdict, reason=f"time to live is switched on: {STAMPS}", ways_out=())
        if one in to_do else one
        for one in state.result.findings
    )  # fmt: skip
    result = attrs.evolve(state.result, verdict=verdict, findings=findings)
    return attrs.evolve(state, result=result, decision=Decision.START)
