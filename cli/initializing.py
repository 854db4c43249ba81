"""`stateshift init`: the job that a savepoint implies, as a Python file."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from ..serializers.errors import TargetExists
from .failures import Status
from .options import common_options, open_savepoint, savepoint_argument
from .output import print_json, print_lines, write_text


@click.command(
    "init",
    short_help="Write the job that a savepoint implies: a start for yours.",
    epilog="""\b
Examples:
  stateshift init /data/savepoints/sp-1 -o job.py
  stateshift init /data/savepoints/sp-1 -o accounts.py --force
  stateshift init /data/savepoints/sp-1 -o - | less

\b
A check of the file against SAVEPOINT says start. Change its types to what the new job needs, and check again.""",
)
@savepoint_argument()
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    default=Path("job.py"),
    show_default=True,
    metavar="FILE",
    help="The file to write; - for stdout.",
)
@click.option("--force", is_flag=True, help="Replace a file of that name.")
@common_options
def command(savepoint: str, *, file: Path, force: bool, with_json: bool) -> int:
    """Write a Python file with the classes, descriptors and operators that the state in SAVEPOINT implies.

    States that cannot be declared are named in comments, with the reason; a migration keeps them as they are.
    """
    from ..state.job_source import job_source

    is_file = str(file) != "-"
    if is_file and file.exists() and not force:
        raise _taken(file)
    source = job_source(open_savepoint(savepoint))
    if not is_file:
        write_text(source)
        return Status.DONE
    _write(file, source, force=force)
    check = f"stateshift check {shlex.quote(savepoint)} --job {shlex.quote(f'{file.stem}:job')}"
    if with_json:
        print_json({"savepoint": savepoint, "file": str(file), "job": f"{file.stem}:job", "check_command": check})
    else:
        where = "" if file.parent == Path() else f" (in {file.parent})"
        print_lines([
            f"written: {file}",
            f"see that it says start: {check}{where}",
            "then change the types to what the new job needs, and check again",
        ])  # fmt: skip
    return Status.DONE


def _write(file: Path, source: str, *, force: bool) -> None:
    try:
        with file.open("w" if force else "x", encoding="utf-8", newline="\n") as stream:
            stream.write(source)
    except FileExistsError as error:
        raise _taken(file) from error
    except OSError as error:
        raise click.UsageError(f"{file} cannot be written: {error.strerror}") from error


def _taken(file: Path) -> TargetExists:
    return TargetExists(f"{file} is there already", advice="give another name with -o, or --force to replace it")
