"""`stateshift savepoint`: a savepoint of a streaming query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...serializers.wording import many, shell_word
from ...state.progress import size_text
from ..failures import Status
from ..options import NOT_COMPARED, allow_root_option, allowed_roots, common_options, spark_options
from ..output import print_json, print_lines
from ..progress import show_progress
from ..render.migration import announce_run, report_start_lines, start_command
from ..run_failures import failures_told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...state.migration.report import MigrationReport
    from ...state.savepoint.reader import Savepoint


@click.command(
    "savepoint",
    epilog="""\b
Examples:
  stateshift savepoint /data/state /data/savepoints/sp-1
  stateshift savepoint s3://bucket/state s3://bucket/sp-1 --json

\b
STATE_DIR is the state directory of a StreamJob. All operators are cut at its last committed batch; the savepoint is
canonical, and Flink restores it. The position of the sources at that batch is kept with it: `inspect` shows it.
Files that are being copied are not deleted by the query. STATE_DIR must have its checkpoint where the query left it.
Exit status 6: the run failed and nothing was published.""",
)
@click.argument("state_dir", metavar="STATE_DIR")
@click.argument("target_place", metavar="TARGET")
@allow_root_option
@spark_options
@common_options
def command(state_dir: str, *, target_place: str, master: str | None, py_files: list[str], with_json: bool) -> int:
    """Write the state of the query in STATE_DIR after its last committed batch to TARGET, as a savepoint."""
    from ...spark.streaming.savepoints import take_savepoint
    from ...state.savepoint.reader import Savepoint

    with show_progress() as progress, failures_told(target_place):
        report = take_savepoint(
            state_dir,
            target_place,
            master=master,
            py_files=py_files,
            announce=announce_run,
            progress=progress,
            allow_roots=allowed_roots(),
        )
    written = Savepoint.open(target_place)
    if with_json:
        print_json(report.to_data() | {"start_command": start_command(report), "position": written.position})
    else:
        print_lines(_lines(report, written))
    return Status.DONE


def _lines(report: MigrationReport, written: Savepoint) -> Iterator[str]:
    entries = sum(count.written for count in report.states)
    yield f"savepoint of batch {written.position['batch']}: {written.place}"
    yield (
        f"  {many(len(written.operators), 'operator')}, {many(entries, 'entry', 'entries')}, "
        f"{size_text(report.bytes_written or 0)} written in {report.seconds:.1f} s"
    )
    if report.unproven:
        yield f"  {NOT_COMPARED}: {report.unproven}"
    yield ""
    place = shell_word(report.target)
    yield f"the position of its sources is in it: stateshift inspect {place}"
    yield f"prove it: stateshift verify {place}"
    yield from report_start_lines(report)
