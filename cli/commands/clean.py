"""`stateshift clean`: remove what a dead run has left in its target."""

from __future__ import annotations

import click

from ...serializers.wording import many
from ..failures import Status
from ..options import common_options
from ..output import print_json, print_lines


@click.command(
    "clean",
    epilog="""\b
Examples:
  stateshift clean /data/savepoints/sp-1-v2
  stateshift clean s3://bucket/sp-1-v2 --json

\b
A run that was killed leaves its own files, and no _metadata. `migrate` removes them by itself, or resumes
from them (--target-exists resume); use this command for a target that will not be used again.
Savepoints and files of other programs are never touched: exit status 2.""",
)
@click.argument("target_place", metavar="TARGET")
@common_options
def command(target_place: str, *, with_json: bool) -> int:
    """Remove what a run that died has left in TARGET.

    Beside a savepoint that it had published, that is its claim and its notes. In the folder of a job's checkpoints
    (`ROOT/JOB`) it is what no complete checkpoint needs.
    """
    from ...state.publication.checkpoints import clean_job, is_job_folder
    from ...state.publication.publish import clean
    from ...state.storage.files import Folder

    folder = Folder.at(target_place)
    removed = clean_job(folder) if is_job_folder(folder) else clean(folder)
    if with_json:
        print_json({"target": folder.place, "removed": list(removed)})
    elif removed:
        print_lines([f"removed {many(len(removed), 'file')} from {folder.place}:", *(f"  {name}" for name in removed)])
    else:
        print_lines([f"nothing to remove in {folder.place}"])
    return Status.DONE
