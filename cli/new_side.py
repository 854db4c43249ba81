"""The source of the new types: a job in Python, or a savepoint that the new Java job wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import click

from ..serializers.wording import shell_word
from .options import as_one, load_job_here, open_savepoint

if TYPE_CHECKING:
    from ..compat.description import JobDescription
    from ..state.migration.options import MigrationOptions

_OTHER_CHANGES = (
    "to keep the types, specify what else to change: --parallelism, --compression, --drop, --rename-…, "
    "--repartition with --max-parallelism (nothing else is needed to make a native snapshot canonical)"
)


@attrs.frozen
class NewSide:
    """The values of `--job` and `--like`.

    Attributes:
        job: `module:attribute`, or "".
        like: The path of a probe, or "".
    """

    job: str = ""
    like: str = ""

    def describe(self) -> JobDescription:
        """Load the job, or open the probe."""
        if self.job:
            return load_job_here(self.job).describe(f"job {self.job}")

        return open_savepoint(self.like).describe().as_probe()

    def required(self, *, or_else: str = "") -> NewSide:
        """Return itself.

        Args:
            or_else: The alternative to both options, for the message.

        Raises:
            UsageError: Neither option is given, or both are.
        """
        if self.job and self.like:
            raise click.UsageError("--job and --like both determine the new types; give one of them")
        if not (self.job or self.like):
            wanted = "specify the new types: either --job MODULE:ATTRIBUTE or --like SAVEPOINT"
            raise click.UsageError(f"{wanted}; {or_else}" if or_else else wanted)
        return self

    def unless_types_stay(self, savepoint: str, options: MigrationOptions) -> NewSide | None:
        """Return itself, or None if a migration keeps the types.

        It changes something else, or a native snapshot becomes canonical; the state of a query becomes a savepoint.

        Raises:
            UsageError: Nothing is to change.
        """
        if not (self.job or self.like):
            if options.changes_without_types:
                return None
            opened = open_savepoint(savepoint)
            if opened.query is not None or any(one.is_native for one in opened.operators):
                return None
        return self.required(or_else=_OTHER_CHANGES)

    def __str__(self) -> str:
        """Return the option as it is typed."""
        return f"--job {shell_word(self.job)}" if self.job else f"--like {shell_word(self.like)}"


new_side_options = as_one(
    "side",
    lambda *, job_place, like: NewSide(job_place, like),
    click.option(
        "--job",
        "job_place",
        default="",
        metavar="MODULE:ATTRIBUTE",
        help="The job with the new types, such as accounts:job or jobs/accounts.py:job. The current folder is searched "
        "first.",
    ),
    click.option(
        "--like",
        default="",
        metavar="SAVEPOINT",
        help="Instead of --job: a savepoint that the new Java job wrote, with its types (a probe).",
    ),
)
"""`--job MODULE:ATTRIBUTE` and `--like SAVEPOINT`; the command receives them as one argument `side`."""
