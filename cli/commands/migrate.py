"""`stateshift migrate`: a new savepoint with the state under the job's types."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from ...compat.likeness import FEW, OF_CHECK, alike, some
from ...compat.reference_time import time_text
from ...serializers.errors import MigrationFailed, NoSpaceLeft, SavepointNotFound, StorageFailed
from ...serializers.wording import many, shell_word
from ...state.migration.engine import Engine
from ...state.progress import size_text
from ...state.transcode.choice import TIMES_SLOWER
from ..failures import Status
from ..new_side import new_side_options
from ..next_steps import flink_command, options_given, start_lines
from ..options import (
    NOT_COMPARED,
    PREFIX,
    allowed_roots,
    common_options,
    is_spark,
    migration_options,
    open_savepoint,
    refuse_options,
    savepoint_argument,
    spark_failures_told,
    spark_is_meant,
    spark_options,
)
from ..output import Column, Line, Row, Table, print_json, print_lines, print_notice, print_styled
from ..progress import show_progress
from ..render.plan import plan_lines, query_lines
from ..revisions import recorded_job
from ..spark_migration import migrate_spark
from ..spark_options import OF_CHANGES, ONLY_OF_QUERIES, query_options, spark_change_options
from .planned_runs import planned_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...compat.description import JobDescription
    from ...compat.plan import MigrationPlan, OperatorPlan
    from ...state.migration.estimate import Estimate
    from ...state.migration.options import MigrationOptions
    from ...state.migration.report import MigrationReport
    from ..new_side import NewSide

_COLUMNS = (Column("operator", is_name=True), Column("state", is_name=True), Column("kind"), Column("done"),
            Column("read", is_number=True), Column("written", is_number=True),
            Column("dropped", is_number=True))  # fmt: skip
_DONE = {"copy": "copied as bytes", "relabel": "copied, new header", "rekey": "copied under new keys",
         "convert": "converted", "drop": "dropped", "new": "starts empty"}  # fmt: skip
_ONLY_OF_A_QUERY = ONLY_OF_QUERIES | OF_CHANGES
_SLOWER = f"about {TIMES_SLOWER} times slower without numba (pip install 'stateshift[spark]')"


@click.command(
    "migrate",
    short_help="Write a new savepoint with the new types.",
    epilog="""\b
Examples:
  stateshift migrate /data/sp-1 /data/sp-1-v2 --job accounts:job --dry-run
  stateshift migrate /data/sp-1 /data/sp-1-v2 --job accounts:job
  stateshift migrate /data/sp-1 /data/sp-1-v2 --plan plan.json
  stateshift migrate /data/sp-1 /data/sp-1-v2 --like build/probe
  stateshift migrate s3://b/checkpoints/JOB/chk-42 /data/rescued
  stateshift migrate /data/sp-1 /data/sp-1-p8 --parallelism 8 --compression snappy
  stateshift migrate /data/sp-1 /data/sp-1-old --target flink-1.20
  stateshift migrate /data/sp-2 /data/sp-2-back --downgrade 0003
  stateshift migrate /data/sp-1 /data/sp-1-m1000 --repartition --max-parallelism 1000
  stateshift migrate /data/sp-1 /data/sp-1-keys --job accounts:job --repartition --merge total=operator:add
  stateshift migrate s3://b/sp-1 s3://b/sp-1-v2 --job accounts:job --master spark://host:7077 --py-files helpers.zip
  stateshift migrate spark:/data/old spark:/data/new --query clicks:build_query --fill 0:value.count=0

\b
SOURCE is a savepoint, or a checkpoint: a native one becomes canonical, with a job or without.
SOURCE is only read. TARGET must be empty or not exist, and becomes a savepoint in one step at the very end: a run that
dies leaves no savepoint, and the same command run again removes what it left.
A migration that one process can do in about the time that Spark takes to start needs no Spark; a larger one, or one
with --master, needs stateshift[spark].
Exit status 1: the check refuses; 6: the run failed and nothing was published.""",
)
@savepoint_argument("source")
@click.argument("target_place", metavar="TARGET")
@new_side_options
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Do exactly what this file of `stateshift plan` describes, or nothing: job and options come from it.",
)
@click.option(
    "--downgrade",
    metavar="REVISION",
    default="",
    help="Instead of --job: go back to a revision of the project's history, or to a stamp.",
)
@click.option("--dry-run", is_flag=True, help="Plan, convert one entry of each state, and write nothing.")
@spark_options
@click.option(
    "--target-exists",
    type=click.Choice(["fail", "resume", "replace"]),
    default="fail",
    show_default=True,
    help="If TARGET is not empty: refuse; resume from what a dead run has finished; or replace the savepoint there.",
)
@migration_options
@spark_change_options
@query_options
@common_options
def command(
    source: str,
    *,
    target_place: str,
    side: NewSide,
    plan_file: str | None,
    downgrade: str,
    dry_run: bool,
    master: str | None,
    py_files: list[str],
    target_exists: str,
    options: MigrationOptions,
    with_json: bool,
    **_: Any,
) -> int:
    r"""Read the state of SOURCE, convert it to the types of a job, and write it to TARGET as a new savepoint.

    \b
    spark:OLD spark:NEW --query MODULE:FUNCTION does the same with the checkpoint of a Spark query: the function builds
    the new query, which is planned and not started. Instead of it, --like spark:PROBE names a checkpoint that the new
    query wrote on a little data. Spark does not start a query on NEW before it is complete.
    """
    if is_spark(source):
        report = migrate_spark(source, target_place, plan_file or "", dry_run=dry_run)
    else:
        refuse_options(f"a migration of a savepoint does not take {{}}{spark_is_meant(source)}", names=_ONLY_OF_A_QUERY)
        from ...spark.migrate import migrate
        from ...state.publication.publish import IfTargetExists

        plan = None
        if downgrade:
            if side.job or side.like or plan_file:
                raise click.UsageError("--downgrade determines the new types; leave out --job, --like and --plan")
            description: JobDescription | None = recorded_job(downgrade, open_savepoint(source).describe())
        elif plan_file is not None:
            plan, description = planned_run(plan_file, side, options)
            options = plan.options
        else:
            given = side.unless_types_stay(source, options)
            description = None if given is None else given.describe()
        with show_progress() as progress, failures_told(target_place):
            report = migrate(
                source,
                target_place,
                description,
                options,
                master=master,
                py_files=py_files,
                dry_run=dry_run,
                expected=plan,
                target_exists=IfTargetExists(target_exists),
                announce=announce_run,
                progress=progress,
                allow_roots=allowed_roots(),
            )
    if with_json:
        print_json(report.to_data() | {"start_command": start_command(report)})
    elif dry_run:
        print_styled(_dry_lines(report))
        print_lines(_lost_on_the_way_back(report, downgrade))
    else:
        print_styled(_blocks(report))
        print_lines(_lost_on_the_way_back(report, downgrade))
        print_lines(["", *_ending(report)])
        print_styled([[(line, "bold red")] for line in _quarantine_lines(report)])
    return Status.DONE


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
    if expected.engine is Engine.PROCESS:
        return "in this process, without Spark"
    return f"on Spark, with {many(expected.cores, 'core')}"


@contextmanager
def failures_told(target_place: str) -> Iterator[None]:
    """Turn errors of the target's store, and of Spark itself, into the error that the run failed."""
    from ...state.migration.migration import NOTHING_PUBLISHED
    from ...state.storage.files import Folder

    try:
        with spark_failures_told(NOTHING_PUBLISHED):
            yield
    except NoSpaceLeft:
        raise
    except (SavepointNotFound, StorageFailed) as error:
        where: dict[str, Any] = error.where
        if where.get("savepoint") != Folder.at(target_place).place:
            raise
        raise MigrationFailed(
            f"{target_place} cannot be written: {error.what}",
            advice="choose a target in an existing folder that can be written to"
            if Folder.at(target_place).is_local
            else error.advice,
            written=error.written or "Nothing was written.",
            **where,
        ) from error


def report_start_lines(report: MigrationReport) -> list[str]:
    """Return how a Flink job starts on the result, or why it cannot."""
    return start_lines(
        report.target,
        flink_restorable=_is_flink_restorable(report),
        with_orphans=_has_orphans(report),
        must_declare=report.must_declare,
    )


def start_command(report: MigrationReport) -> str | None:
    """Return how a Flink job starts on the result; None after a dry run, and if Flink cannot restore it."""
    if report.dry_run or report.query is not None or not _is_flink_restorable(report):
        return None
    return flink_command(report.target, with_orphans=_has_orphans(report))


def _is_flink_restorable(report: MigrationReport) -> bool:
    return all(operator.is_flink_restorable for operator in report.plan.operators if operator.in_job)


def _has_orphans(report: MigrationReport) -> bool:
    return any(not operator.in_job for operator in report.plan.operators)


def _headline(report: MigrationReport) -> str:
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


def _columns(report: MigrationReport) -> tuple[Column, ...]:
    return (*_COLUMNS, Column("quarantined", is_number=True)) if report.quarantined else _COLUMNS


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
        for count in sorted(report.states, key=lambda count: (count.operator, count.kind == "timers", count.state))
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


def _blocks(report: MigrationReport) -> Iterator[Line | Table]:
    yield [(_headline(report), "bold green")]
    if rows := _rows(report):
        yield Table.of(_columns(report), rows)
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
        told = (f"  operator {one.uid}: {line}" for one in report.plan.operators for line in _changes(one))
        yield from ([(line, "")] for line in dict.fromkeys(told))  # a key changes in each store of a join
        yield from query_lines(report.query.to_data())


def _changes(operator: OperatorPlan) -> Iterator[str]:
    from ...compat.explain import finding_line

    return (finding_line(finding) for state in operator.states for finding in state.findings)


def _lost_on_the_way_back(report: MigrationReport, downgrade: str) -> Iterator[str]:
    """Yield what an old job does not get back, or may fail on, in a migration back; without one, yield nothing."""
    from ...compat.explain import finding_line

    lost = [
        (operator, state, finding)
        for operator in report.plan.operators
        for state in operator.states
        for finding in state.findings
        if finding.flags or not finding.old or finding.rule == "STATE-5"
    ]
    if not downgrade or not lost:
        return
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


def _ending(report: MigrationReport) -> Iterator[str]:
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


def _quarantine_lines(report: MigrationReport) -> Iterator[str]:
    """Yield prominent lines on values that are not in the new savepoint."""
    if report.quarantined:
        entries = many(report.quarantined, "value is", "values are")
        place = shell_word(report.target)
        yield f"IN QUARANTINE: {entries} not in the new savepoint; list with: stateshift quarantine {place}"
    if report.source_quarantined:
        entries = many(report.source_quarantined, "value stays", "values stay")
        yield f"{entries} in the quarantine of the source: stateshift quarantine {shell_word(report.source)}"


def _dry_lines(report: MigrationReport) -> Iterator[Line | Row]:
    assert report.plan_file is not None  # noqa: S101 - of a dry run
    yield from plan_lines(report.plan_file, report.plan.job if report.query is None else "")
    yield from ([(line, "")] for line in ("", *_tried_lines(report)))


def _tried_lines(report: MigrationReport) -> Iterator[str]:
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
