"""`stateshift migrate spark:OLD spark:NEW`: the checkpoint of a Spark query, copied under the types of a new query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import click

from ..compat.plain_data import plain, structured
from .options import announce_plan, is_spark, read_plan, refuse_options, refuse_other_options
from .spark_options import OF_CHANGES, ONLY_OF_QUERIES, SparkOptions
from .spark_queries import built, require_new_side

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..compat.entry_samples import EntrySamples
    from ..state.migration.plan_file import PlanFile
    from ..state.migration.queries.preparation import PreparedCopy
    from ..state.migration.report import MigrationReport
    from .samples import SampleOptions

OF_PLANS = {"like"} | ONLY_OF_QUERIES | OF_CHANGES
"""The arguments of which a plan says the values."""
_TAKEN = {"source", "target_place", "plan_place", "dry_run", "html", "with_json", "redact"} | OF_PLANS


def migrate_spark(source: str, target: str, plan: str, *, dry_run: bool) -> MigrationReport:
    """Migrate a checkpoint as the options of the running command say; return what was done.

    Args:
        source: The checkpoint.
        target: The place of the copy.
        plan: The file of a plan, which the run follows; "": there is none.
        dry_run: Whether to plan only.

    Raises:
        UsageError: The target or the probe is no checkpoint of Spark, or not one new side is given.
        PlanChanged: The run would not do what the plan says.
    """
    refuse_options("a migration of a Spark query's checkpoint does not take {}", others_than=_TAKEN)
    if not is_spark(target):
        raise click.UsageError(f"the copy of a Spark query's checkpoint is one, too: write spark:{target}")
    options, expected = SparkOptions.given(), read_plan(plan, of_query=True) if plan else None
    if expected is not None:
        given, options = options, structured(SparkOptions, expected.typed, "the options of the plan")
        refuse_other_options(options, given)
        announce_plan(plan, expected, (f"to import {one.rpartition('=')[2]}" for one in options.convert_field))
    report = _migrated(source, target, options, dry_run=dry_run, expected=expected)
    return attrs.evolve(report, plan_file=_plan_file(report, options)) if dry_run else report


def planned_query(source: str, sample: SampleOptions | None = None) -> PlanFile:
    """Plan the migration of a checkpoint as the options of the running command say.

    Args:
        source: The checkpoint.
        sample: Which entries are shown before and after; None: none.

    Raises:
        UsageError: Not one new side is given.
    """
    options = SparkOptions.given()
    report = _migrated(source, "", options, dry_run=True, sampled=None if sample is None else sample.of_query)
    samples = None if report.plan_file is None else report.plan_file.samples
    return attrs.evolve(_plan_file(report, options), samples=samples)


def _plan_file(report: MigrationReport, options: SparkOptions) -> PlanFile:
    from ..state.migration.plan_file import NewTypes, StoredPlace
    from ..state.migration.planning import query_plan_file

    given = {name: plain(value) for name, value in attrs.asdict(options).items() if value}
    probe = StoredPlace(options.like, "") if options.like else None
    return query_plan_file(report, NewTypes(query=options.query, probe=probe), given)


def _migrated(
    source: str,
    target: str,
    options: SparkOptions,
    *,
    dry_run: bool,
    expected: PlanFile | None = None,
    sampled: Callable[[PreparedCopy], EntrySamples] | None = None,
) -> MigrationReport:
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
            sampled=sampled,
        )
