"""`migrate --plan FILE`: the file determines the run; other options must not contradict it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..options import (
    allowed_roots,
    announce_plan,
    grouped_by,
    load_job_here,
    migration_options,
    read_plan,
    refuse_other_options,
    search_here,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...compat.description import JobDescription
    from ...state.migration.options import MigrationOptions
    from ...state.migration.plan_file import NewTypes, PlanFile
    from ..new_side import NewSide

_FIELDS = {"target": "restore_target"} | {
    name: field for field, names in grouped_by(migration_options).items() for name in names if field != "options"
}
"""The options that arguments of the command become, where they have other names."""


def planned_run(file: str, side: NewSide, options: MigrationOptions) -> tuple[PlanFile, JobDescription | None]:
    """Read a plan file, and load the job that it names; the job is None if the types stay.

    Args:
        file: The path of the plan.
        side: The values of `--job` and `--like`.
        options: The values of the other options.

    Raises:
        UsageError: The command line contradicts the file.
    """
    plan = read_plan(file)
    _refuse_other_types(plan.new_types, side)
    refuse_other_options(plan.options, options, _FIELDS)
    from ...state.migration.planning import new_side_of

    if plan.options.repartition is not None:
        search_here()  # merge functions are loaded like the job
    announce_plan(file, plan, _trusted(plan.options))
    return plan, new_side_of(plan.new_types, load_job_here, like=side.like, allow_roots=allowed_roots())


def _trusted(options: MigrationOptions) -> Iterator[str]:
    """Yield what a plan allows to be unpickled or imported."""
    if options.trust_stored_serializers:
        yield "to unpickle the serializers stored beside the savepoint"
    if options.trust:
        yield f"to unpickle objects of {', '.join(options.trust)}"
    for _, merge in options.repartition.merge if options.repartition is not None else ():
        yield f"to import {merge.name}"


def _refuse_other_types(planned: NewTypes, side: NewSide) -> None:
    if side.job and side.like:
        raise click.UsageError("give at most one of --job and --like: the plan already has the origin of the new types")
    if (side.job and side.job != planned.job) or (side.like and planned.probe is None):
        raise click.UsageError(f"the plan is for {planned}, and {side} is given; leave it out, or make the plan again")
