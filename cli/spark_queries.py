"""`stateshift check spark:CHECKPOINT --query MODULE:FUNCTION`: can a new query of Spark go on from its checkpoint?"""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs
import click

from ..serializers.compatibility import Decision
from ..serializers.errors import StateShiftError, advice_text
from ..serializers.ways_out import on_command_line
from ..serializers.wording import shell_word
from .options import search_here
from .output import Line, line_width, print_json, print_styled
from .progress import show_progress
from .spark_options import QueryOptions, query_options, spark_change_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ..compat.policy import Policy
    from ..spark.checkpoint.checking import Known
    from ..spark.checkpoint.judging import OperatorVerdict, QueryReport
    from ..spark.checkpoint.migrating.new_side import NewSide
    from ..spark.checkpoint.query import QueryDescription
    from ..state.formats.spark.logs import PlannedBatch
    from ..state.formats.spark.reader import SparkCheckpoint
    from .spark_options import SparkChanges

    Query = DataFrame | DataStreamWriter

STYLES = {Decision.START: "green", Decision.MIGRATE: "yellow", Decision.REFUSE: "bold red"}
_HEADLINES = {
    Decision.START: "the query can go on from the state in the checkpoint",
    Decision.MIGRATE: "the state must be rewritten before the query can start",
    Decision.REFUSE: "the query cannot go on from the state in the checkpoint",
}


def check_query(
    place: str, options: QueryOptions, policy: Policy, *, allow_migration: bool, with_json: bool, is_short: bool
) -> int:
    """Check a query of Spark, print the report and return the exit status.

    Raises:
        UsageError: The new query is not named.
    """
    if not options.query:
        raise click.UsageError("specify the new query of the checkpoint: --query MODULE:FUNCTION")
    from ..spark.checkpoint.checking import compare, what_is_known
    from ..spark.checkpoint.judging import report_data
    from ..spark.checkpoint.migrating.new_side import new_side
    from ..spark.checkpoint.query import describe_stored
    from ..state.formats.spark.reader import SparkCheckpoint

    opened = SparkCheckpoint.open(place)  # before Spark, which takes seconds to start
    with built(options, opened.log.last) as (new, was), new_side(opened, None, new) as side:
        described = attrs.evolve(side.query, origin=f"query {options.query}")
        known = what_is_known(opened, describe_stored(opened), was)
        report = compare(opened, described, known=known, accept=options.accept, policy=policy, said=_said(options))
        if report.next_command:
            report = _tried(report, opened, side, known)
    status = report.exit_status(
        allow_migration=allow_migration, require_recording=options.require_recording and was is None
    )
    if with_json:
        print_json(report_data(report) | {"exit_status": status})
    else:
        print_styled(_summary(report) if is_short else _blocks(report))
        if report.next_command:
            print_styled([[], [(f"next: {report.next_command}", "")]])
        elif report.next_asks and is_short:
            print_styled(
                [[], [("a migration asks for more than the ways out have; without --summary it is listed", "")]]
            )
        elif report.next_asks:
            asks: list[Line] = [[(line, "")] for line in report.next_asks]
            print_styled([[], [("a migration asks for more than the ways out have:", "")], *asks])
        if options.require_recording and was is None and not report.is_recorded:
            print_styled([[], [("no recording says which query wrote the whole state (--require-recording)", "")]])
    return status


def _tried(report: QueryReport, opened: SparkCheckpoint, side: NewSide, known: Known) -> QueryReport:
    """Plan the migration that a report names; where that asks for more, the report has this in the place of it."""
    from ..spark.checkpoint.migrating.plan import Said, plan_migration

    changes, accept = _typed(shlex.split(report.next_command))
    try:
        plan_migration(opened, side, known, Said(changes.of_fields(), changes.operators, accept))
    except StateShiftError as error:
        advice = advice_text(error, on_command_line)
        asks = (*error.what.splitlines(), *([f"what to do: {advice}"] if advice else []))
        return attrs.evolve(report, next_command="", next_asks=asks)
    return report


def _typed(words: list[str]) -> tuple[Any, ...]:
    """Return what the options of a command say that migrates a checkpoint of Spark."""

    @click.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
    @query_options
    @spark_change_options
    def read(*, of_query: QueryOptions, spark_changes: SparkChanges) -> tuple[Any, ...]:
        return spark_changes, of_query.accept

    return read.main(words, standalone_mode=False)  # type: ignore[no-any-return]


def _said(options: QueryOptions) -> str:
    """Return the options that name both queries, and what is accepted, as they were typed."""
    listed = [("--query", options.query), *([("--was", options.was)] if options.was else [])]
    listed += [("--accept", rule) for rule in options.accept]
    return " ".join(f"{name} {shell_word(value)}" for name, value in listed)


@contextmanager
def planning_session() -> Iterator[SparkSession]:
    """Yield a session that plans queries; what its Python workers print is left out: they announce each of their steps.

    What a worker raises arrives as an exception.
    """
    from ..spark.sessions import own_session
    from ..state.progress import Progress

    with show_progress() as show, own_session("local[1]") as spark:
        show(Progress("planning", 0, 1))
        java: Any = spark._jvm  # noqa: SLF001 - there is no public way
        system, stderr = java.java.lang.System, java.java.lang.System.err
        system.setErr(java.java.io.PrintStream(java.java.io.OutputStream.nullOutputStream()))
        try:
            yield spark
        finally:
            system.setErr(stderr)


@contextmanager
def built(options: QueryOptions, last: PlannedBatch | None) -> Iterator[tuple[Query | None, QueryDescription | None]]:
    """Build the new query in a session of Spark, which ends with the `with` block, and describe the old one.

    None: it is not named. The old one is planned under the settings of the last batch of its checkpoint.

    Raises:
        JobNotFound: A function cannot be imported, or fails.
    """
    if not options.query:
        with show_progress():
            yield None, None
        return
    from ..spark.checkpoint.checking import load_query
    from ..spark.checkpoint.old_code import describe_old

    search_here()
    with planning_session() as spark:
        was = describe_old(options.was, options.query, spark, last) if options.was else None
        yield load_query(options.query, spark), was


def _blocks(report: QueryReport) -> Iterator[Line]:
    """Yield a report as lines."""
    yield from _head(report)
    yield from operator_blocks(report)


def _summary(report: QueryReport) -> Iterator[Line]:
    """Yield a report in about ten lines."""
    from ..compat.explain import rule_counts

    yield from _head(report)
    found = ((f"operator {operator.title}", finding) for operator in report.operators for finding in operator.shown)
    for words in rule_counts(found):
        yield [(" " * words.indent, ""), *words.pieces]


def _head(report: QueryReport) -> Iterator[Line]:
    """Yield the verdict, both sides, and from where the old one is known."""
    conditions = report.conditions()
    said = f", if {' and '.join(conditions)}" if conditions else f": {_HEADLINES[report.decision]}"
    yield [(str(report.decision), STYLES[report.decision]), (said, "bold")]
    if conditions and not report.source:
        yield [("  --was MODULE:FUNCTION, which builds the old query, makes it certain; so does a recording", "bold")]
    yield [(f"  from {report.checkpoint} to {report.query}", "dim")]
    known = f"what stood in it: known from {report.source}" if report.source else "what stood in it: not known"
    yield [(f"  {known}", "dim")]


def operator_blocks(report: QueryReport) -> Iterator[Line]:
    """Yield what is found on each operator, and what is not compared."""
    from ..spark.checkpoint.wording import as_written

    for operator in report.operators:
        yield []
        yield _title(operator)
        yield from _findings(operator)
    for line in report.not_compared:
        yield [(f"note: {as_written(line)}", "dim")]


def _title(operator: OperatorVerdict) -> Line:
    name = f"operator {operator.title}" if operator.new or operator.old else operator.title
    return [(f"{name}: ", "bold"), (str(operator.decision), STYLES[operator.decision])]


def _findings(operator: OperatorVerdict) -> Iterator[Line]:
    from ..compat.explain import Differences, difference_lines

    yield from difference_lines(attrs.evolve(Differences.of(operator.shown), indent=2), line_width())
