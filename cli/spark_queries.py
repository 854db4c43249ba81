"""`stateshift check spark:CHECKPOINT --query MODULE:FUNCTION`: can a new query of Spark go on from its checkpoint?"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs
import click

from ..serializers.errors import StateShiftError, advice_text, what_text
from ..serializers.ways_out import on_command_line
from ..serializers.wording import shell_word
from .options import is_spark, search_here
from .progress import show_progress
from .spark_options import said_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ..compat.description import JobDescription
    from ..compat.policy import Policy
    from ..compat.report import CheckReport
    from ..state.formats.spark.logs import PlannedBatch
    from ..state.formats.spark.reader import SparkCheckpoint
    from ..state.migration.queries.preparation import NewSide
    from .samples import SampleOptions
    from .spark_options import SparkOptions

    Query = DataFrame | DataStreamWriter


def query_report(place: str, options: SparkOptions, policy: Policy, sample: SampleOptions | None = None) -> CheckReport:
    """Return the report on a checkpoint of Spark: against a new query, or against a checkpoint that it wrote.

    Args:
        place: The checkpoint.
        options: The new side.
        policy: The policy.
        sample: Which entries are shown before and after; None: none.

    Raises:
        UsageError: Not one new side is given.
    """
    from ..spark.queries.check import compare

    with both_sides(place, options) as (opened, side):
        described = attrs.evolve(side.query, origin=f"query {options.query}" if options.query else side.query.origin)
        report = compare(opened, described, known=side.known, accept=options.accept, policy=policy, said=_said(options))
        return _tried(report, opened, side, options.accept, sample) if report.next_command else report


def _tried(
    report: CheckReport,
    opened: SparkCheckpoint,
    side: NewSide,
    accept: tuple[str, ...],
    sample: SampleOptions | None,
) -> CheckReport:
    """Plan the migration that a report names; where that asks for more, the report has this in the place of it."""
    from ..state.migration.queries.preparation import prepare_copy

    said = said_by(report.next_options)
    try:
        prepared = prepare_copy(opened, side, attrs.evolve(said, accept=(*accept, *said.accept)))
    except StateShiftError as error:
        advice = advice_text(error, on_command_line)
        asks = (*what_text(error, on_command_line).splitlines(), *([f"what to do: {advice}"] if advice else []))
        return attrs.evolve(report, next_command="", next_asks=asks)
    return report if sample is None else attrs.evolve(report, samples=sample.of_query(prepared))


def _said(options: SparkOptions) -> str:
    """Return the options that name both queries, and what is accepted, as they were typed."""
    listed = [("--like", options.like), ("--query", options.query), ("--was", options.was)]
    listed += [("--accept", rule) for rule in options.accept]
    return " ".join(f"{name} {shell_word(value)}" for name, value in listed if value)


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
def both_sides(place: str, options: SparkOptions) -> Iterator[tuple[SparkCheckpoint, NewSide]]:
    """Open a checkpoint and its new side for the `with` block.

    The old query is planned under the settings of the last batch of its checkpoint.

    Raises:
        UsageError: Not one new side is given.
        JobNotFound: A function cannot be imported, or fails.
    """
    from ..spark.queries.new_side import new_side
    from ..state.formats.spark.reader import SparkCheckpoint

    require_new_side(options)
    opened = SparkCheckpoint.open(place)  # before Spark, which takes seconds to start
    with built(options, opened.log.last) as (new, was), new_side(opened, options.like or None, new, was) as side:
        yield opened, side


def require_new_side(options: SparkOptions) -> None:
    """Require one new side of a checkpoint.

    Raises:
        UsageError: None is given, or both are, or options that do not go with it.
    """
    if bool(options.like) is bool(options.query) or (options.like and not is_spark(options.like)):
        raise click.UsageError(
            "specify the new query: either --query MODULE:FUNCTION, or --like spark:PROBE, a checkpoint that it wrote"
            " on a little data"
        )
    if options.like and (options.was or options.accept or options.require_recording):
        raise click.UsageError("--was, --accept and --require-recording apply with --query: a probe shows types alone")


@contextmanager
def built(options: SparkOptions, last: PlannedBatch | None) -> Iterator[tuple[Query | None, JobDescription | None]]:
    """Build the new query in a session of Spark, which ends with the `with` block, and describe the old one.

    None: it is not named. The old one is planned under the settings of the last batch of its checkpoint.

    Raises:
        JobNotFound: A function cannot be imported, or fails.
    """
    if not options.query:
        with show_progress():
            yield None, None
        return
    from ..spark.queries.check import load_query
    from ..spark.queries.old_code import describe_old

    search_here()
    with planning_session() as spark:
        was = describe_old(options.was, options.query, spark, last) if options.was else None
        yield load_query(options.query, spark), was
