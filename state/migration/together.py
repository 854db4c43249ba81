"""Small blocks of one state, converted together where that pays: to numpy a block costs as much as a thousand entries.

All or nothing: where an entry is left out, is bad, or is not where it should be, the blocks are converted one by one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ...compat.transcode.executors import ExecutorName, paying
from ...serializers.errors import StateShiftError
from ...serializers.unpickling import trusting
from ..savepoint.blocks import Block

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .block_rewriter import BlockRewriter, Tally

TOGETHER_BYTES = 1 << 20


def batches(blocks: Iterator[Block]) -> Iterator[list[Block]]:
    """Give blocks in batches of about as many bytes as are best converted together; else one by one."""
    batch: list[Block] = []
    size = 0
    for block in blocks:
        batch.append(block)
        size += len(block.data)
        if size >= TOGETHER_BYTES or paying(0) is not ExecutorName.NUMPY:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def rewrite_together(rewriter: BlockRewriter, blocks: list[Block], new_id: int, tally: Tally) -> list[Block] | None:
    """Convert blocks of one state together; None where each must be converted by itself, and nothing was counted."""
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
    tally.add(found, found.keys_read, parts.keys)
    return [
        Block(block.key_group, new_id, found.data[begin:end], block.entries, last - begin)
        for block, (begin, end), last in zip(blocks, pairwise(parts.edges), parts.lasts, strict=True)
    ]
