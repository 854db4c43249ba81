"""`stateshift check --against …`: a job held against its history, before any savepoint is at stake."""

from __future__ import annotations

import datetime as dt
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import attrs
import click

from .failures import Status
from .output import print_json, print_lines, print_notice, print_styled, write_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..compat.description import JobDescription
    from ..compat.levels import GateReport
    from .project import Project

F = TypeVar("F", bound="Callable[..., Any]")

_LEVELS = ("NONE", "BACKWARD", "FORWARD", "FULL", "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE")


@attrs.frozen
class GateOptions:
    """What the options of the gate say.

    Attributes:
        against: What the job is held against; "" where no gate is asked for.
        level: In place of the project's own level, or "".
        strict: Whether a required migration is a failure.
        allow_drift: Whether a job that passes may differ from the last revision.
        form: How the answer is printed: text, github, junit or sarif.
    """

    against: str = ""
    level: str = ""
    strict: bool = False
    allow_drift: bool = False
    form: str = "text"


def gate_options(function: F) -> F:
    """The options of the gate; the command gets them as one argument `gate`."""

    @click.option(
        "--against",
        default="",
        metavar="PLACE",
        help="In place of SAVEPOINT: a folder of recorded revisions, a revision, a git reference, or a savepoint.",
    )
    @click.option(
        "--level",
        type=click.Choice(_LEVELS, case_sensitive=False),
        help="With --against: what must hold, in place of the project's own level. [default: BACKWARD]",
    )
    @click.option("--strict", is_flag=True, help="With --against: refuse also what needs a migration.")
    @click.option("--allow-drift", is_flag=True, help="With --against: exit with 0 also where the job is not recorded.")
    @click.option(
        "--format",
        "form",
        type=click.Choice(["text", "github", "junit", "sarif"]),
        default="text",
        show_default=True,
        help="With --against: lines, annotations of a GitHub workflow, JUnit XML, or SARIF.",
    )
    @functools.wraps(function)
    def with_gate(
        *args: Any, against: str, level: str | None, strict: bool, allow_drift: bool, form: str, **rest: Any
    ) -> Any:
        return function(*args, gate=GateOptions(against, level or "", strict, allow_drift, form), **rest)

    return cast("F", with_gate)


def hold_against(
    candidate: JobDescription, options: GateOptions, *, trust: tuple[str, ...] = (), with_json: bool
) -> int:
    """Judge a job by its history, tell what was found, and give the exit status."""
    from .. import __version__
    from ..compat.gate_text import annotation_lines, junit, sarif, text_lines, to_data
    from ..compat.levels import Level, Levels, judge
    from .project import Project
    from .revisions import revisions_against

    project = Project.find(Path.cwd())
    levels = Levels(Level(options.level.upper())) if options.level else project.levels
    history = [
        attrs.evolve(revision, description=revision.description.trusting(trust))
        for revision in revisions_against(options.against, project.history)
    ]
    today = dt.datetime.now(tz=dt.UTC).date()
    report = judge(history, candidate, levels, today=today, overrides=project.overrides, strict=options.strict)
    status = _status(report, options)
    if with_json:
        print_json(to_data(report) | {"exit_status": int(status)})
        return status
    if options.form == "junit":
        write_text(junit(report))
    elif options.form == "sarif":
        print_json(sarif(report, _file_of(project), __version__))
    elif options.form == "github":
        print_lines(annotation_lines(report, _file_of(project)))
    else:
        print_styled(text_lines(report))
    if status is Status.DRIFT:
        differs = f"differs from revision {report.revisions[-1]}" if report.revisions else "is not recorded"
        job = candidate.origin.removeprefix("job ")
        print_notice(f"drift: {candidate.origin} {differs}")
        print_notice(f"  next: stateshift snapshot --job {job} -m MESSAGE, and commit the file")
    return status


def _status(report: GateReport, options: GateOptions) -> Status:
    if not report.passes:
        return Status.REFUSED
    return Status.DONE if report.is_recorded or options.allow_drift else Status.DRIFT


def _file_of(project: Project) -> str:
    """Where annotations point to: the module of the project's job."""
    module = project.job.partition(":")[0].replace(".", "/")
    return f"{module}.py" if module and (project.folder / f"{module}.py").is_file() else ""
