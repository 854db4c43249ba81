"""`stateshift migrate spark:OLD spark:NEW`: the checkpoint of a Spark query, copied under the types of a new query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import click
from click.core import ParameterSource

from ..serializers.wording import many
from .failures import Status
from .output import Column, Line, Table, print_json, print_styled
from .spark_checkpoints import is_spark, spark_is_meant, time_text
from .spark_queries import built

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..spark.checkpoint.migrating.report import CheckpointReport, StoreReport
    from .spark_options import QueryOptions, SparkChanges

_TAKEN = {"source", "target_place", "like", "dry_run", "with_json", "redact"}
_OWN = {
    "rename_field", "keep_field", "fill", "merge_field", "ttl", "convert_field", "drop_variable", "operator_map",
    "drop_uncommitted", "new_query_id", "query", "was", "accept", "require_recording",
}  # fmt: skip
_COLUMNS = (
    Column("operator", is_name=True),
    Column("store", is_name=True),
    Column("done"),
    Column("read", is_number=True),
    Column("written", is_number=True),
    Column("merged", is_number=True),
)


def refuse_other_options(context: click.Context, source: str) -> None:
    """Refuse options that the kind of source does not take.

    Raises:
        UsageError: There are some.
    """
    refused = (
        context.command.params if is_spark(source) else [one for one in context.command.params if one.name in _OWN]
    )
    taken = _TAKEN | _OWN if is_spark(source) else set[str]()
    wrong = [
        one.opts[0]
        for one in refused
        if one.name is not None
        and one.name not in taken
        and context.get_parameter_source(one.name) is ParameterSource.COMMANDLINE
    ]
    if wrong:
        names = ", ".join(sorted(wrong))
        kind = "of a Spark query's checkpoint" if is_spark(source) else "of a savepoint"
        raise click.UsageError(f"a migration {kind} does not take {names}{spark_is_meant(source)}")


def migrate_spark(
    source: str,
    target: str,
    like: str,
    of_query: QueryOptions,
    changes: SparkChanges,
    *,
    dry_run: bool,
    with_json: bool,
) -> int:
    """Migrate a checkpoint, and print what was done; return the exit status.

    Raises:
        UsageError: The target or the probe is no checkpoint of Spark, or not one new side is given.
    """
    if not is_spark(target):
        raise click.UsageError(f"the copy of a Spark query's checkpoint is one, too: write spark:{target}")
    if bool(like) is bool(of_query.query) or (like and not is_spark(like)):
        raise click.UsageError(
            "specify the new query: either --query MODULE:FUNCTION, or --like spark:PROBE, a checkpoint that it wrote"
            " on a little data"
        )
    if like and of_query:
        raise click.UsageError("--was, --accept and --require-recording apply with --query: a probe shows types alone")
    from ..spark.checkpoint.migrating.migration import migrate_checkpoint
    from ..state.formats.spark.reader import SparkCheckpoint

    last = SparkCheckpoint.open(source).log.last  # before Spark, which takes seconds to start
    with built(of_query, last) as (query, was):
        report = migrate_checkpoint(
            source,
            target,
            query=query,
            like=like or None,
            was=was,
            changes=changes.of_fields(),
            operators=changes.operators,
            accept=of_query.accept,
            drop_uncommitted=changes.drop_uncommitted,
            new_query_id=changes.new_query_id,
            require_recording=of_query.require_recording,
            dry_run=dry_run,
        )
    if with_json:
        print_json(attrs.asdict(report) | {"warnings": list(report.warnings), "going_back": report.going_back})
    else:
        print_styled(_lines(report))
    return Status.DONE


def _lines(report: CheckpointReport) -> Iterator[Line | Table]:
    from ..spark.checkpoint.wording import as_written

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
    rows = [[[(cell, "")] for cell in _cells(one, dry_run=report.dry_run)] for one in report.stores]
    yield Table(_COLUMNS, rows, indent=2)
    told = [f"  operator {one.operator}: {note}" for one in report.stores for note in one.notes]
    for text in dict.fromkeys(map(as_written, told)):  # what changes in a key changes in each store of a join
        yield [(text, "")]
    for warning in report.warnings:
        yield [(f"  {warning}", "yellow")]
    watermark = f", watermark {time_text(report.watermark_ms)}" if report.watermark_ms else ""
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
