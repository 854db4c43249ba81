"""`stateshift rewind`: a copy of a streaming query that stands at an earlier batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...compat.structuring import fields_of
from ...serializers.wording import many
from ...state.progress import size_text
from ..failures import Status
from ..options import NOT_COMPARED, allow_root_option, allowed_roots, common_options
from ..output import print_json, print_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...state.streaming.rewinding import Rewound


@click.command(
    "rewind",
    short_help="Copy a streaming query as it was after an earlier batch.",
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
def command(
    state_dir: str,
    *,
    new_state_dir: str,
    checkpoint: str,
    to_epoch: int | None,
    to_batch: int | None,
    with_json: bool,
) -> int:
    """Copy the query in STATE_DIR as it was after an earlier batch: its state to NEW_STATE_DIR, with a checkpoint."""
    from ...state.streaming.rewinding import rewind

    if to_epoch is not None and to_batch is not None:
        raise click.UsageError("--to-epoch and --to-batch exclude each other")
    found = rewind(
        state_dir, new_state_dir, checkpoint, to_epoch=to_epoch, to_batch=to_batch, allow_roots=allowed_roots()
    )
    if with_json:
        print_json(fields_of(found, "state_dir checkpoint batch epoch again files bytes=size_bytes unproven?"))
    else:
        print_lines(_lines(found))
    return Status.DONE


def _lines(found: Rewound) -> Iterator[str]:
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
