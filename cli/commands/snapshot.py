"""`stateshift snapshot`: the types of a savepoint or job as a file, to be kept and compared."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from ...serializers.wording import many
from ..failures import Status
from ..options import allow_root_option, common_options, import_option, is_spark, load_job_here, open_savepoint
from ..output import print_json, print_lines, print_notice, write_json
from ..query_gate import queries_option, record_queries
from ..sides import describe_checkpoint
from ..whole_files import OutputFile, output_option, says_format
from .history import history_option

if TYPE_CHECKING:
    from ...compat.description import JobDescription
    from ...compat.gate.history import History


def _is_snapshot(file: Path) -> bool:
    from ...compat.gate.recorded_text import VERSION
    from ...compat.gate.recording import FORMAT

    return says_format(file, FORMAT, VERSION)


@click.command(
    "snapshot",
    epilog="""\b
Examples:
  stateshift snapshot /data/savepoints/sp-1 -o state.json
  stateshift snapshot --job accounts:job -o state.json
  stateshift snapshot --job accounts:job -m "add currency"
  stateshift snapshot --queries
  stateshift diff state.json accounts:job

\b
The file contains no keys or values. It is readable, always the same for the same types, and can be compared on a
machine that has neither the savepoint nor the classes.""",
)
@click.argument("savepoint", metavar="[SAVEPOINT]", default="")
@allow_root_option
@click.option(
    "--job",
    "job_place",
    default="",
    metavar="MODULE:ATTRIBUTE",
    help="Instead of SAVEPOINT: a job in Python, such as accounts:job or jobs/accounts.py:job. The current folder is "
    "searched first.",
)
@click.option("-m", "--message", default="", help="Record a revision in the project's history, with this message.")
@click.option(
    "--merge", "merges", is_flag=True, help="With -m: follow all heads, if several branches have each added one."
)
@queries_option(
    "Instead of SAVEPOINT: describe all queries of Spark that pyproject.toml lists, in the history's folder."
)
@history_option
@output_option(_is_snapshot)
@import_option
@common_options
def command(
    savepoint: str,
    *,
    job_place: str,
    message: str,
    merges: bool,
    queries: bool,
    folder: Path,
    file: OutputFile | None,
    with_json: bool,
) -> int:
    """Record operators, keys, states and their types, with the snapshots of all serializers."""
    if queries:
        return record_queries(folder, with_json=with_json)
    from ...compat.gate.recording import digest, to_json

    description = _described(savepoint, job_place)
    for operator in description.operators:
        if operator.unreadable:
            title = operator.uid or operator.operator_id
            print_notice(f"operator {title}: not all of its state can be read and recorded: {operator.unreadable}")
    if message or merges:
        if file is not None:
            raise click.UsageError("-m records in the history's folder, and -o in a file: give one of them")
        if is_spark(savepoint):
            raise click.UsageError("-m records revisions of jobs; record a Spark query's checkpoint in a file: -o FILE")
        return _record_revision(description, message, folder, merges=merges, with_json=with_json)
    text = to_json(description)
    if file is None:
        write_json(text)
        return Status.DONE
    with file.opened() as stream:
        stream.write(text)
    states = sum(len(operator.states) for operator in description.operators)
    if with_json:
        facts = {"file": str(file), "origin": description.origin, "sha256": digest(description)}
        print_json(facts | {"operators": len(description.operators), "states": states})
    else:
        operators = many(len(description.operators), "operator")
        print_lines([f"written: {file}: {operators} with {many(states, 'state')}, of {description.origin}"])
    return Status.DONE


def _described(savepoint: str, job_place: str) -> JobDescription:
    if bool(savepoint) is bool(job_place):
        raise click.UsageError("specify what to record: either SAVEPOINT or --job MODULE:ATTRIBUTE")
    if job_place:
        return load_job_here(job_place).describe(f"job {job_place}")

    if is_spark(savepoint):
        return describe_checkpoint(savepoint)
    # The path is kept as it was typed, so that the file is the same on every machine.
    return attrs.evolve(open_savepoint(savepoint).describe(), origin=f"savepoint {savepoint}")


def _record_revision(description: JobDescription, message: str, folder: Path, *, merges: bool, with_json: bool) -> int:
    """Add a revision to the history, unless its head is the same (rule CI-4)."""
    from ...compat.gate.history import SUFFIX
    from ...compat.gate.recording import digest
    from ..revisions import read_history

    history = read_history(folder)
    head = None if merges else history.require_one_head()
    if head is not None and head.sha256 == digest(description):
        facts, lines = (
            {"file": None, "revision": head.name, "id": head.id},
            [f"nothing to record: unchanged since {head.name}"],
        )
    else:
        _tell_what_is_refused(history, description)
        revision = history.next(description, message, dt.datetime.now(tz=dt.UTC).date(), merges=merges)
        file = OutputFile(folder / f"{revision.name}{SUFFIX}")
        file.check()
        folder.mkdir(parents=True, exist_ok=True)
        with file.opened() as stream:
            stream.write(revision.to_json())
        facts = {"file": str(file), "revision": revision.name, "id": revision.id}
        lines = [f"written: {file}", *(f"  note: {note}" for note in revision.notes)]
    if with_json:
        print_json(facts)
    else:
        print_lines(lines)
    return Status.DONE


def _tell_what_is_refused(history: History, description: JobDescription) -> None:
    """Print what the gate refuses now: against the new revision, it would pass."""
    from ...compat.gate.history import judged
    from ...compat.gate.levels import judge
    from ...compat.gate.losses import Guard
    from ...state.project import Project
    from ..render.gate import text_lines

    project = Project.find(Path.cwd())
    today = dt.datetime.now(tz=dt.UTC).date()
    report = judge(
        judged(history.revisions),
        description,
        project.levels,
        today=today,
        overrides=project.overrides,
        guard=Guard(project.allow),
    )
    if report.passes:
        return
    for line in text_lines(report):
        print_notice("".join(text for text, _ in line))
    print_notice(
        "it is recorded anyway; the gate refuses it when it is checked against what runs (--against a stamp, or the"
        " branch that it is merged into)"
    )
