"""Small blocks of one state, converted together where that pays: to numpy a block costs as much as a thousand entries.

All or nothing: where an entry is left out, is bad, or is not where it should be, the blocks are converted one by one,
in their order.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import attrs

from ...compat.transcode.executors import ExecutorName, paying
from ...serializers.errors import StateShiftError
from ...serializers.unpickling import trusting
from ..savepoint.blocks import Block

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...compat.transcode.transcoder import Transcoded
    from .block_rewriter import BlockRewriter, Tally

TOGETHER_BYTES = 4 << 20


def batches(blocks: Iterator[Block]) -> Iterator[list[Block]]:
    """Give blocks in batches of about as many bytes as are best converted together; else one by one."""
    batch: list[Block] = []
    size = 0
    try:
        for block in blocks:
            batch.append(block)
            size += len(block.data)
            if size >= TOGETHER_BYTES or paying(0) is not ExecutorName.NUMPY:
                yield batch
                batch, size = [], 0
    except StateShiftError:
        if batch:
            yield batch  # what lies before the damage comes before the error
        raise
    if batch:
        yield batch


@attrs.define
class Together:
    """Blocks of one state that were converted together.

    Attributes:
        blocks: The new ones, in the order of the old.
        found: What the transcoder gave.
        keys_written: The checksum of the keys written.
    """

    blocks: list[Block]
    found: Transcoded
    keys_written: int

    def count(self, tally: Tally) -> None:
        """Count them."""
        tally.add(self.found, self.found.keys_read or 0, self.keys_written)


def convert_together(
    batch: list[Block], rewriters: Sequence[BlockRewriter | None], new_ids: Sequence[int | None]
) -> dict[int, Together]:
    """Convert the blocks of each state together; give nothing where they must be converted one by one.

    Args:
        batch: Blocks of several states.
        rewriters: By the id of a state who converts it, if anyone.
        new_ids: By the id of a state the new one, if it is not dropped.
    """
    made: dict[int, Together] = {}
    for state_id in dict.fromkeys(block.state_id for block in batch) if len(batch) > 1 else ():
        rewriter, new_id = rewriters[state_id], new_ids[state_id]
        if rewriter is None or new_id is None:
            continue
        blocks = [block for block in batch if block.state_id == state_id]
        found = _converted(rewriter, blocks, new_id) if rewriter.proven and rewriter.joins else None
        if found is None:
            rewriter.joins = not rewriter.proven
            return {}
        made[state_id] = found
    return made


def _converted(rewriter: BlockRewriter, blocks: list[Block], new_id: int) -> Together | None:
    from ...compat.transcode.numpy_framing import put_together, survey_together

    if rewriter.plan.transform is not None or any(block.oversized or not block.entries for block in blocks):
        return None
    counts = [block.entries for block in blocks]
    try:
        with trusting(rewriter.plan.trust):
            found = rewriter.transcoder.transcode(put_together([block.data for block in blocks]))
    except StateShiftError:
        return None
    if found.keys_read is None or found.dropped_elements or not found.new_entries == found.entries == sum(counts):
        return None
    prefixes = [block.key_group.to_bytes(rewriter.framing.key_group_bytes, "big") for block in blocks]
    parts = survey_together(found.data, prefixes, counts)
    if parts is None:
        return None
    new = [
        Block(block.key_group, new_id, found.data[begin:end], block.entries, last - begin)
        for block, (begin, end), last in zip(blocks, pairwise(parts.edges), parts.lasts, strict=True)
    ]
    return Together(new, found, parts.keys)
