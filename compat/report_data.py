"""A check report as plain data, for programs; `explain` formats it for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..serializers.compatibility import Decision
from .way_back import ways_back

if TYPE_CHECKING:
    from ..serializers.compatibility import Finding
    from .report import CheckReport, OperatorReport, RoleReport, StateReport
    from .way_back import WayBack, WaysBack


def finding_data(finding: Finding) -> dict[str, Any]:
    """Return a finding as plain data."""
    return {
        "path": finding.path,
        "rule": finding.rule,
        "verdict": finding.verdict.label,
        "old": finding.old,
        "new": finding.new,
        "reason": finding.reason,
        "ways_out": list(finding.ways_out),
        "flags": [str(flag) for flag in finding.flags],
        "forbidden": list(finding.forbidden),
    }


def to_data(report: CheckReport) -> dict[str, Any]:
    """Return a report as plain data; its field names are stable.

    Returns:
        `decision` (start, migrate, refuse), `verdict`, `target`, `forbid` (flags that the policy makes an error), `old`
        and `new` (origins), `counts` (states by decision), `not_taken` (stored states that the new side does not have)
        and `starting_empty` (states that only the new side has), each as uid or id and name, and `operators`. Each
        operator has `operator_id`, `uid`, `name`, `status` (matched, orphaned, new, not_in_probe), `decision`,
        `is_another` (whether it has none of the stored states), `flink_restorable` (`before` and `after`: true, false,
        or null if it is not known), `unreadable`, `keeps`, `max_parallelism` (the new number of key groups, or null if
        it stays), `key` (null, or `decision`, `verdict`, `old`, `new`, `reader`, `converter`, `findings`), and
        `states`. Each state has `name`, `kind`, `status`, `decision`, `verdict`, `old` and `new` (types in words),
        `reader`, `converter`, `transform` and `note` (null if there is none), and `findings`. Each finding has `path`,
        `rule`, `verdict`, `old`, `new`, `reason`, `ways_out`, `flags`, `forbidden`. `way_back` of the report, a key and
        a state says what the old job could do with the state that the new job writes: null if the check refuses it, or
        the old job does not have it; else a decision, and for a key and a state an object with `decision`, `note` and
        `findings`. `way_back_to` is the recorded revision of the old job; null if only stored types are known.
    """
    backs = ways_back(report)
    return {
        "decision": str(report.decision),
        "verdict": report.verdict.label,
        "target": str(report.target),
        "forbid": sorted(report.policy.forbid),
        "old": report.old.origin,
        "new": report.new.origin,
        "counts": {str(decision): count for decision, count in report.counts.items()},
        "not_taken": [f"{operator.title}/{state.name}" for operator, state in report.not_taken],
        "starting_empty": [f"{operator.title}/{state.name}" for operator, state in report.starting_empty],
        "way_back": None if report.decision is Decision.REFUSE else str(backs.worst),
        "way_back_to": report.code.origin if report.code else None,
        "operators": [_operator_data(operator, backs) for operator in report.operators],
    }


def _operator_data(operator: OperatorReport, backs: WaysBack) -> dict[str, Any]:
    return {
        "operator_id": operator.operator_id,
        "uid": operator.uid,
        "name": operator.name,
        "status": str(operator.status),
        "decision": str(operator.decision),
        "is_another": operator.is_another,
        "flink_restorable": {"before": operator.flink_restorable_before, "after": operator.flink_restorable_after},
        "unreadable": operator.was.unreadable if operator.was else "",
        "keeps": list(operator.was.keeps) if operator.was else [],
        "max_parallelism": operator.max_parallelism or None,
        "key": _role_data(operator.key, backs.keys.get(operator.operator_id)) if operator.key else None,
        "states": [_state_data(state, backs.of(operator, state)) for state in operator.states],
    }


def _role_data(role: RoleReport, back: WayBack | None) -> dict[str, Any]:
    return {
        "decision": str(role.decision),
        "verdict": role.result.verdict.label,
        "old": role.old,
        "new": role.new,
        "reader": None if role.reader is None else str(role.reader.source),
        "converter": role.converter or None,
        "findings": [finding_data(finding) for finding in role.result.findings],
        "way_back": _back_data(back),
    }


def _state_data(state: StateReport, back: WayBack | None) -> dict[str, Any]:
    return {
        "name": state.name,
        "kind": str(state.kind),
        "status": str(state.status),
        "decision": str(state.decision),
        "verdict": state.result.verdict.label,
        "old": state.old,
        "new": state.new,
        "reader": state.reader or None,
        "converter": state.converter or None,
        "transform": state.transform or None,
        "note": state.note or None,
        "findings": [finding_data(finding) for finding in state.result.findings],
        "way_back": _back_data(back),
    }


def _back_data(back: WayBack | None) -> dict[str, Any] | None:
    if back is None:
        return None
    findings = [finding_data(finding) for finding in back.findings]
    return {"decision": str(back.decision), "note": back.note or None, "findings": findings}
