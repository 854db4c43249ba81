"""`stateshift rewind` and `gc`: a query copied as it was at an earlier batch, and garbage of a state directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...compat.likeness import FEW, some
from ...compat.plain_data import fields_of, plain
from ...serializers.wording import many
from ...state.progress import size_text
from ..failures import Status
from ..options import NOT_COMPARED, allow_root_option, allowed_roots, common_options, open_state_directory
from ..output import Column, Line, Table, print_json, print_lines, print_styled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...state.directory.garbage import Collected
    from ...state.directory.rewind import Rewound

_HOURS = 6.0
_DELETED = (Column("folder"), Column("files", is_number=True), Column("bytes", is_number=True))


@click.command(
    "gc",
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
def gc_command(state_dir: str, *, dry_run: bool, older_than: float, with_json: bool) -> int:
    """Delete the files in STATE_DIR, the state directory of a query, that no batch needs to which Spark may go back."""
    from ...state.directory.garbage import collect

    directory = open_state_directory(state_dir)
    found = collect(directory, older_than_h=older_than, dry_run=dry_run)
    if with_json:
        told = fields_of(found, "oldest bytes=size_bytes young unknown unproven?") | {"deleted": plain(found.deleted)}
        print_json({"state_dir": directory.folder.place, "dry_run": dry_run, **told})
    else:
        print_styled(_deleted_blocks(directory.folder.place, found, older_than, dry_run=dry_run))
    return Status.DONE


def _deleted_blocks(place: str, found: Collected, hours: float, *, dry_run: bool) -> Iterator[Line | Table]:
    did = "would delete" if dry_run else "deleted"
    what = f"{did} {many(len(found.deleted), 'file')}, {size_text(found.size_bytes)}" if found.deleted else "no garbage"
    yield [(f"{what}, in {place}", "bold")]
    rows: dict[str, list[int]] = {}
    for one in found.deleted:
        rows.setdefault(one.name.rpartition("/")[0] or ".", []).append(one.size)
    if rows:
        cells = ((folder, f"{len(sizes):,}", f"{sum(sizes):,}") for folder, sizes in sorted(rows.items()))
        yield Table.of(_DELETED, cells)
    yield [(f"  kept: the state after batch {found.oldest} and after each later one", "")]
    if found.young:
        yield [(f"  {many(found.young, 'file')} that nothing needs: newer than {hours:g} hours, and kept", "")]
    if found.unproven:
        yield [(f"  {NOT_COMPARED}: {found.unproven}", "yellow")]
    if found.unknown:
        names = some(found.unknown, most=FEW, whole="--json", between=" and ")
        yield [(f"  not of stateshift, and left alone: {names}", "yellow")]


@click.command(
    "rewind",
    epilog="""\b
Examples:
  stateshift rewind /data/state /data/state-2 --checkpoint /data/checkpoint-2
  stateshift rewind /data/state /data/state-2 --checkpoint /data/checkpoint-2 --to-epoch 1
  stateshift rewind s3://bucket/state s3://bucket/state-2 --checkpoint s3://bucket/checkpoint-2 --to-batch 41

\b
STATE_DIR is the state directory of a StreamJob whose query is stopped. It and its checkpoint are only read.
The copy has the state and the positions of the sources after one batch: by default the last one before the last
migration, or the last change of the number of slots. Start it with the code of that time:
StreamJob("/data/state-2", "/data/checkpoint-2"). What was read since then it reads again, and writes a second time.
Its batches have the same numbers again: a file sink would leave them out without a word, so choose another output path.
A batch that Spark does not keep any more (spark.sql.streaming.minBatchesToRetain) is refused, with those there are.""",
)
@click.argument("state_dir", metavar="STATE_DIR")
@click.argument("new_state_dir", metavar="NEW_STATE_DIR")
@click.option("--checkpoint", required=True, metavar="NEW_CHECKPOINT", help="The folder of the copy's checkpoint.")
@click.option("--to-epoch", type=int, metavar="N", help="Go back to the last batch of epoch N.")
@click.option("--to-batch", type=int, metavar="N", help="Go back to batch N.")
@allow_root_option
@common_options
def rewind_command(
    state_dir: str,
    *,
    new_state_dir: str,
    checkpoint: str,
    to_epoch: int | None,
    to_batch: int | None,
    with_json: bool,
) -> int:
    """Copy the query in STATE_DIR as it was after an earlier batch: its state to NEW_STATE_DIR, with a checkpoint."""
    from ...state.directory.rewind import rewind

    if to_epoch is not None and to_batch is not None:
        raise click.UsageError("--to-epoch and --to-batch exclude each other")
    found = rewind(
        state_dir, new_state_dir, checkpoint, to_epoch=to_epoch, to_batch=to_batch, allow_roots=allowed_roots()
    )
    if with_json:
        print_json(fields_of(found, "state_dir checkpoint batch epoch again files bytes=size_bytes unproven?"))
    else:
        print_lines(_copy_lines(found))
    return Status.DONE


def _copy_lines(found: Rewound) -> Iterator[str]:
    yield f"copied: the query as it was after batch {found.batch}, in epoch {found.epoch}"
    yield f"  state       {found.state_dir}: {many(found.files, 'file')}, {size_text(found.size_bytes)}"
    yield f"  checkpoint  {found.checkpoint}"
    if found.unproven:
        yield f"  {NOT_COMPARED}: {found.unproven}"
    yield ""
    if found.again is None:
        yield "no batch was written since then"
    else:
        first, last = found.again
        what = f"batch {first}" if first == last else f"batches {first} to {last}"
        yield f"written a second time when the copy runs: what {what} wrote since then"
        yield "  a file sink at the same path leaves out batches of these numbers without a word: choose another path"
        yield "  other sinks get these results again: remove those of the first query, or write them elsewhere"
    yield "the first query was only read: do not run both into the same sink"
