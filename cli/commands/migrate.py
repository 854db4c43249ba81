"""`stateshift migrate`: a new savepoint with the state under the job's types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import click

from ..failures import Status
from ..following import finish, follow, follow_options
from ..new_side import new_side_options
from ..next_steps import starts_with_plan
from ..options import (
    allowed_roots,
    announce_plan,
    common_options,
    grouped_by,
    is_spark,
    load_job_here,
    migration_options,
    open_savepoint,
    read_plan,
    refuse_options,
    refuse_other_options,
    refuse_plan,
    savepoint_argument,
    search_here,
    spark_is_meant,
    spark_options,
)
from ..output import print_json, print_lines, print_styled
from ..progress import show_progress
from ..proving import proving_options
from ..render.migration import (
    announce_run,
    done_lines,
    dry_lines,
    ending,
    lost_on_the_way_back,
    quarantine_lines,
    start_command,
)
from ..run_failures import failures_told
from ..spark_options import OF_CHANGES, ONLY_OF_QUERIES, query_options, spark_change_options
from ..whole_files import html_option
from .verify import blocks, to_data

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...compat.description import JobDescription
    from ...state.migration.options import MigrationOptions
    from ...state.migration.plan_file import NewTypes, PlanFile
    from ...state.migration.report import MigrationReport
    from ...state.proof.installation import FlinkInstallation
    from ...state.savepoint.verify import VerifyReport
    from ..following import Following
    from ..new_side import NewSide
    from ..proving import Proving
    from ..whole_files import OutputFile

    Proof = tuple[VerifyReport, dict[str, Any] | None]

_FIELDS = {"target": "restore_target"} | {
    name: field for field, names in grouped_by(migration_options).items() for name in names if field != "options"
}
"""The options that arguments of the command become, where they have other names."""
_ONLY_OF_A_QUERY = ONLY_OF_QUERIES | OF_CHANGES


@click.command(
    "migrate",
    epilog="""\b
Examples:
  stateshift migrate /data/sp-1 /data/sp-1-v2 --job accounts:job --dry-run
  stateshift migrate /data/sp-1 /data/sp-1-v2 --job accounts:job
  stateshift migrate /data/sp-1 /data/sp-1-v2 --plan plan.json --html migration.html
  stateshift migrate /data/sp-1 /data/sp-1-v2 --job accounts:job --prove flink --flink-home /opt/flink
  stateshift migrate /data/sp-1 /data/sp-1-v2 --like build/probe
  stateshift migrate /data/sp-1 /data/sp-1-v2 --old-plan orders-1.json --plan orders-2.json
  stateshift migrate s3://b/checkpoints/JOB/chk-42 /data/rescued
  stateshift migrate /data/sp-1 /data/sp-1-p8 --parallelism 8 --compression snappy
  stateshift migrate /data/sp-1 /data/sp-1-old --target flink-1.20
  stateshift migrate /data/sp-2 /data/sp-2-back --downgrade 0003
  stateshift migrate /data/sp-1 /data/sp-1-m1000 --repartition --max-parallelism 1000
  stateshift migrate /data/sp-1 /data/sp-1-keys --job accounts:job --repartition --merge total=operator:add
  stateshift migrate s3://b/sp-1 s3://b/sp-1-v2 --job accounts:job --master spark://host:7077 --py-files helpers.zip
  stateshift migrate spark:/data/old spark:/data/new --query clicks:build_query --fill 0:value.count=0
  stateshift migrate /data/checkpoints/JOB /data/sp-2 --job accounts:job --follow
  stateshift migrate /data/checkpoints/JOB /data/sp-2 --job accounts:job --follow --until /data/savepoints
  stateshift migrate /data/sp-1 /data/sp-2 --job accounts:job --finish

\b
--follow converts while the job runs, until Ctrl-C; after the stop --finish converts the rest, in seconds. With --until
it does so by itself, as soon as the savepoint of the stop is there.
--plan takes a file of `stateshift plan`, which then decides everything: the run does exactly that, or nothing; or a
compiled plan of Flink SQL, with the new query.
SOURCE is a savepoint, or a checkpoint: a native one becomes canonical, with a job or without.
SOURCE is only read. TARGET must be empty or not exist, and becomes a savepoint in one step at the very end: a run that
dies leaves no savepoint, and the same command run again removes what it left.
A migration that one process can do in about the time that Spark takes to start needs no Spark; a larger one, or one
with --master, needs stateshift[spark].
--prove flink lets real Flink restore TARGET at the end, as `stateshift verify` does it, and compares every entry.
Exit status 1: the check refuses, or the proof has failed: then do not start from TARGET; 6: the run failed and nothing
was published.""",
)
@savepoint_argument("source")
@click.argument("target_place", metavar="TARGET")
@new_side_options
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
@html_option
@proving_options
@migration_options
@follow_options
@spark_change_options
@query_options
@common_options
def command(
    source: str,
    *,
    target_place: str,
    side: NewSide,
    downgrade: str,
    dry_run: bool,
    master: str | None,
    py_files: list[str],
    target_exists: str,
    html: OutputFile | None,
    proving: Proving,
    options: MigrationOptions,
    following: Following,
    with_json: bool,
    **_: Any,
) -> int:
    r"""Read the state of SOURCE, convert it to the types of a job, and write it to TARGET as a new savepoint.

    \b
    spark:OLD spark:NEW --query MODULE:FUNCTION does the same with the checkpoint of a Spark query: the function builds
    the new query, which is planned and not started. Instead of it, --like spark:PROBE names a checkpoint that the new
    query wrote on a little data. Spark does not start a query on NEW before it is complete.
    """
    flink = proving.installation()
    if flink is not None and (dry_run or (following.follow and not following.until) or is_spark(source)):
        words = "neither a dry run, nor --follow without --until, nor state of Spark"
        raise click.UsageError(f"--prove flink proves a savepoint that was written: {words}")
    if following.follow:
        if not following.until:
            refuse_options("{} is not for --follow; --until and --finish have something to report", names={"html"})
        followed = follow(source, target_place, side, options, following, target_exists, with_json=with_json)
        if followed is None:
            return Status.DONE
        report = followed
    elif following.finish:
        report = finish(source, target_place, side, options, following, target_exists)
    elif is_spark(source):
        from ..spark_migration import migrate_spark

        report = migrate_spark(source, target_place, side.plan, dry_run=dry_run)
    else:
        report = _migrated(
            source, target_place, side, downgrade, options,
            dry_run=dry_run, master=master, py_files=py_files, target_exists=target_exists,
        )  # fmt: skip
    proof = None if flink is None else _proven(report.target, proving, flink)
    if html is not None:
        from ..page_files import write_page
        from ..render.pages import dry_run_page, migration_page

        proven_lines = () if proof is None else blocks(report.target, proof[0], everything=False)
        shown = dry_run_page(report) if dry_run else migration_page(report, proven_lines)
        write_page(html, f"migration: {source}", shown)
    if with_json:
        told: dict[str, Any] = (
            {} if proof is None else {"verified": to_data(report.target, proof[0]), "proof": proof[1]}
        )
        told |= report.to_data() | {"start_command": start_command(report)}
        print_json(told, as_line=following.follow)  # after the lines of the status
    else:
        _print(report, proof, downgrade, dry_run=dry_run)
    is_proven = proof is None or (proof[0].ok and proof[1] is not None and proof[1]["proven"])
    return Status.DONE if is_proven else Status.REFUSED


def _migrated(
    source: str,
    target: str,
    side: NewSide,
    downgrade: str,
    options: MigrationOptions,
    *,
    target_exists: str,
    **of_run: Any,
) -> MigrationReport:
    from ...spark.migrate import migrate
    from ...state.publication.publish import IfTargetExists

    refuse_options(f"a migration of a savepoint does not take {{}}{spark_is_meant(source)}", names=_ONLY_OF_A_QUERY)
    refuse_plan(source)
    plan, description, options = _new_types(source, side, downgrade, options)
    with show_progress() as progress, failures_told(target):
        return migrate(
            source,
            target,
            description,
            options,
            expected=plan,
            target_exists=IfTargetExists(target_exists),
            announce=announce_run,
            progress=progress,
            allow_roots=allowed_roots(),
            **of_run,
        )


def _proven(place: str, proving: Proving, flink: FlinkInstallation) -> Proof:
    from ...state.savepoint.verify import verify

    with show_progress() as progress:
        verified = verify(open_savepoint(place), trust_digests=True, progress=progress)
    return proving.proven(verified, flink)


def _print(report: MigrationReport, proof: Proof | None, downgrade: str, *, dry_run: bool) -> None:
    print_styled(dry_lines(report) if dry_run else done_lines(report))
    print_lines(lost_on_the_way_back(report, downgrade))
    if proof is not None:
        print_styled(blocks(report.target, proof[0], everything=False))
    if not dry_run:
        print_lines(["", *ending(report)])
        print_styled([[(line, "bold red")] for line in quarantine_lines(report)])


def _new_types(
    source: str, side: NewSide, downgrade: str, options: MigrationOptions
) -> tuple[PlanFile | None, JobDescription | None, MigrationOptions]:
    """Return the plan to follow, if there is one, the new types, None if they stay, and the options of the migration.

    Raises:
        UsageError: New types come from several places, or options contradict the plan.
    """
    if downgrade:
        if side.job or side.like or side.plan:
            raise click.UsageError("--downgrade determines the new types; leave out --job, --like and --plan")
        from ..revisions import recorded_job

        return None, recorded_job(downgrade, open_savepoint(source).describe()), options
    if side.plan:
        from ...state.plans.compiled_plan import is_compiled_plan

        if not is_compiled_plan(side.plan):
            plan, description = _planned(side.plan, attrs.evolve(side, plan=""), options)
            return plan, description, plan.options
    given = side.unless_types_stay(source, options)
    return None, None if given is None else given.describe(), options


def _planned(file: str, side: NewSide, options: MigrationOptions) -> tuple[PlanFile, JobDescription | None]:
    """Read a plan file, and load the job that it names; the job is None if the types stay.

    Args:
        file: The path of the plan.
        side: The values of `--job`, `--like` and `--template`.
        options: The values of the other options.

    Raises:
        UsageError: The command line contradicts the file.
    """
    plan = read_plan(file)
    if plan.new_types.plan:
        starts_with_plan(plan.new_types.plan)
    _refuse_other_types(plan.new_types, side)
    refuse_other_options(plan.options, options, _FIELDS)
    from ...state.migration.planning import new_side_of

    if plan.options.repartition is not None:
        search_here()  # merge functions are loaded like the job
    announce_plan(file, plan, _trusted(plan.options))
    like = side.like or side.template
    return plan, new_side_of(plan.new_types, load_job_here, like=like, allow_roots=allowed_roots())


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
    is_of_other_query = side.old_plan and side.old_plan != planned.old_plan
    is_of_other_job = side.old_job and side.old_job != planned.old_job
    lacks = (side.like and planned.probe is None) or (side.template and planned.template is None)
    if (side.job and side.job != planned.job) or lacks or is_of_other_query or is_of_other_job:
        raise click.UsageError(f"the plan is for {planned}, and {side} is given; leave it out, or make the plan again")
