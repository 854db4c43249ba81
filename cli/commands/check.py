"""`stateshift check`: can this job take over the stored state?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import click

from ...serializers.compatibility import Decision
from ...serializers.wording import shell_word
from ..new_side import is_plan, new_side_options
from ..next_steps import options_given, query_start_lines, start_lines
from ..options import (
    all_option,
    common_options,
    edit_options,
    is_spark,
    names_of,
    open_savepoint,
    policy_options,
    refuse_options,
    repartition_options,
    savepoint_argument,
    spark_is_meant,
    target_option,
    trust_option,
)
from ..output import Line, print_json, print_notice, print_styled
from ..progress import show_progress
from ..query_gate import check_queries, queries_option
from ..samples import sample_options
from ..spark_options import ONLY_OF_QUERIES, SparkOptions, query_options
from ..spark_queries import query_report
from ..whole_files import html_option
from .history_check import GateOptions, form_option, gate_options, hold_against

if TYPE_CHECKING:
    from ...compat.description import JobDescription
    from ...compat.edits import Edits
    from ...compat.entry_samples import EntrySamples
    from ...compat.policy import Policy
    from ...compat.repartition import Repartition
    from ...compat.report import CheckReport
    from ...state.savepoint.reader import Savepoint
    from ..new_side import NewSide
    from ..samples import SampleOptions
    from ..whole_files import OutputFile


@click.command(
    "check",
    epilog="""\b
Examples:
  stateshift check /data/savepoints/sp-1 --job accounts:job
  stateshift check /data/savepoints/sp-1 --job accounts:job --allow-migration --json
  stateshift check /data/savepoints/sp-1 --job accounts:job --target flink
  stateshift check /data/savepoints/sp-1 --job accounts:job --forbid lossy --forbid possible_rename
  stateshift check /data/savepoints/sp-1 --job accounts:job --scan
  stateshift check /data/savepoints/sp-1 --job accounts:job --sample 5
  stateshift check /data/savepoints/sp-1 --job accounts:job --html report.html
  stateshift check /data/savepoints/sp-1 --like build/probe
  stateshift check --job accounts:job --against state_history --level FULL
  stateshift check spark:/data/checkpoints/clicks --query clicks:build_query --was clicks_v1:build_query
  stateshift check --queries --against origin/main
  stateshift check plans/orders-1.json --plan plans/orders-2.json
  stateshift check /data/savepoints/sp-1 --old-plan plans/orders-1.json --plan plans/orders-2.json

\b
Paths in the report:
  $ is the value, $[] an element of a list, ${} a value of a map, $<key> its key, $.name a field, $(0) an item

\b
Exit status:
  0  start: every state can be used as it is (or migrate, with --allow-migration)
  1  refuse: a state cannot be taken over, and each reason comes with ways out; or --scan found values that would fail
  4  migrate: the job can start after `stateshift migrate`; or it can start, but a stored state is not taken over (0
     with --allow-non-restored-state) or a state starts empty (0 with --allow-empty STATE)
  5  drift: with --against, the job passes and differs from the last revision; with --queries, a query does from its
     description
  8  refused only because aggregates of Flink SQL would begin now (--allow-partial)""",
)
@savepoint_argument(required=False)
@all_option
@click.option(
    "--summary", "is_short", is_flag=True, help="Print about ten lines: the verdict, and how often each rule."
)
@new_side_options
@click.option("--allow-migration", is_flag=True, help="Exit with 0 if a migration is needed and possible.")
@click.option("--allow-non-restored-state", is_flag=True, help="Exit with 0 if stored state is not taken over.")
@click.option(
    "--scan",
    "scans",
    is_flag=True,
    help="Then read the states flagged may_fail_per_value, or with a converter, and count the values that would fail.",
)
@sample_options
@edit_options
@repartition_options
@target_option
@trust_option
@policy_options
@gate_options
@form_option
@html_option
@query_options
@queries_option(
    "Instead of SAVEPOINT: compare all queries of Spark that pyproject.toml lists with what snapshot --queries wrote;"
    " with --against, as it is in a folder or at a git reference."
)
@common_options
def command(
    savepoint: str | None,
    *,
    side: NewSide,
    everything: bool,
    is_short: bool,
    allow_migration: bool,
    allow_non_restored_state: bool,
    policy: Policy,
    gate: GateOptions,
    form: str,
    html: OutputFile | None,
    accept: tuple[str, ...],
    require_recording: bool,
    queries: bool,
    with_json: bool,
    **of_job: Any,
) -> int:
    """Compare the state in SAVEPOINT with the types of a job, state by state and field by field.

    The job is declared in Python, or known by a savepoint that the new Java job wrote. With --against, the job is
    compared with its recorded revisions instead, before any savepoint is at stake.
    With spark:CHECKPOINT and --query, a query of Spark's own operators is compared with its checkpoint; with --queries,
    all that the project lists are compared with their descriptions in it.
    No value is read, except with --scan, --sample and --key, which also call converters. Nothing is written.
    """
    from ...compat.report_data import to_data
    from ..render.check import head_of, next_lines, report_lines

    _require_together(is_of_stored_state=not (queries or gate.against), has_entries=savepoint is not None)
    if queries:
        return check_queries(gate, accept, policy, allow_migration=allow_migration, form=form, with_json=with_json)
    of_job = {name: value for name, value in of_job.items() if name not in ONLY_OF_QUERIES}
    asked = _Asked(side=side, policy=policy, **of_job)
    if asked.scans and (savepoint is None or is_spark(savepoint)):
        what = "a check of stored descriptions" if savepoint is None else f"{savepoint}, a checkpoint of Spark"
        raise click.UsageError(f"--scan reads the values of a savepoint, which {what} does not give it; leave it out")
    if savepoint is not None and is_spark(savepoint):
        refuse_options("a check of a Spark query's checkpoint does not take {}", names=_NOT_OF_A_QUERY)
        report = query_report(savepoint, SparkOptions.given(), policy, asked.sample)
        following = list(next_lines(report, is_short=is_short))
    else:
        refuse_options(f"{{}}: apply to spark:CHECKPOINT alone{spark_is_meant(savepoint)}", names=ONLY_OF_QUERIES)
        if gate.against and savepoint is None:
            refuse_options("{} applies only to a savepoint; leave it out with --against", names=_OF_A_SAVEPOINT)
            return hold_against(
                side.required(),
                gate,
                asked.edits,
                policy,
                trust=asked.trust,
                form=form,
                everything=everything,
                with_json=with_json,
            )
        if gate.against or savepoint is None:
            side.required()
            raise click.UsageError("specify what to check the job against: either SAVEPOINT or --against PLACE")
        refuse_options("{} applies only with --against or --queries; leave it out", names=names_of(gate_options))
        report, following = asked.report_on(savepoint)
    status = report.exit_status(
        allow_migration=allow_migration,
        allow_non_restored_state=allow_non_restored_state,
        require_recording=require_recording,
    )
    if asked.sample is not None and report.samples is None:
        print_notice(_NO_ENTRIES)
    if html is not None:
        _write_page(html, report, savepoint, following)
    if with_json:
        print_json(to_data(report) | {"exit_status": status})
        return status
    lacks = _NO_RECORDING if require_recording and not report.is_whole else ""
    if form != "text":
        from ..render.forms import OfCheck, file_of, print_form

        file = file_of(SparkOptions.given().query or side.job)
        accepted = {"allow_migration": allow_migration, "allow_non_restored_state": allow_non_restored_state}
        steps = tuple("".join(text for text, _ in line) for line in following)
        places = OfCheck(report=report, file=file, lacks=lacks, **accepted).places()
        print_form(form, head_of(report, steps), places, everything=everything)
        print_notice(*steps)
        return status
    print_styled(report_lines(report, everything=everything, is_short=is_short))
    if report.samples is not None:
        from ..render.samples import sample_lines

        print_styled(sample_lines(report.samples))
    following += [[(lacks, "")]] if lacks else []
    print_styled([[], *following] if following else [])
    return status


def _require_together(*, is_of_stored_state: bool, has_entries: bool) -> None:
    """Refuse options that do not go together.

    Raises:
        UsageError: Some are given.
    """
    given = click.get_current_context().params
    form, with_json = given["form"], given["with_json"]
    if given["is_short"] and (with_json or given["everything"] or not is_of_stored_state or form != "text"):
        raise click.UsageError(
            "--summary is for the text of a check of stored state, without --all, --json, --format, --against"
        )
    if with_json and form != "text":
        raise click.UsageError(f"--json and --format {form} are two forms of one report; give one of them")
    if given["html"] is not None and not is_of_stored_state:
        raise click.UsageError("--html shows a check of stored state; leave it out with --against and --queries")
    if given["sample"] is not None and not (is_of_stored_state and has_entries):
        raise click.UsageError("--sample and --key show entries of a savepoint or a checkpoint; leave them out")


def _write_page(html: OutputFile, report: CheckReport, savepoint: str, following: list[Line]) -> None:
    """Write the report to look at."""
    from ...compat.pages.check import check_pieces
    from ...compat.pages.pieces import Commands
    from ..page_files import write_page

    place = shell_word(savepoint)
    commands = Commands(
        f"stateshift check {place} {options_given('check')}".rstrip(),
        f"stateshift migrate {place} NEW_SAVEPOINT {options_given('migrate')}".rstrip(),
    )
    lines = ["".join(text for text, _ in line) for line in following]
    write_page(html, f"{report.decision}: {savepoint}", check_pieces(report, commands, lines))


_NO_ENTRIES = "no entries are shown: there is no plan by which they would be converted"
_NO_RECORDING = "no recording says which query wrote the whole state (--require-recording)"


_OF_A_SAVEPOINT = {"allow_migration", "allow_non_restored_state", "allow_empty", "trust_stored_serializers"} | names_of(
    repartition_options, target_option
)
_NOT_OF_A_QUERY = {"job_place"} | names_of(edit_options, repartition_options, target_option, trust_option, gate_options)


@attrs.frozen(kw_only=True)
class _Asked:
    """What is asked about a savepoint."""

    side: NewSide
    policy: Policy
    edits: Edits
    repartition: Repartition | None
    target: str
    trust_stored_serializers: bool
    trust: tuple[str, ...]
    scans: bool
    sample: SampleOptions | None

    def report_on(self, savepoint: str) -> tuple[CheckReport, list[Line]]:
        """Check a job against a savepoint; return the report and what to do next."""
        from ...compat.check import check
        from ...compat.targets import Target
        from ...compat.way_back import is_asked
        from ..revisions import code_of, is_recorded

        # The job is loaded first: its module registers the snapshots that are needed to read the savepoint.
        description = self.side.required().describe(is_old_known=is_plan(savepoint))
        if is_plan(savepoint):
            return self._report_on_plan(savepoint, description)
        stored = open_savepoint(savepoint)
        old = stored.describe(trust_stored_serializers=self.trust_stored_serializers, trust=self.trust)
        policy = self.policy.before_scan() if self.scans else self.policy
        report = check(
            self.edits.apply(old), description, target=Target(self.target), policy=policy, repartition=self.repartition
        )
        if self.scans:
            report = _scanned(report, stored, self.policy)
        if self.sample is not None:
            report = attrs.evolve(report, samples=self._samples(self.sample, stored, report))
        if is_asked(report):
            report = attrs.evolve(report, code=code_of(old), is_recorded=is_recorded(description))
        if stored.missing_timers:
            print_notice(stored.missing_timers)
        lines = [*_scan_lines(report, savepoint), *_next_steps(report, savepoint, stored)]
        return report, [[(line, "")] for line in lines]

    def _samples(self, sample: SampleOptions, stored: Savepoint, report: CheckReport) -> EntrySamples | None:
        """Return entries as a migration would write them; None: the check refuses for another reason than values."""
        from ...compat.entry_samples import SampledState
        from ...compat.plan import StateAction
        from ...compat.planner import plan

        of_types = attrs.evolve(report, scanned=None)
        if of_types.decision is Decision.REFUSE:
            return None
        samples = sample.of(stored, plan(of_types, looks_at_values=self.scans))
        added = (
            SampledState.of_one_side(operator.operator_id, operator.title, state.name, state.kind, StateAction.NEW)
            for operator, state in report.starting_empty
        )
        return attrs.evolve(samples, states=(*samples.states, *added))

    def _report_on_plan(self, place: str, description: JobDescription) -> tuple[CheckReport, list[Line]]:
        """Check a new query against what the plan of the old one says of its state."""
        from ...compat.check import check
        from ...compat.targets import Target
        from ...state.plans.operators import describe_plans

        if self.scans or self.sample is not None:
            option = "--scan" if self.scans else "--sample or --key"
            raise click.UsageError(f"{option} reads values of a savepoint, which a plan does not have; leave it out")
        if self.side.old_plan or not self.side.plan:
            raise click.UsageError("the old plan is compared with another: give that with --plan, and no --old-plan")
        old = self.edits.apply(describe_plans(place))
        report = check(old, description, target=Target.FLINK, policy=self.policy, repartition=self.repartition)
        words = f"--old-plan {shell_word(place)} {options_given('migrate')}"
        steps = {
            Decision.START: "next: start the new query from a savepoint of the old one",
            Decision.MIGRATE: (
                f"next, with a savepoint of the old query: stateshift migrate SAVEPOINT NEW_SAVEPOINT {words}"
            ),
            Decision.REFUSE: "next: change the query in one of the ways above and check again",
        }
        following = _PARTIAL if report.is_partial else steps[report.decision]
        return report, [[(following, "")]]


_PARTIAL = "next: say that these aggregates may begin now: --allow-partial; or keep those of the old query"


def _scanned(report: CheckReport, stored: Savepoint, policy: Policy) -> CheckReport:
    """Read the values on which the answer depends; the policy judges what was found."""
    from ...state.migration.scan import scan

    with show_progress() as show:
        return policy.after_scan(attrs.evolve(report, scanned=scan(stored, report, progress=show)))


def _scan_lines(report: CheckReport, savepoint: str) -> list[str]:
    """Return the command that reads the values on which the answer depends, if it was not run."""
    from ...serializers.compatibility import Decision

    if not report.condition or report.scanned is not None or report.decision is not Decision.START:
        return []
    given = options_given("check")
    return [f"read the stored values first: stateshift check {shell_word(savepoint)} {given} --scan"]


def _next_steps(report: CheckReport, savepoint: str, stored: Savepoint) -> list[str]:
    """Return the lines on what to do next."""
    from ...compat.report import Status
    from ...serializers.compatibility import Decision

    if report.scanned is not None and report.scanned.failing and report.new.upgrade is not None:
        return ["next: let the columns of the new query take these values; or have the old query correct them first"]
    if report.scanned is not None and report.scanned.failing:
        return [
            "next: let the type take these values, or give it a converter or on_none; or correct them with the old job",
            "  or leave them out of the new savepoint: stateshift migrate … --bad-values quarantine",
        ]
    if report.is_partial:
        return [_PARTIAL]
    if report.decision is Decision.REFUSE and report.new.upgrade is not None:
        return ["next: change the query in one of the ways above and check again; nothing was changed"]
    if report.decision is Decision.REFUSE:
        return ["next: change the types in one of the ways above and check again; nothing was changed"]
    command = f"stateshift migrate {shell_word(savepoint)} NEW_SAVEPOINT {options_given('migrate')}"
    if report.decision is Decision.MIGRATE and stored.query is not None:
        return [
            'next: start the query with StreamJob.start(…, on_incompatible="migrate")',
            f"  or write a savepoint with the new types: {command}",
        ]
    if report.decision is Decision.MIGRATE:
        return [f"next: {command}"]
    if stored.query is not None:
        return query_start_lines(savepoint)
    matched = [operator for operator in report.operators if operator.status is Status.MATCHED]
    return start_lines(
        savepoint,
        moved_from=stored.moved_from,
        flink_restorable=all(operator.flink_restorable_after is not False for operator in matched),
        with_orphans=any(operator.status is Status.ORPHANED for operator in report.operators),
        must_declare=any(operator.was is not None and operator.was.has_custom_raw_keyed_state for operator in matched),
    )
