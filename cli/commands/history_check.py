"""`stateshift check --against …`: a check of a job against its history, before it meets any savepoint."""

from __future__ import annotations

import datetime as dt
import functools
import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from ...serializers.wording import shell_word
from ..failures import Status
from ..next_steps import options_given
from ..options import as_one, together
from ..output import print_json, print_lines, print_notice, print_styled

if TYPE_CHECKING:
    from ...compat.description import JobDescription
    from ...compat.edits import Edits
    from ...compat.gate.history import History
    from ...compat.gate.levels import GateReport, Revision
    from ...compat.policy import Policy
    from ..new_side import NewSide

_LEVELS = ("NONE", "BACKWARD", "FORWARD", "FULL", "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE")


@attrs.frozen
class GateOptions:
    """The options of the gate.

    Attributes:
        against: What the job is checked against; "" if no gate is requested.
        level: The level that replaces the project's own levels, or None.
        strict: Whether a required migration is a failure.
        allow: The names of losses that are not failures.
        allow_drift: Whether a job that passes may differ from the last revision.
    """

    against: str = ""
    level: str | None = None
    strict: bool = False
    allow: tuple[str, ...] = ()
    allow_drift: bool = False


gate_options = as_one(
    "gate",
    GateOptions,
    click.option(
        "--against",
        default="",
        metavar="PLACE",
        help="Instead of SAVEPOINT: a folder of revisions, a revision, a stamp, a git reference, or a savepoint.",
    ),
    click.option(
        "--level",
        type=click.Choice(_LEVELS, case_sensitive=False),
        help="With --against: the level to check, instead of the project's own. [default: BACKWARD]",
    ),
    click.option("--strict", is_flag=True, help="With --against: also refuse what needs a migration."),
    click.option(
        "--allow",
        multiple=True,
        metavar="LOSS",
        help="With --against: accept a loss that the gate reports, such as drops:$.coupon, besides what the project "
        "allows. Can be given several times.",
    ),
    click.option("--allow-drift", is_flag=True, help="With --against: exit with 0 even if the job is not recorded."),
)
"""The options of the gate; the command receives them as one argument `gate`."""

form_option = together(
    click.option(
        "--format",
        "form",
        type=click.Choice(["text", "github", "junit", "markdown", "sarif"]),
        default="text",
        show_default=True,
        help="Lines, annotations of a GitHub workflow with a summary of the step, JUnit XML, Markdown, or SARIF.",
    )
)


def hold_against(
    side: NewSide,
    options: GateOptions,
    edits: Edits,
    policy: Policy,
    *,
    trust: tuple[str, ...] = (),
    form: str,
    everything: bool,
    with_json: bool,
) -> int:
    """Check a job against its history, print the report, and return the exit status."""
    from ...compat.gate.levels import Level, Levels, judge
    from ...compat.gate.losses import Guard
    from ...state.project import Project
    from ..render.forms import drifted, file_of, of_gate, print_form
    from ..render.gate import closing, head_of, text_lines, to_data
    from ..revisions import is_history, read_history, revisions_against

    project, candidate = Project.find(Path.cwd()), side.describe()
    place = Path(options.against)
    kept = read_history(place if is_history(place, project.history) else project.history)
    levels = Levels(Level(options.level.upper())) if options.level else project.levels
    revisions = revisions_against(options.against, kept, project)
    history = [revision.seen(lambda one: one.trusting(trust)) for revision in revisions]
    project.require_known(itertools.chain([candidate], (revision.description for revision in reversed(history))))
    guard = Guard((*project.allow, *options.allow), policy)
    report = judge(
        _edited(history, edits),
        candidate,
        levels,
        today=dt.datetime.now(tz=dt.UTC).date(),
        overrides=project.overrides,
        strict=options.strict,
        guard=guard,
    )
    drift = _drift(report, kept)
    status = _status(report, options, drift)
    end = closing(report, f"stateshift migrate SAVEPOINT NEW_SAVEPOINT {options_given('migrate')}")
    if with_json:
        print_json(to_data(report) | {"closing": end.line, "drift": drift or None, "exit_status": int(status)})
        return status
    what = f"--job {side.job}" if side.job else side.like
    merge = " --merge" if len(kept.heads) > 1 else ""
    record = f"stateshift snapshot {what} -m MESSAGE{merge}"
    if form == "text":
        print_styled(text_lines(report, everything=everything))
    else:
        file = file_of(side.job or project.job)
        unrecorded = [drifted(report.candidate, drift, record, file)] if status is Status.DRIFT else []
        print_form(form, head_of(report, end), [*of_gate(report, file), *unrecorded], everything=everything)
    _tell_what_is_not_needed(options.allow, report)
    if drift and report.passes:
        print_notice(f"drift: {candidate.origin} {drift}")
        print_notice(f"  next: {record}; then commit the file")
    if form == "text":
        print_lines(["", end.line])
    else:
        print_notice(end.line)
    return status


def _edited(history: list[Revision], edits: Edits) -> list[Revision]:
    """Return the revisions with the edits applied; revisions other than the last one may lack some of the names."""
    if not edits or not history:
        return history
    *earlier, last = history
    return [*(revision.seen(functools.partial(_applied, edits)) for revision in earlier), last.seen(edits.apply)]


def _applied(edits: Edits, earlier: JobDescription) -> JobDescription:
    from ...serializers.errors import StateNotFound

    try:
        return edits.apply(earlier)
    except StateNotFound:
        return earlier


def _tell_what_is_not_needed(allow: tuple[str, ...], report: GateReport) -> None:
    """Print the allowed losses that do not occur: if they stayed allowed, a later loss would pass."""
    used = {name for state in report.states for name in state.allowed}
    for name in allow:
        if name not in used:
            print_notice(f"--allow {shell_word(name)} is not needed: nothing of that name is lost")


def _status(report: GateReport, options: GateOptions, drift: str) -> Status:
    if not report.passes:
        return Status.REFUSED
    return Status.DRIFT if drift and not options.allow_drift else Status.DONE


def _drift(report: GateReport, kept: History) -> str:
    """Return how the job differs from the working tree's history, even if checked against another one; "" if recorded.

    Without a history, there is no drift.
    """
    heads = kept.heads
    if not heads or any(head.sha256 == report.sha256 for head in heads):
        return ""
    return f"differs from revision {heads[-1].name}"
