"""The source of the new types: a job in Python, or a savepoint that the new Java job wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from ..serializers.wording import shell_word
from .options import load_job_here, open_savepoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..compat.description import JobDescription
    from ..state.migration.options import MigrationOptions

OTHER_CHANGES = (
    "to keep the types, specify what else to change: --parallelism, --compression, --drop, --rename-…, "
    "--repartition with --max-parallelism (nothing else is needed to make a native snapshot canonical)"
)

F = TypeVar("F", bound="Callable[..., Any]")


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

    def __str__(self) -> str:
        """Return the option as it is typed."""
        return f"--job {shell_word(self.job)}" if self.job else f"--like {shell_word(self.like)}"


def new_side_options(function: F) -> F:
    """Add `--job MODULE:ATTRIBUTE` and `--like SAVEPOINT`; one of them must be given."""
    function = click.option(
        "--like",
        default="",
        metavar="SAVEPOINT",
        help="Instead of --job: a savepoint that the new Java job wrote, with its types (a probe).",
    )(function)
    return click.option(
        "--job",
        "job_place",
        default="",
        metavar="MODULE:ATTRIBUTE",
        help="The job with the new types, such as accounts:job or jobs/accounts.py:job. The current folder is searched "
        "first.",
    )(function)


def types_stay(savepoint: str, job_place: str, like: str, options: MigrationOptions) -> bool:
    """Whether a migration keeps the types: it changes something else, or a native snapshot becomes canonical.

    The state of a query may be kept as it is, too: it becomes a savepoint.
    """
    if job_place or like:
        return False
    if options.changes_without_types:
        return True
    opened = open_savepoint(savepoint)
    return opened.query is not None or any(one.is_native for one in opened.operators)


def new_side(job_place: str, like: str, *, or_else: str = "") -> NewSide:
    """Return the new side from the one option that is given.

    Args:
        job_place: The value of `--job`.
        like: The value of `--like`.
        or_else: The alternative to both options, for the message.

    Raises:
        UsageError: Neither option is given, or both are.
    """
    if bool(job_place) is bool(like):
        if job_place:
            raise click.UsageError("--job and --like both determine the new types; give one of them")
        wanted = "specify the new types: either --job MODULE:ATTRIBUTE or --like SAVEPOINT"
        raise click.UsageError(f"{wanted}; {or_else}" if or_else else wanted)
    return NewSide(job_place, like)
