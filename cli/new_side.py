"""The source of the new types: a job in Python, a savepoint that the new Java job wrote, or a compiled plan of SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import click

from ..serializers.wording import shell_word
from .next_steps import starts_with_plan
from .options import as_one, is_plan_file, load_job_here, old_job_option, open_savepoint
from .output import print_notice

if TYPE_CHECKING:
    from ..compat.description import JobDescription
    from ..state.migration.options import MigrationOptions

_OTHER_CHANGES = (
    "to keep the types, specify what else to change: --parallelism, --compression, --format, --drop, --rename-…, "
    "--repartition with --max-parallelism (nothing else is needed for a native snapshot: its copy needs no other file)"
)


def is_plan(place: str) -> bool:
    """Whether a place is meant as a compiled plan: a file of JSON, where a savepoint is a folder."""
    return place.endswith(".json") or is_plan_file(place)


_TYPES_ALONE = (
    "note: without --old-plan nobody knows what the stored columns are computed from: types alone are compared, and"
    " columns of equal types that have changed places are not seen"
)


@attrs.frozen
class NewSide:
    """The values of `--job`, `--old-job`, `--like`, `--plan`, `--old-plan` and `--template`.

    Attributes:
        job: `module:attribute`, or "".
        like: The path of a probe, or "".
        plan: The path of a compiled plan of Flink SQL, or "".
        old_plan: That of the plan with which the state was written, or "".
        allows_partial: Whether aggregates may begin now where others go on.
        allows_stale: Whether rows that were sent may stay where the new query would not have sent them.
        template: The path of a savepoint of the new plan, or "".
        keeps_newest: Whether of stored rows that get one unique key the newest stays, where it is known.
        old_job: The job that wrote the state, as `module:attribute`, or "".
    """

    job: str = ""
    like: str = ""
    plan: str = ""
    old_plan: str = ""
    allows_partial: bool = False
    allows_stale: bool = False
    template: str = ""
    keeps_newest: bool = False
    old_job: str = ""

    @property
    def said(self) -> dict[str, Any]:
        """What is allowed, or asked for, of a compiled plan."""
        return {
            "allows_partial": self.allows_partial,
            "allows_stale": self.allows_stale,
            "keeps_newest": self.keeps_newest,
        }

    def describe(self, *, is_old_known: bool = False) -> JobDescription:
        """Load the job, open the probe, or read the plans.

        Args:
            is_old_known: Whether what is stored says itself what its columns are computed from.
        """
        if self.job:
            from ..state.job import job_described

            return job_described(self.job, self.old_job, load_job_here)
        if self.plan:
            from ..state.plans.operators import describe_plans

            starts_with_plan(self.plan)
            if not self.old_plan and not is_old_known:
                print_notice(_TYPES_ALONE)
            template = open_savepoint(self.template).describe() if self.template else None
            return describe_plans(self.plan, self.old_plan, **self.said, template=template)
        return open_savepoint(self.like).describe().as_probe()

    def required(self, *, or_else: str = "") -> NewSide:
        """Return itself.

        Args:
            or_else: The alternative to both options, for the message.

        Raises:
            UsageError: No option is given, or several are.
        """
        given = [name for name, value in (("--job", self.job), ("--like", self.like), ("--plan", self.plan)) if value]
        if len(given) > 1:
            raise click.UsageError(f"{' and '.join(given)} both determine the new types; give one of them")
        if self.old_job and not self.job:
            raise click.UsageError("--old-job says what stored bytes hold, and needs --job, the new job")
        if self.old_plan and not self.plan:
            raise click.UsageError("--old-plan says what the stored columns are, and needs --plan, the new query")
        if self.template and not self.plan:
            raise click.UsageError("--template is a savepoint of a new query, and needs --plan, which is that query")
        if not given:
            wanted = "specify the new types: --job MODULE:ATTRIBUTE, --like SAVEPOINT, or --plan PLAN of Flink SQL"
            raise click.UsageError(f"{wanted}; {or_else}" if or_else else wanted)
        return self

    def unless_types_stay(self, savepoint: str, options: MigrationOptions) -> NewSide | None:
        """Return itself, or None if a migration keeps the types.

        It changes something else, or rewrites a native snapshot, or makes a savepoint of the state of a query.

        Args:
            savepoint: The place of what is migrated; "": it is followed, which is of use only if something changes.
            options: The options of the migration.

        Raises:
            UsageError: Nothing is to change.
        """
        if not (self.job or self.like or self.plan):
            if options.changes_without_types:
                return None
            opened = open_savepoint(savepoint) if savepoint else None
            if opened is not None and (opened.query is not None or any(one.is_native for one in opened.operators)):
                return None
        return self.required(or_else=_OTHER_CHANGES)

    def __str__(self) -> str:
        """Return the option as it is typed."""
        given = (
            ("--old-job", self.old_job), ("--job", self.job), ("--like", self.like), ("--old-plan", self.old_plan),
            ("--plan", self.plan), ("--template", self.template),
        )  # fmt: skip
        return " ".join(f"{name} {shell_word(value)}" for name, value in given if value)


new_side_options = as_one(
    "side",
    lambda *, job_place, plan_place, allow_partial, allow_stale, keep_newest, **others: NewSide(
        job=job_place,
        plan=plan_place,
        allows_partial=allow_partial,
        allows_stale=allow_stale,
        keeps_newest=keep_newest,
        **others,
    ),
    click.option(
        "--job",
        "job_place",
        default="",
        metavar="MODULE:ATTRIBUTE",
        help="The job with the new types, such as accounts:job or jobs/accounts.py:job; or a function that returns the "
        "StreamExecutionEnvironment of a program. The current folder is searched first.",
    ),
    old_job_option,
    click.option(
        "--like",
        default="",
        metavar="SAVEPOINT",
        help="Instead of --job: a savepoint that the new Java job wrote, with its types (a probe).",
    ),
    click.option(
        "--plan",
        "plan_place",
        default="",
        metavar="PLAN",
        help="Instead of --job: the new query of Flink SQL, as COMPILE PLAN has written it.",
    ),
    click.option(
        "--old-plan",
        default="",
        metavar="PLAN",
        help="The compiled plan with which the state was written: it says what each stored column is computed from.",
    ),
    click.option(
        "--template",
        default="",
        metavar="SAVEPOINT",
        help="With --plan: a savepoint of the new query, which may be empty: it has the objects of Java that are not "
        "written here.",
    ),
    click.option(
        "--allow-partial", is_flag=True, help="With --plan: aggregates may begin now, where the others go on."
    ),
    click.option(
        "--allow-stale",
        is_flag=True,
        help="With --plan: rows that were sent may stay in the table where the new query would not have sent them.",
    ),
    click.option(
        "--keep-newest",
        is_flag=True,
        help="With --plan: of stored rows that get one unique key, the newest by its time stamp stays.",
    ),
)
"""`--job`, `--old-job`, `--like`, `--plan`, `--old-plan` and `--template`, as one argument `side` of the command."""
