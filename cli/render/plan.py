"""Formatting of a plan for people: the action on each state, its reader and writer, and the way back."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ...compat.explain import MUST_DECLARE, STYLES
from ...compat.fingerprint import UNKNOWN
from ...compat.lazy_tables import is_joined
from ...compat.likeness import FEW, as_there, likeness, some
from ...compat.plan import StateAction
from ...compat.reference_time import length_text, millis_text
from ...serializers.compatibility import Flagged, Path
from ...serializers.wording import many
from ...state.migration.plan_file import FILES, RECORDED, STARTS_EMPTY
from ...state.progress import size_text
from ..output import Column, Line, Row, styled_table

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from ...state.migration.plan_file import PlanFile

_COLUMNS = (Column("state", is_name=True), Column("kind"), Column("done"), Column("entries", is_number=True),
            Column("bytes", is_number=True), Column("files"), Column("tried"), Column("old job"))  # fmt: skip
_COUNTED = {"convert": "converted", "rekey": "copied under new keys",
            "relabel": "copied under a new header", "drop": "dropped", "new": "empty"}  # fmt: skip
_TRIED = {True: "yes", False: "no", None: ""}
_ACTION_STYLES = {"convert": "yellow", "drop": "red"}
_NOTE = "compatible"


def plan_lines(plan: PlanFile, new_types: str = "") -> Iterator[Line | Row]:
    """Yield a plan as lines; copied states have a row, and changed ones also their reasons.

    Args:
        plan: The plan.
        new_types: From where the new types come, if the plan does not say it.
    """
    decision = plan.summary["decision"]
    yield [(decision, STYLES[decision]), (f": {headline(plan)}", "bold")]
    of = "" if plan.typed is not None else "savepoint "
    yield [(f"  from {of}{plan.source.place} to {new_types or plan.new_types}", "dim")]
    options = ", ".join(options_of(plan))
    if options:
        yield [(f"  with {options}", "dim")]
    said: dict[tuple[Hashable, ...], str] = {}
    for operator in plan.operators:
        yield []
        yield from _operator_lines(operator, said)
    yield []
    yield from ending_lines(plan)


def headline(plan: PlanFile) -> str:
    """Return what a plan comes down to, in a sentence."""
    counts = plan.summary["states"]
    if plan.summary["decision"] == "start":
        return "nothing has to change; a migration copies every file as it is"
    changed = [f"{counts[name]:,} {words}" for name, words in _COUNTED.items() if counts.get(name)]
    rest = ["the rest copied as bytes"] if counts["copy"] else []
    whole = ", ".join([*changed, *rest]) or "none changed; other parts of the savepoint are"
    return f"of {many(sum(counts.values()), 'state')}, {whole}"


def options_of(plan: PlanFile) -> Iterator[str]:
    """Yield the options that differ from their defaults."""
    from ...state.migration.options import MigrationOptions
    from ...state.migration.options_data import options_to_data

    for name, value in (plan.typed or {}).items():
        yield name.replace("_", "-") + ("" if value is True else f" {_listed(value)}")
    defaults = options_to_data(MigrationOptions())
    for name, value in options_to_data(plan.options).items():
        if value == defaults[name]:
            continue
        if isinstance(value, dict):
            given = [f"{inner.replace('_', ' ')} {_listed(fact)}" for inner, fact in value.items() if fact]
            yield from given if name == "edits" else [" ".join([name, *given])]
        else:
            yield name.replace("_", " ") + ("" if value is True else f" {_listed(value)}")


def _listed(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(str(fact) if name == "*" else f"{name}={fact}" for name, fact in value.items())
    if not isinstance(value, list):
        return str(value)
    return " ".join("=".join(item) if isinstance(item, list) else str(item) for item in value)


def _operator_lines(operator: dict[str, Any], said: dict[tuple[Hashable, ...], str]) -> Iterator[Line | Row]:
    """Yield the lines on an operator; `said` maps lines that were printed to their place, and is extended."""
    uid, operator_id = operator["uid"], operator["operator_id"]
    is_known = uid and operator["parallelism"]["old"] is not None  # the name of a query's operator has its number
    title = f"operator {uid} ({operator_id})" if is_known else f"operator {uid or operator_id}"
    yield [(title, "bold"), (f": {'; '.join(_operator_facts(operator))}", "")]
    if operator["unreadable"]:
        yield [(f"  not all of its state can be read: {operator['unreadable']}", "red")]
    if operator["keeps"]:
        yield [(f"  also kept as is: {', '.join(operator['keeps'])}", "dim")]
    key = operator["key"]
    if key is not None and key["rekeying"] is not None:
        yield from _key_lines(key)
    elif key is not None and (key["relabelled"] or key["old"] != key["new"]):
        yield [(f"  key  {_change(key['old'], key['new'])}: new header", "")]
    shown = [state for state in operator["states"] if not _is_empty_queue(state)]
    if shown:
        rows = [_row(state) for state in shown]
        known = [at for at in range(len(_COLUMNS)) if any(row[at][0] for row in rows)]  # a dry run counts nothing
        yield from styled_table([_COLUMNS[at] for at in known], [[row[at] for at in known] for row in rows], indent=2)
    for state in operator["states"]:
        if state["action"] != "copy":
            yield from _told_once(state, f"{uid or operator_id}/{state['name']}", said)


def _told_once(state: dict[str, Any], place: str, said: dict[tuple[Hashable, ...], str]) -> list[Line]:
    """Return the lines on a state; if there are several and they were printed before, a reference to that place."""
    lines = list(_state_lines(state))
    told = [_as_told(state[name]) for name in ("transform", "rewrites", "code", "former_time_to_live_s")]
    told.append(_as_told([one for one in state["findings"] if one["verdict"] != _NOTE or one["flags"]]))
    decision, why = _old_job(state)
    told += (decision, len(why))  # they follow from the findings, and are of the same paths
    first = said.setdefault(likeness(told), place) if len(lines) > 2 else place
    return lines if first == place else [lines[0], [(f"    {as_there(first, told)}", "dim")]]


def _old_job(state: dict[str, Any]) -> tuple[Any, list[str]]:
    """Return what the old job could do with the result, and why; "" if the plan does not say it."""
    found = state["old_job"] or {"decision": "", "reasons": []}
    return found["decision"], found["reasons"]


def _as_told(data: Any, name: str = "") -> Any:
    """Return data of a plan with its paths and flags as what they are."""
    if isinstance(data, dict):
        return [(title, _as_told(value, title)) for title, value in data.items()]
    if isinstance(data, list):
        return [_as_told(item, name) for item in data]
    return Path(data) if name == "path" else Flagged.parsed(data) if name == "flags" else data


def _is_empty_queue(state: dict[str, Any]) -> bool:
    """Whether it is a timer queue without a timer, as most are, and stays as it is."""
    return (state["kind"], state["action"], state["entries"]) == ("timers", "copy", 0)


def _key_lines(key: dict[str, Any]) -> Iterator[Line]:
    rekeying = key["rekeying"]
    yield [(f"  key  {_change(key['old'], key['new'])}: every entry and timer is placed again", "yellow")]
    if rekeying["reader"]:
        converter = f"; converter: {rekeying['converter']}" if rekeying["converter"] else ""
        yield [(f"    $<key>  reader: {rekeying['reader']}{converter}", "")]
        merges = ", ".join(f"{state} by {function}" for state, function in rekeying["merges"].items())
        becomes = f"are merged: {merges}" if merges else "abort the run"
        yield [(f"    $<key>  two keys that become one {becomes}", "")]
    yield from _code_lines(rekeying["code"])


def _operator_facts(operator: dict[str, Any]) -> Iterator[str]:
    yield "rewritten" if operator["action"] == "rewrite" else "files copied as they are"
    if operator["new_uid"]:
        yield f"renamed to {operator['new_uid']} ({operator['new_operator_id']})"
    if not operator["in_job"]:
        yield "not in the job"
    if operator["reframed"]:
        yield "in new files of RocksDB" if operator.get("native") else "from the native format into the canonical one"
    was, becomes = operator["parallelism"]["old"], operator["parallelism"]["new"]
    if was != becomes:
        yield f"parallelism {was} -> {becomes}"
    was, becomes = operator["max_parallelism"]["old"], operator["max_parallelism"]["new"]
    if was != becomes:
        yield f"max parallelism {was} -> {becomes}"
    if operator["compression"] != "keep":
        yield {"snappy": "compressed with snappy"}.get(operator["compression"], "uncompressed")
    was, becomes = operator["flink_restorable"]["old"], operator["flink_restorable"]["new"]
    if becomes and operator.get("custom_raw_keyed_state"):
        yield MUST_DECLARE
    elif becomes is not None:
        yield "Flink restores it" if becomes else "Flink cannot restore it" + (" any more" if was else "")


def _row(state: dict[str, Any]) -> Line:
    entries, size = state["entries"], state["bytes"]
    old_job, _ = _old_job(state)
    return [
        (state["name"], "bold"),
        (state["kind"], ""),
        (StateAction(state["action"]).done, _ACTION_STYLES.get(state["action"], "")),
        ("" if entries is None else f"{entries:,}", ""),
        ("" if size is None else f"{size:,}", ""),
        (_files(state.get(FILES, {})), ""),
        (_TRIED[state["tried"]], ""),
        (old_job, STYLES[old_job] if old_job else ""),
    ]


def _files(files: dict[str, int]) -> str:
    """Return what becomes of the files of a state in databases, in words."""
    return ", ".join(f"{size_text(files[f'{what}_bytes'])} {what}" for what in ("kept", "read") if what in files)


def _state_lines(state: dict[str, Any]) -> Iterator[Line]:
    if state["action"] in {"drop", "new"} or (
        state["action"] == "rekey" and not state["findings"] and not state["new_name"]
    ):
        return
    does = "in one table with" if is_joined(state["name"], state["new_name"] or "") else "renamed to"
    named = f", {does} {state['new_name']}" if state["new_name"] else ""
    transform = state["transform"]
    kind = f"{transform['from']} -> {state['kind']}" if transform else state["kind"]
    yield [(f"  {state['name']}", "bold"), (f"  {kind}{named}", "")]
    if transform:
        yield [(f"    transform: {transform['name']}", "")]
    for rewrite in state["rewrites"]:
        converter = f"; converter: {rewrite['converter']}" if rewrite["converter"] else ""
        words = f"reader: {rewrite['reader']}{converter}; writer: {rewrite['writer']}"
        yield [(f"    {rewrite['path']}  {words}", "")]
    yield from _code_lines(state["code"])
    if state["former_time_to_live_s"] is not None:
        length = length_text(timedelta(seconds=state["former_time_to_live_s"]))
        yield [(f"    values that expired after {length} are dropped", "red")]
    changes = [finding for finding in state["findings"] if finding["verdict"] != _NOTE]
    for finding in changes:
        old, new = finding["old"] or "(none)", finding["new"] or "(gone)"
        flags = "".join(f" {flag}" for flag in finding["flags"])
        yield [
            (f"    {finding['path']}", "bold"),
            (f"  {_change(old, new)}  {finding['reason']}  [{finding['rule']}]{flags}", ""),
        ]
    yield from _note_lines(finding for finding in state["findings"] if finding["verdict"] == _NOTE)
    decision, reasons = _old_job(state)
    for reason in reasons:
        yield [(f"    old job on the result: {decision}; {reason}", "dim")]


def _code_lines(code: dict[str, str]) -> Iterator[Line]:
    """Yield lines on user code that later runs cannot recognize."""
    for name, fingerprint in code.items():
        if fingerprint.startswith(UNKNOWN):
            why = f"code of {name}: {fingerprint.rpartition(' (')[0]}; a run with this plan file will be refused"
            yield [(f"    {why}", "red")]


def _note_lines(findings: Iterable[dict[str, Any]]) -> Iterator[Line]:
    """Yield the findings that have a flag but change nothing; equal ones of several fields share a line."""
    paths: dict[str, list[str]] = {}
    for finding in findings:
        if finding["flags"]:
            said = f"{finding['reason']}  [{finding['rule']}] {' '.join(finding['flags'])}"
            paths.setdefault(said, []).append(finding["path"])
    for said, where in paths.items():
        yield [(f"    {', '.join(where)}", "bold"), (f"  note: {said}", "dim")]


def _change(old: str, new: str) -> str:
    return old if old == new else f"{old} -> {new}"


def query_lines(query: dict[str, Any]) -> Iterator[Line]:
    """Yield lines on what the copy of a query's checkpoint has beside state; `query` is of a report or a plan."""
    from ...compat.queries.wording import as_written

    for one in query["operators"]:
        if one["was"] and one["becomes"] and one["was"] != one["becomes"]:
            yield [(f"  operator {one['was']} is {one['becomes']} now", "")]
    yield from ([(f"  {warning}", "yellow")] for warning in query["warnings"])
    watermark = f", watermark {millis_text(query['watermark_ms'])}" if query["watermark_ms"] else ""
    kept = "" if query["has_new_id"] else f"query {query['query_id']}, "
    yield [(f"  kept: {kept}batch {query['batch']}, offsets{watermark}", "")]
    if query["has_new_id"]:
        yield [(f"  new: query {query['query_id'] or 'id'}", "")]
    if query["known_from"]:
        yield [(f"  what is computed was compared: known from {query['known_from']}", "")]
    yield from ([(f"  not compared: {as_written(line)}", "dim")] for line in query["not_compared"])
    yield from ([(f"  not shown by the files: {line}", "dim")] for line in query["not_shown"])


def way_back(plan: PlanFile) -> str:
    """Return on what the old job or query starts again."""
    if plan.summary.get("query") is not None:
        return str(plan.rollback["source"])
    return "start the old job on the source, which is not touched"


def ending_lines(plan: PlanFile) -> Iterator[Line]:
    """Yield how much work it is, whether Flink restores the result, and the way back."""
    yield from work_lines(plan)
    yield [(f"rollback: {way_back(plan)}", "")]
    yield from old_job_lines(plan)


def work_lines(plan: PlanFile) -> Iterator[Line]:
    """Yield how much work it is, and whether Flink restores the result."""
    summary, query = plan.summary, plan.summary.get("query")
    if query is not None:
        rewritten, copied = summary["streams_rewritten"], summary["files_copied"]
        yield [(f"work: {many(rewritten, 'partition')} to convert, {copied:,} to copy", "")]
        yield from query_lines(query)
        return
    if starting := summary.get(STARTS_EMPTY):
        start = "starts" if len(starting) == 1 else "start"
        yield [(f"new: {some(starting, most=FEW, whole='--json')} {start} empty", "")]
    streams = f"{many(summary['streams_rewritten'], 'stream')} to rewrite, {many(summary['files_copied'], 'file')}"
    yield [(f"work: {streams} to copy, {size_text(summary['bytes_to_read'])} to read", "")]
    files = [state[FILES] for operator in plan.operators for state in operator["states"] if FILES in state]
    if kept := sum(one.get("kept", 0) for one in files):
        size = size_text(sum(one.get("kept_bytes", 0) for one in files))
        yield [(f"kept as they are, and not read: {many(kept, 'file')}, {size}; linked on one disk, else copied", "")]
    if summary["reference_time"] is not None:
        yield [(f"reference time: {summary['reference_time']}", "")]
    declared = any(one["in_job"] and one.get("custom_raw_keyed_state") for one in plan.operators)
    condition = ", if the operators declare their raw keyed state" if declared else ""
    restores = {
        True: f"Flink restores the result{condition}",
        False: "Flink cannot restore all of the result",
        None: "it is unknown whether Flink restores the result",
    }[summary["flink_restorable"]]
    yield [(restores, "" if summary["flink_restorable"] and not declared else "yellow")]


def old_job_lines(plan: PlanFile) -> Iterator[Line]:
    """Yield what the old job could do with the result; nothing of a query."""
    if plan.summary.get("query") is not None:
        return
    recorded = plan.rollback.get(RECORDED)
    old_job = (recorded or plan.rollback)["old_job_on_result"]
    meaning = {
        "start": "it can use it as it is",
        "migrate": "it can use it after a migration back",
        "refuse": "it cannot use all of it",
    }[old_job]
    known = f", according to all that {recorded['by']} declares" if recorded else ", as far as the stored types show"
    if plan.summary["decision"] == "start":
        known = ""
    yield [("  the old job on the result: ", ""), (old_job, STYLES[old_job]), (f"; {meaning}{known}", "")]
    if recorded and recorded["reasons"]:
        yield from ([(f"    {reason}", "dim")] for reason in recorded["reasons"][:FEW])
        if len(recorded["reasons"]) > FEW:
            yield [(f"    and {len(recorded['reasons']) - FEW:,} more (--json lists them)", "dim")]
