"""`stateshift snapshot`: the types of a savepoint or job as a file, to be kept and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import click

from ..serializers.wording import many
from .failures import Status
from .options import common_options, import_option, load_job_here
from .output import print_json, print_lines, print_notice, write_text
from .whole_files import output_option, whole_file

if TYPE_CHECKING:
    from pathlib import Path

    from ..compat.description import JobDescription


@click.command(
    "snapshot",
    short_help="Record the types of a savepoint or job in a file.",
    epilog="""\b
Examples:
  stateshift snapshot /data/savepoints/sp-1 -o state.json
  stateshift snapshot --job accounts:job -o state.json
  stateshift diff state.json accounts:job

\b
The file holds no keys and no values. It is readable, the same for the same types, and can be compared on a machine that
has neither the savepoint nor the classes.""",
)
@click.argument("savepoint", metavar="[SAVEPOINT]", default="")
@click.option(
    "--job",
    "job_place",
    default="",
    metavar="MODULE:ATTRIBUTE",
    help="In place of SAVEPOINT: a job in Python. The current folder is searched first.",
)
@output_option
@import_option
@common_options
def command(savepoint: str, *, job_place: str, file: Path | None, with_json: bool) -> int:
    """Record operators, keys, states and their types, with the snapshots of all serializers."""
    from ..compat.recording import digest, to_json

    description = _described(savepoint, job_place)
    for operator in description.operators:
        if operator.unreadable:
            title = operator.uid or operator.operator_id
            print_notice(f"operator {title}: not all of its state can be told, and recorded: {operator.unreadable}")
    text = to_json(description)
    if file is None:
        write_text(text)
        return Status.DONE
    with whole_file(file) as stream:
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
        raise click.UsageError("give what is to be recorded: either SAVEPOINT or --job MODULE:ATTRIBUTE")
    if job_place:
        return load_job_here(job_place).describe(f"job {job_place}")
    from ..state.savepoint.reader import Savepoint

    # As it was typed: the file is to be the same on every machine.
    return attrs.evolve(Savepoint.open(savepoint).describe(), origin=f"savepoint {savepoint}")
