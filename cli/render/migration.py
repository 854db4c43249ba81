"""Formatting of a migration's report for people, before the run and after it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ...compat.description import StateKind, uid_order
from ...compat.likeness import FEW, OF_CHECK, alike, some
from ...compat.reference_time import time_text
from ...serializers.wording import many, shell_word
from ...state.progress import size_text
from ...state.transcode.executor_choice import TIMES_SLOWER
from ..next_steps import flink_command, options_given, start_lines
from ..options import NOT_COMPARED, PREFIX
from ..output import Column, Line, Row, Table, print_notice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...compat.plan import MigrationPlan, OperatorPlan
    from ...state.migration.estimate import Estimate
    from ...state.migration.report import MigrationReport

_COLUMNS = (Column("operator", is_name=True), Column("state", is_name=True), Column("kind"), Column("done"),
            Column("read", is_number=True), Column("written", is_number=True),
            Column("dropped", is_number=True))  # fmt: skip
_QUARANTINED = (Column("quarantined", is_number=True),)
_DONE = {"copy": "copied as bytes", "relabel": "copied, new header", "rekey": "copied under new keys",
         "convert": "converted", "drop": "dropped", "new": "starts empty"}  # fmt: skip
_SLOWER = f"about {TIMES_SLOWER} times slower without numba (pip install 'stateshift[spark]')"


def announce_run(report: MigrationReport) -> None:
    """Print the expected work and time before a run."""
    expected = report.estimate
    if expected is not None and not report.copied_only:
        room = f"  free space there: {size_text(expected.free_bytes)}" if expected.free_bytes is not None else ""
        if expected.replaced_bytes:
            kept = size_text(expected.replaced_bytes)
            room += f", in addition to the savepoint of {kept} that is kept until the new one is complete"
        writing = f", about {size_text(expected.bytes_to_write)} to write" if expected.bytes_to_write else ""
        print_notice(
            f"to do: {many(report.tasks, 'stream')} to rewrite, {many(report.copies, 'file')} to copy, "
            f"{size_text(expected.bytes_to_read)} to read{writing}",
            f"  about {max(round(expected.seconds), 1)} s {_expected_of(expected)}",
            *([room] if room else []),
        )


def _where(expected: Estimate) -> str:
    """Return how the tasks are run, in words."""
    return _engine(expected) + ("; machine code is compiled first, once on this machine" if expected.compiles else "")


def _expected_of(expected: Estimate) -> str:
    """Return how the tasks will be run, in words, and what makes that slow."""
    return _where(expected) + (f"; {_SLOWER}" if expected.lacks_numba else "")


def _engine(expected: Estimate) -> str:
    from ...state.migration.engine import Engine

    if expected.engine is Engine.PROCESS:
        return "in this process, without Spark"
    return f"on Spark, with {many(expected.cores, 'core')}"


def report_start_lines(report: MigrationReport) -> list[str]:
    """Return how a Flink job starts on the result, or why it cannot."""
    return start_lines(
        report.target,
        flink_restorable=_is_flink_restorable(report),
        with_orphans=_has_orphans(report),
        must_declare=report.must_declare,
        is_native=_is_native(report),
        has_timers=_has_native_timers(report),
    )


def start_command(report: MigrationReport) -> str | None:
    """Return how a Flink job starts on the result; None after a dry run, and if Flink cannot restore it."""
    if report.dry_run or report.query is not None or not _is_flink_restorable(report):
        return None
    return flink_command(
        report.target,
        with_orphans=_has_orphans(report),
        is_native=_is_native(report),
        has_timers=_has_native_timers(report),
    )


def _is_flink_restorable(report: MigrationReport) -> bool:
    return all(operator.is_flink_restorable for operator in report.plan.operators if operator.in_job)


def _is_native(report: MigrationReport) -> bool:
    """Whether a job must not claim the result: its files have relative names (FLINK-39964)."""
    return any(operator.is_native for operator in report.plan.operators) and not report.plan.absolute


def _has_native_timers(report: MigrationReport) -> bool:
    states = (state for operator in report.plan.operators if operator.is_native for state in operator.states)
    return any(state.kind is StateKind.TIMERS for state in states)


def _has_orphans(report: MigrationReport) -> bool:
    return any(not operator.in_job for operator in report.plan.operators)


def headline(report: MigrationReport) -> str:
    """Return what was done, in a sentence."""
    if report.copied_only:
        return f"copied: no changes needed; every file is as it was, in {report.target}"
    by_action = Counter(count.action for count in report.states)
    actions = set(by_action)
    if actions <= {"copy", "new"}:
        done = "rewritten" if report.tasks else "copied with the requested changes"
        return f"{done}: every entry as it was, in {report.target}"
    if "convert" not in actions and "rekey" in actions:
        entries = sum(count.written for count in report.states if count.action == "rekey")
        return f"rekeyed: {many(entries, 'entry', 'entries')}, in {report.target}"
    if "convert" not in actions and "drop" in actions:
        return f"rewritten without {many(by_action['drop'], 'state')}: every other entry as it was, in {report.target}"
    if "convert" not in actions:
        headers = many(by_action["relabel"], "state")
        return f"written with new headers: every entry of {headers} as it was, in {report.target}"
    entries = sum(count.written for count in report.states if count.action == "convert")
    converted = many(by_action["convert"], "state")
    return f"migrated: {many(entries, 'entry', 'entries')} of {converted} converted, in {report.target}"


def _rows(report: MigrationReport) -> list[list[str]]:
    return [
        [
            count.operator or count.operator_id,
            count.state,
            count.kind,
            _DONE.get(count.action, count.action) + (f", {count.merged:,} merged" if count.merged else ""),
            *(f"{number:,}" for number in (count.read, count.written, count.dropped)),
            *([f"{count.quarantined:,}"] if report.quarantined else []),
        ]
        for count in sorted(
            report.states, key=lambda count: (uid_order(count.operator), count.kind == "timers", count.state)
        )
        if count.read or count.kind != "timers"  # most queues of timers are empty
    ]


def _size_line(report: MigrationReport) -> str:
    names = ("stream", "file") if report.query is None else ("partition", "partition")
    streams = [f"{many(report.tasks, names[0])} rewritten"] if report.tasks else []
    streams += [f"{many(report.copies, names[1])} copied"] if report.copies else []
    streams += [f"{many(report.resumed, 'stream')} finished before"] if report.resumed else []
    what = f"{', '.join(streams)}; " if streams else ""
    where = "" if report.estimate is None else f", {_where(report.estimate)}"
    if report.bytes_read is None or report.bytes_written is None:
        return f"{what.removesuffix('; ')} in {report.seconds:.1f} s"
    read, written = size_text(report.bytes_read), size_text(report.bytes_written)
    return f"{what}{read} read, {written} written in {report.seconds:.1f} s{where}"


def _lost_lines(report: MigrationReport) -> Iterator[str]:
    """Yield lines on dropped fields, in addition to the entries that the table counts."""
    renames: dict[str, list[str]] = {}
    for number, lost in enumerate(report.dropped_fields):
        where = f"{lost.operator}/{lost.state}"
        if number < FEW:
            yield f"dropped fields: {', '.join(f'{path} ({lost.entries:,})' for path in lost.paths)}, of {where}"
        for rename in lost.possible_renames:
            renames.setdefault(rename, []).append(where)
    if len(report.dropped_fields) > FEW:
        yield f"dropped fields of {many(len(report.dropped_fields) - FEW, 'other state')}, listed with --json"
    for one in report.new_columns:
        for words, paths in (("begins now", one.begun), ("null in what was stored", one.filled)):
            if paths:
                counted = ", ".join(f"{path} ({one.entries:,})" for path in paths)
                yield f"{words}: {counted}, of {one.operator}/{one.state}"
    for rename, places in renames.items():
        old, _, new = rename.partition("->")
        advice = f"if it is the same field, give {new} the alias {old} and migrate again"
        yield f"possible_rename: {rename}, of {some(places, most=FEW, whole='--json')}; {advice}"


def _below(report: MigrationReport) -> Iterator[str]:
    """Yield the lines below the table."""
    elements = sum(count.dropped_elements for count in report.states)
    if elements:
        yield f"{many(elements, 'list element')} had expired, including those of lists that were dropped entirely"
    if report.plan.reference_time is not None:
        yield f"reference time {time_text(report.plan.reference_time)}, for new time stamps and for expiry"
    for what in sorted({one.what for one in report.carried}):
        streams = sum(one.streams for one in report.carried if one.what == what)
        yield f"{what}: {many(streams, 'stream')} carried over as bytes"
    for operator, why in report.unread.items():
        yield f"not checked: state of operator {operator}, which was carried over as bytes: {why.splitlines()[0]}"
    if report.kept:
        files, size = sum(one.files for one in report.kept), size_text(sum(one.size for one in report.kept))
        names = [f"{one.operator or one.operator_id}/{one.state}".rstrip("/") for one in report.kept]
        told = some(names, most=FEW, whole="--json")
        yield f"kept as they are, and not read: {many(files, 'file')} of {told}, {size}"
    if report.foreign_entries:
        yield f"{many(report.foreign_entries, 'entry', 'entries')} of key groups that subtasks gave away were left out"
    if report.unseen_damage:
        yield report.unseen_damage
    if report.slowness:
        yield report.slowness
    yield _size_line(report)
    for why, count in Counter(stream.why for stream in report.redone).items():
        yield f"{many(count, 'stream')} finished by an earlier run, and done again: {why}"


def _unread_lines(report: MigrationReport) -> Iterator[str]:
    """Yield the condition on values that no step has read, and how they are read."""
    if not report.condition:
        return
    yield f"the new job can read all of it, {report.condition}: this run did not read these values"
    given = options_given("check")
    if "--job" in given or "--like" in given:
        yield f"  look before it starts: stateshift check {shell_word(report.source)} {given} --scan"


def done_lines(report: MigrationReport) -> Iterator[Line | Table]:
    """Yield what was done, state by state."""
    yield [(headline(report), "bold green")]
    if rows := _rows(report):
        yield Table.of((*_COLUMNS, *_QUARANTINED) if report.quarantined else _COLUMNS, rows)
    for line in _lost_lines(report):
        yield [(f"  {line}", "yellow")]
    if report.missing_timers:
        yield [(f"  {report.missing_timers}", "yellow")]
    if report.unproven:
        yield [(f"  {NOT_COMPARED}: {report.unproven}", "yellow")]
    if sources := report.unplaced_sources:
        names = some(sources, most=FEW, whole="--json", between=" and ")
        one = f"the source {names} is in the savepoint: the job begins where the configuration of the source says"
        several = f"the sources {names} is in the savepoint: the job begins where their configuration says"
        yield [(f"  no position of {one if len(sources) == 1 else several}", "yellow")]
    for line in _unread_lines(report):
        yield [(f"  {line}", "yellow")]
    for line in _below(report):
        yield [(f"  {line}", "dim")]
    if report.query is not None:
        from .plan import query_lines

        told = (f"  operator {one.uid}: {line}" for one in report.plan.operators for line in _changes(one))
        yield from ([(line, "")] for line in dict.fromkeys(told))  # a key changes in each store of a join
        yield from query_lines(report.query.to_data())


def _changes(operator: OperatorPlan) -> Iterator[str]:
    from ...compat.explain import finding_line

    return (finding_line(finding) for state in operator.states for finding in state.findings)


def lost_on_the_way_back(report: MigrationReport, downgrade: str) -> Iterator[str]:
    """Yield what an old job does not get back, or may fail on, in a migration back; without one, yield nothing."""
    lost = [
        (operator, state, finding)
        for operator in report.plan.operators
        for state in operator.states
        for finding in state.findings
        if finding.flags or not finding.old or finding.rule == "STATE-5"
    ]
    if not downgrade or not lost:
        return
    from ...compat.explain import finding_line

    yield f"  on the way back to {downgrade}, this is lost or may fail:"
    found = [(f"{operator.uid or operator.operator_id}/{state.name}", one) for operator, state, one in lost]
    for (place, one), others in alike(found, lambda one: one[1], lambda one: one[0], whole=OF_CHECK):
        yield f"    {place}: {finding_line(one)}"
        if others:
            yield f"      {others}"


def _is_comparable(report: MigrationReport) -> bool:
    """Whether a comparison with the source shows if anything is missing: entries were rewritten, and are as before."""
    operators = report.plan.operators
    is_renamed = any(operator.new_id or state.new_name for operator in operators for state in operator.states)
    return bool(report.tasks) and {count.action for count in report.states} <= {"copy"} and not is_renamed


def ending(report: MigrationReport) -> Iterator[str]:
    """Yield how to go back, how to prove the result, and how to start on it."""
    yield f"source untouched: {report.source}"
    yield f"rollback: possible; {report.rollback}"
    if report.query is not None:
        yield f"prove it: stateshift verify {shell_word(PREFIX + report.target)}"
        yield f"start the new query with checkpointLocation {report.target}"
        return
    yield f"prove it: stateshift verify {shell_word(report.target)}"
    if _is_comparable(report):
        places = f"{shell_word(report.source)} {shell_word(report.target)}"
        options = options_given("diff", only=("--allow-root", "--checkpoint-root"))
        yield f"  and that nothing is missing: stateshift diff {places} {options}".rstrip()
    yield from report_start_lines(report)


def quarantine_lines(report: MigrationReport) -> Iterator[str]:
    """Yield prominent lines on values that are not in the new savepoint."""
    if report.quarantined:
        entries = many(report.quarantined, "value is", "values are")
        place = shell_word(report.target)
        yield f"IN QUARANTINE: {entries} not in the new savepoint; list with: stateshift quarantine {place}"
    if report.source_quarantined:
        entries = many(report.source_quarantined, "value stays", "values stay")
        yield f"{entries} in the quarantine of the source: stateshift quarantine {shell_word(report.source)}"


def dry_lines(report: MigrationReport) -> Iterator[Line | Row]:
    """Yield the plan of a dry run, and what it tried."""
    assert report.plan_file is not None  # noqa: S101 - of a dry run
    from .plan import plan_lines

    yield from plan_lines(report.plan_file, report.plan.job if report.query is None else "")
    yield from ([(line, "")] for line in ("", *tried_lines(report)))


def tried_lines(report: MigrationReport) -> Iterator[str]:
    """Yield what a dry run has tried."""
    if report.missing_timers:
        yield report.missing_timers
    if report.unproven:
        yield f"{NOT_COMPARED}: {report.unproven}"
    tried = sorted((state, found) for (_, state), found in report.tried.items())
    if tried:
        converted = ", ".join(state for state, found in tried if found)
        empty = ", ".join(state for state, found in tried if not found)
        if converted:
            yield f"tried: one entry each of {converted} was read, converted and discarded"
        if empty:
            yield f"not tried, because there is no entry{_or_none(report.plan)}: {empty}"
    where = "" if report.estimate is None else f", {_expected_of(report.estimate)}"
    read = "" if report.bytes_read is None else f"; {size_text(report.bytes_read)} would be read{where}"
    yield f"dry run: nothing was written{read}"


def _or_none(plan: MigrationPlan) -> str:
    """Return other possible reasons why no entry was tried, besides that there are no entries."""
    if any(operator.max_bad_values for operator in plan.operators):
        return ", or none that fits"
    return ", or those read had expired" if plan.reference_time is not None else ""
