"""`stateshift plan`: the actions of a migration, for review before it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import click

from ...serializers.errors import ValueNotConvertible
from ...serializers.wording import shell_word
from ..failures import Status
from ..new_side import new_side_options
from ..options import (
    common_options,
    is_spark,
    migration_options,
    open_savepoint,
    refuse_options,
    savepoint_argument,
    spark_is_meant,
)
from ..output import print_json, print_notice, print_styled
from ..progress import spinning
from ..samples import sample_options
from ..spark_migration import OF_PLANS, planned_query
from ..spark_options import OF_CHANGES, ONLY_OF_QUERIES, query_options, spark_change_options
from ..whole_files import html_option, output_option, says_format

if TYPE_CHECKING:
    from pathlib import Path

    from ...state.migration.options import MigrationOptions
    from ...state.migration.plan_file import NewTypes, PlanFile
    from ..new_side import NewSide
    from ..samples import SampleOptions
    from ..whole_files import OutputFile


_OF_A_QUERY = {"savepoint", "file", "force", "html", "with_json", "redact", "sample", "key"} | OF_PLANS


def _is_plan(file: Path) -> bool:
    from ...state.migration.plan_file import FORMAT, VERSION

    return says_format(file, FORMAT, VERSION)


@click.command(
    "plan",
    epilog="""\b
Examples:
  stateshift plan /data/sp-1 --job accounts:job
  stateshift plan /data/sp-1 --job accounts:job -o plan.json
  stateshift plan /data/sp-1 --job accounts:job --sample 5
  stateshift plan /data/sp-1 --job accounts:job -o plan.json --html plan.html
  stateshift plan /data/sp-1 --like build/probe --target flink -o plan.json
  stateshift plan /data/sp-1 --parallelism 8 --compression snappy --json
  stateshift migrate /data/sp-1 /data/sp-1-v2 --plan plan.json
  stateshift plan spark:/data/checkpoints/clicks --query clicks:build_query -o plan.json
  stateshift plan /data/sp-1 --old-plan orders-1.json --plan orders-2.json -o migration.json

\b
The file is JSON, always the same for the same savepoint and types, and contains no keys or values. A run that is given
the file does exactly what it describes, or nothing.
Exit status 0: there is a plan, even if nothing has to change; 1: the check refuses, and no file is written;
6: the one entry of a state that was tried cannot be converted.""",
)
@savepoint_argument()
@new_side_options
@output_option(_is_plan, as_json=True)
@html_option
@click.option(
    "--no-count",
    "counted",
    flag_value=False,
    default=True,
    help="Do not count entries and bytes, which requires reading all keyed state once.",
)
@sample_options
@migration_options
@spark_change_options
@query_options
@common_options
def command(
    savepoint: str,
    *,
    side: NewSide,
    file: OutputFile | None,
    html: OutputFile | None,
    counted: bool,
    sample: SampleOptions | None,
    options: MigrationOptions,
    with_json: bool,
    **_: Any,
) -> int:
    """Plan the migration of SAVEPOINT to the types of a job: what reads, converts and writes each state, and how much.

    One entry of each state that changes is converted as a trial. Needs no Spark; the savepoint is only read.
    With --sample or --key, entries are shown before and after, as the migration converts them.
    With spark:CHECKPOINT and --query, the new query is planned by Spark, and the plan says what becomes of each store.
    """
    from ...state.migration.plan_file import FORMAT, VERSION
    from ..render.plan import plan_lines
    from ..render.samples import sample_lines

    if is_spark(savepoint):
        refuse_options("a plan for a Spark query's checkpoint does not take {}", others_than=_OF_A_QUERY)
        plan = planned_query(savepoint, sample)
    else:
        told = f"a plan for a savepoint does not take {{}}{spark_is_meant(savepoint)}"
        refuse_options(told, names=ONLY_OF_QUERIES | OF_CHANGES)
        plan = _planned(
            savepoint, side.unless_types_stay(savepoint, options), options, sample, counted=counted, tells=not with_json
        )
    if file is not None:
        with file.opened() as stream:
            stream.write(plan.to_json())
    if html is not None:
        from ..page_files import write_page
        from ..render.pages import plan_page

        write_page(html, f"plan: {savepoint}", plan_page(plan, file=_kept(file)))
    if with_json:
        beside = {} if plan.samples is None else {"samples": plan.samples.to_data()}
        print_json({"format": FORMAT, "version": VERSION, **plan.to_data(), **beside})
    else:
        shown = [] if plan.samples is None else [*sample_lines(plan.samples), []]
        print_styled([*plan_lines(plan), *shown, *_next_steps(plan, file)])
    return Status.DONE


def _planned(
    savepoint: str,
    side: NewSide | None,
    options: MigrationOptions,
    sample: SampleOptions | None,
    *,
    counted: bool,
    tells: bool,
) -> PlanFile:
    """Plan a migration; if the trial fails, `tells`: the entries that were asked for are printed before its error."""
    from ...state.migration.planning import make_plan
    from ...state.migration.preparation import prepare
    from ..render.samples import sample_lines
    from ..revisions import code_of

    description = None if side is None else side.describe()
    stored = open_savepoint(savepoint)
    samples = None if sample is None else sample.of(stored, prepare(stored, description, options).plan)
    try:
        with spinning("planning") as show:
            plan = make_plan(
                stored,
                description,
                options,
                _new_types(side),
                place=savepoint,
                counted=counted,
                code_of=code_of,
                progress=show,
            )
    except ValueNotConvertible:
        if tells and samples is not None:
            print_styled(sample_lines(samples))
        raise
    if stored.missing_timers:
        print_notice(stored.missing_timers)
    return attrs.evolve(plan, samples=samples)


def _new_types(side: NewSide | None) -> NewTypes:
    from ...state.migration.plan_file import NewTypes, StoredPlace

    if side is None:
        return NewTypes(stay=True)
    if side.job:
        return NewTypes(job=side.job, old_job=side.old_job)
    if side.plan:
        return NewTypes(
            plan=side.plan, old_plan=side.old_plan, **side.said,
            template=StoredPlace.of(open_savepoint(side.template), side.template) if side.template else None,
        )  # fmt: skip
    return NewTypes(probe=StoredPlace.of(open_savepoint(side.like), side.like))


def _kept(file: OutputFile | None) -> str:
    """Return the file of the plan; "" if there is none, or it is a pipe or a device."""
    return str(file) if file is not None and file.path.is_file() else ""


def _next_steps(plan: PlanFile, file: OutputFile | None) -> list[list[tuple[str, str]]]:
    place = shell_word(plan.source.place)
    lines = [[(f"written: {file}", "bold")]] if file is not None else []
    is_of_query = plan.typed is not None
    if plan.summary["decision"] == "start" and not is_of_query:
        return [*lines, [(f"next: no migration is needed; the job can start on {place}", "")]]
    if not _kept(file):
        return [*lines, [("next: keep it for review, with -o plan.json", "")]]
    from ..render.pages import migrate_with

    return [*lines, [(f"next: have it reviewed; then {migrate_with(plan, _kept(file))}", "")]]
