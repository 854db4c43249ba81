"""`stateshift init`: the job that a savepoint implies, as a Python file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...serializers.wording import shell_word
from ..failures import Status
from ..next_steps import options_given
from ..options import common_options, open_savepoint, savepoint_argument
from ..output import print_json, print_lines, write_text
from ..whole_files import output_option

if TYPE_CHECKING:
    from ..whole_files import OutputFile


@click.command(
    "init",
    epilog="""\b
Examples:
  stateshift init /data/savepoints/sp-1 -o job.py
  stateshift init /data/savepoints/sp-1 -o accounts.py --force
  stateshift init /data/savepoints/sp-1 -o - | less

\b
A check of the file against SAVEPOINT reports start. Change its types to what the new job needs, and check again.""",
)
@savepoint_argument()
@output_option(default=Path("job.py"))
@common_options
def command(savepoint: str, *, file: OutputFile | None, with_json: bool) -> int:
    """Write a Python file with the classes, descriptors and operators that the state in SAVEPOINT implies.

    States that cannot be declared are named in comments, with the reason; a migration keeps them as they are.
    Of state of PyFlink, whose types are not stored, the first entries are read: the type that fits them best is
    declared, and a comment says which others fit. Pickles are not opened.
    """
    from ...state.savepoint.job_source import job_source

    source = job_source(open_savepoint(savepoint))
    if file is None:
        write_text(source)
        return Status.DONE
    with file.opened() as stream:
        stream.write(source)
    name, folder = f"{file.path.stem}:job", file.path.parent
    given = options_given("check", only={"--allow-root", "--checkpoint-root"})
    check = " ".join(filter(None, (f"stateshift check {shell_word(savepoint)} --job {shell_word(name)}", given)))
    if with_json:
        print_json({"savepoint": savepoint, "file": str(file), "job": name, "check_command": check})
    else:
        where = "" if folder == Path() else f" (in {folder})"
        print_lines([
            f"written: {file}",
            f"the check should report start: {check}{where}",
            "then change the types to what the new job needs, and check again",
        ])  # fmt: skip
    return Status.DONE
