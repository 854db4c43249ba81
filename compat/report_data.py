"""A check report as plain data, for programs; `explain` formats it for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..serializers.compatibility import Decision
from .plain_data import fields_of, plain
from .way_back import ways_back

if TYPE_CHECKING:
    from .report import CheckReport, OperatorReport
    from .scan_report import ScanReport
    from .way_back import WaysBack

_ROLE = "decision verdict=result.verdict old new findings=result.findings"
_KEY = "decision verdict=result.verdict old new reader=reader.source converter? findings=result.findings"
_STATE = (
    "name kind status decision verdict=result.verdict old new reader? converter? transform? note? "
    "findings=result.findings"
)
_WAY_BACK = "decision note? findings"
_COMPUTES = "number kind fields=columns rows=facts source"


def to_data(report: CheckReport) -> dict[str, Any]:
    """Return a report as plain data; its field names are stable.

    Returns:
        `decision` (start, migrate, refuse), `verdict`, `target`, `forbid` (flags that the policy makes an error), `old`
        and `new` (origins), `counts` (states by decision), `not_taken` (stored states that the new side does not have)
        and `starting_empty` (states that only the new side has), each as uid or id and name, and `operators`. Each
        operator has `operator_id`, `uid`, `name`, `status` (matched, orphaned, new, not_in_probe), `decision`,
        `is_another` (whether it has none of the stored states), `flink_restorable` (`before` and `after`: true, false,
        or null if it is not known), `unreadable`, `keeps`, `max_parallelism` (the new number of key groups, or null if
        it stays), `key_groups` (null, or `decision`, `verdict`, `old`, `new`, `findings`), `key` (null, or the same
        with `reader` and `converter`), and `states`. Each state has `name`, `kind`, `status`, `decision`, `verdict`,
        `old` and `new` (types in words), `reader`, `converter`, `transform` and `note` (null if there is none), and
        `findings`. Each finding has `path`, `rule`, `verdict`, `old`, `new`, `reason`, `ways_out`, `flags`,
        `forbidden`. `way_back` of the report, a key and a state says what the old job could do with the state that the
        new job writes: null if the check refuses it, or the old job does not have it; else a decision, and for a key
        and a state an object with `decision`, `note` and `findings`. `way_back_to` is the recorded revision of the old
        job; null if only stored types are known.
        `condition` is the condition under which the answer holds, or null.
        Of a query, `reads` is what is found on its sources and tables, and `whole` of an operator what is found on no
        state of it (null, or as `key_groups`); `computes` has for each side of an operator its `number`, its `kind`,
        what `fields` are computed from, which `rows` come in, and the `source` of that. `known_from` says from where
        the old query is known, or null, and `is_whole` whether it is known of all that is stored;
        `not_compared` what was not compared; `next_command` the migration with the first way out of each finding, or
        null, and `next_asks` what a trial of it asked for beyond it. `scan` is null without a scan of the
        values; else it has `entries`, `failing` and `not_scanned` (numbers), and `states`, each with `operator_id`,
        `operator`, `state` (empty for the key), `kind`, `entries`, `failing`, `not_scanned` (why, or null) and
        `places`: `path`, `count`, `keys`, `rule` and `reason` of the entries that fail at the same path.
        `samples` is null, or what `EntrySamples.to_data` returns.
    """
    backs = ways_back(report)
    return {
        **fields_of(report, "decision verdict target forbid=policy.forbid old=old.origin new=new.origin counts"),
        "not_taken": [f"{operator.title}/{state.name}" for operator, state in report.not_taken],
        "starting_empty": [f"{operator.title}/{state.name}" for operator, state in report.starting_empty],
        "way_back": None if report.decision is Decision.REFUSE else str(backs.worst),
        **fields_of(report, "way_back_to=code.origin condition?"),
        "reads": plain(report.reads, _ROLE),
        **fields_of(report, "known_from? is_whole not_compared next_command? next_asks"),
        "scan": None if report.scanned is None else _scan_data(report.scanned),
        "samples": None if report.samples is None else report.samples.to_data(),
        "operators": [_operator_data(operator, backs) for operator in report.operators],
    }


def _scan_data(scanned: ScanReport) -> dict[str, Any]:
    states = plain(scanned.states, "operator_id operator state kind entries failing not_scanned? places")
    return {**fields_of(scanned, "entries failing not_scanned"), "states": states}


def _operator_data(operator: OperatorReport, backs: WaysBack) -> dict[str, Any]:
    key_back = plain(backs.keys.get(operator.operator_id), _WAY_BACK)
    return {
        **fields_of(operator, "operator_id uid name status decision is_another"),
        "flink_restorable": fields_of(operator, "before=flink_restorable_before after=flink_restorable_after"),
        "unreadable": operator.was.unreadable if operator.was else "",
        "keeps": list(operator.was.keeps) if operator.was else [],
        "max_parallelism": operator.max_parallelism or None,
        "key_groups": plain(operator.key_groups, _ROLE),
        "whole": plain(operator.whole, _ROLE),
        "computes": plain(operator.computations, _COMPUTES),
        "key": fields_of(operator.key, _KEY) | {"way_back": key_back} if operator.key else None,
        "states": [
            fields_of(state, _STATE) | {"way_back": plain(backs.of(operator, state), _WAY_BACK)}
            for state in operator.states
        ],
    }
