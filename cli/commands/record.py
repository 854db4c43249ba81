"""`stateshift record`: the job that wrote a savepoint of PyFlink, kept beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...serializers.wording import many
from ..failures import Status
from ..options import allowed_roots, common_options, load_job_here, savepoint_argument
from ..output import print_json, print_lines

if TYPE_CHECKING:
    from collections.abc import Iterator


@click.command(
    "record",
    epilog="""\b
Examples:
  stateshift record accounts:job /data/savepoints/sp-1
  stateshift record jobs/accounts_v1.py:job /data/savepoints/sp-1 --force
  stateshift check /data/savepoints/sp-1 --job accounts:job

\b
The file _stateshift-types.json is written into the folder of the savepoint; Flink does not look at it. It is of this
savepoint alone: beside another one it is refused.""",
)
@click.argument("job_place", metavar="JOB")
@savepoint_argument()
@click.option("--force", is_flag=True, help="Replace what was recorded before.")
@common_options
def command(job_place: str, savepoint: str, *, force: bool, with_json: bool) -> int:
    """Keep what JOB, which wrote SAVEPOINT, says of its types, so that no command needs --old-job any more.

    JOB is MODULE:ATTRIBUTE, as in --job. For Flink, state of PyFlink is bytes; the job says what they hold. The first
    entries of each state are read by its types, and what does not fit ends the command.
    """
    from ...state.savepoint.recorded_job import record_job

    job = load_job_here(job_place).describe(f"job {job_place}")
    done = record_job(savepoint, job, replaces=force, allow_roots=allowed_roots())
    if with_json:
        print_json({"savepoint": savepoint, "file": done.file, "job": job_place, "states": _by_operator(done.states)})
    else:
        print_lines([f"recorded: {done.file}: the types of {many(len(done.states), 'state')}, of job {job_place}"])
        print_lines(f"  operator {operator}: {', '.join(names)}" for operator, names in _each(done.states))
    return Status.DONE


def _by_operator(states: tuple[tuple[str, str], ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for operator, name in states:
        found.setdefault(operator, []).append(name)
    return found


def _each(states: tuple[tuple[str, str], ...]) -> Iterator[tuple[str, list[str]]]:
    yield from _by_operator(states).items()
