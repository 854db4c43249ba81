"""`stateshift migrate spark:OLD spark:NEW`: the checkpoint of a Spark query, copied under the types of a new query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import click

from ..compat.plain_data import plain, structured
from ..compat.reference_time import millis_text
from ..serializers.wording import many
from .failures import Status
from .options import announce_plan, is_spark, read_plan, refuse_other_options
from .output import Column, Line, Table, print_json, print_styled
from .spark_options import OF_CHANGES, ONLY_OF_QUERIES, SparkOptions
from .spark_queries import built, require_new_side

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..state.migration.plan_file import PlanFile
    from ..state.migration.queries.report import CheckpointReport, StoreReport

OF_PLANS = {"like"} | ONLY_OF_QUERIES | OF_CHANGES
"""The arguments of which a plan says the values."""
_COLUMNS = (
    Column("operator", is_name=True),
    Column("store", is_name=True),
    Column("done"),
    Column("read", is_number=True),
    Column("written", is_number=True),
    Column("merged", is_number=True),
)


def migrate_spark(source: str, target: str, options: SparkOptions, plan: str, *, dry_run: bool, with_json: bool) -> int:
    """Migrate a checkpoint, and print what was done; return the exit status.

    Args:
        source: The checkpoint.
        target: The place of the copy.
        options: What is said of it; with a plan nothing else than that says.
        plan: The file of a plan, which the run follows; "": there is none.
        dry_run: Whether to plan only.
        with_json: Whether to print data.

    Raises:
        UsageError: The target or the probe is no checkpoint of Spark, or not one new side is given.
        PlanChanged: The run would not do what the plan says.
    """
    if not is_spark(target):
        raise click.UsageError(f"the copy of a Spark query's checkpoint is one, too: write spark:{target}")
    expected = read_plan(plan, of_query=True) if plan else None
    if expected is not None:
        given, options = options, structured(SparkOptions, expected.typed, "the options of the plan")
        refuse_other_options(options, given)
        announce_plan(plan, expected, (f"to import {one.rpartition('=')[2]}" for one in options.convert_field))
    report = _migrated(source, target, options, dry_run=dry_run, expected=expected)
    if with_json:
        print_json(attrs.asdict(report) | {"warnings": list(report.warnings), "going_back": report.going_back})
    else:
        print_styled(_lines(report))
    return Status.DONE


def planned_query(source: str, options: SparkOptions) -> tuple[PlanFile, Iterator[Line | Table]]:
    """Plan the migration of a checkpoint; return the plan, and its lines.

    Raises:
        UsageError: Not one new side is given.
    """
    from ..state.migration.plan_file import NewTypes, StoredPlace

    report = _migrated(source, "", options, dry_run=True)
    given = {name: plain(value) for name, value in attrs.asdict(options).items() if value}
    probe = StoredPlace(options.like, "") if options.like else None
    return report.plan_file(NewTypes(query=options.query, probe=probe), given), _lines(report)


def _migrated(
    source: str,
    target: str,
    options: SparkOptions,
    *,
    dry_run: bool,
    expected: PlanFile | None = None,
) -> CheckpointReport:
    """Migrate a checkpoint; errors name options of the command line."""
    require_new_side(options)
    from ..spark.queries.migration import migrate_checkpoint
    from ..state.formats.spark.reader import SparkCheckpoint

    said = options.said()
    last = SparkCheckpoint.open(source).log.last  # before Spark, which takes seconds to start
    with built(options, last) as (query, was):
        return migrate_checkpoint(
            source,
            target,
            query=query,
            like=options.like or None,
            was=was,
            changes=said.changes,
            operators=said.operators,
            accept=said.accept,
            drop_uncommitted=said.drop_uncommitted,
            new_query_id=said.new_query_id,
            require_recording=options.require_recording,
            dry_run=dry_run,
            expected=expected,
        )


def _lines(report: CheckpointReport) -> Iterator[Line | Table]:
    from ..compat.queries.wording import as_written

    converted = [one for one in report.stores if one.is_converted and one.was is not None]
    if report.dry_run:
        yield [(f"plan: {many(len(converted), 'store')} of {len(report.stores)} converted, the others copied", "bold")]
    elif not converted:
        entries = sum(sum(one.read) for one in report.stores)
        kept = f"{many(entries, 'entry', 'entries')} as they were: no type of the state changes"
        yield [(f"copied: {kept}; {report.target}", "bold green")]
    else:
        entries = sum(sum(one.written) for one in converted)
        done = f"{many(entries, 'entry', 'entries')} of {many(len(converted), 'store')} converted"
        yield [(f"migrated: {done}, in {report.target}", "bold green")]
    yield Table.of(_COLUMNS, (_cells(one, dry_run=report.dry_run) for one in report.stores))
    told = [f"  operator {one.operator}: {note}" for one in report.stores for note in one.notes]
    for text in dict.fromkeys(map(as_written, told)):  # what changes in a key changes in each store of a join
        yield [(text, "")]
    for warning in report.warnings:
        yield [(f"  {warning}", "yellow")]
    watermark = f", watermark {millis_text(report.watermark_ms)}" if report.watermark_ms else ""
    query = f"query {report.query_id}, " * (not report.has_new_id)
    yield [(f"  kept: {query}batch {report.batch}, offsets{watermark}", "")]
    if report.has_new_id:
        yield [(f"  new: query {report.query_id or 'id'}", "")]
    if report.known_from:
        yield [(f"  what is computed was compared: known from {report.known_from}", "")]
    for line in report.not_compared:
        yield [(f"  not compared: {as_written(line)}", "dim")]
    for line in report.not_shown:
        yield [(f"  not shown by the files: {line}", "dim")]
    if report.dry_run:
        yield [("dry run: nothing was written", "")]
    else:
        yield []
        yield [("the source is untouched", "bold"), (f": {report.going_back}", "")]
        yield [(f"start the new query with checkpointLocation {report.target}", "bold")]


def _cells(one: StoreReport, *, dry_run: bool) -> list[str]:
    done = one.done or ("converted" if one.is_converted else "copied as files")
    counted = bool(one.read) and not dry_run
    numbers = [f"{number:,}" for number in (sum(one.read), sum(one.written), one.merged)] if counted else ["", "", ""]
    return [f"{one.operator} ({one.kind})", one.store, done, *numbers]
