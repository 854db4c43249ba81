"""`stateshift gc`: the files of a state directory that nothing needs are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...compat.condensing import FEW, some
from ...compat.structuring import fields_of, plain
from ...serializers.wording import many
from ...state.progress import size_text
from ..failures import Status
from ..options import NOT_COMPARED, allow_root_option, common_options, open_state_directory
from ..output import Column, Line, Table, print_json, print_styled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...state.streaming.collecting import Collected

_HOURS = 6.0
_COLUMNS = (Column("folder"), Column("files", is_number=True), Column("bytes", is_number=True))


@click.command(
    "gc",
    short_help="Delete the files of a query's state directory that nothing needs.",
    epilog="""\b
Examples:
  stateshift gc /data/state --dry-run
  stateshift gc /data/state
  stateshift gc s3://bucket/state --older-than 48 --json

\b
A query deletes old files by itself. What attempts and starts that died have left is found only by this command.
Needed is the state after each batch that Spark keeps (spark.sql.streaming.minBatchesToRetain), the savepoint that an
epoch began with until all slots have gone on from it, and what a running `stateshift savepoint` copies.
The query may run meanwhile. Files with names that stateshift does not give are never deleted.""",
)
@click.argument("state_dir", metavar="STATE_DIR")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing.")
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    default=_HOURS,
    show_default=True,
    metavar="HOURS",
    help="Keep files that were written within so many hours: more than the longest batch takes.",
)
@allow_root_option
@common_options
def command(state_dir: str, *, dry_run: bool, older_than: float, with_json: bool) -> int:
    """Delete the files in STATE_DIR, the state directory of a query, that no batch needs to which Spark may go back."""
    from ...state.streaming.collecting import collect

    directory = open_state_directory(state_dir)
    found = collect(directory, older_than_h=older_than, dry_run=dry_run)
    if with_json:
        told = fields_of(found, "oldest bytes=size_bytes young unknown unproven?") | {"deleted": plain(found.deleted)}
        print_json({"state_dir": directory.folder.place, "dry_run": dry_run, **told})
    else:
        print_styled(_blocks(directory.folder.place, found, older_than, dry_run=dry_run))
    return Status.DONE


def _blocks(place: str, found: Collected, hours: float, *, dry_run: bool) -> Iterator[Line | Table]:
    did = "would delete" if dry_run else "deleted"
    what = f"{did} {many(len(found.deleted), 'file')}, {size_text(found.size_bytes)}" if found.deleted else "no garbage"
    yield [(f"{what}, in {place}", "bold")]
    rows: dict[str, list[int]] = {}
    for one in found.deleted:
        rows.setdefault(one.name.rpartition("/")[0] or ".", []).append(one.size)
    if rows:
        cells = ((folder, f"{len(sizes):,}", f"{sum(sizes):,}") for folder, sizes in sorted(rows.items()))
        yield Table(_COLUMNS, [[[(cell, "")] for cell in row] for row in cells], indent=2)
    yield [(f"  kept: the state after batch {found.oldest} and after each later one", "")]
    if found.young:
        yield [(f"  {many(found.young, 'file')} that nothing needs: newer than {hours:g} hours, and kept", "")]
    if found.unproven:
        yield [(f"  {NOT_COMPARED}: {found.unproven}", "yellow")]
    if found.unknown:
        names = some(found.unknown, most=FEW, whole="--json", between=" and ")
        yield [(f"  not of stateshift, and left alone: {names}", "yellow")]
