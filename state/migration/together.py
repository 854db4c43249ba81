"""Small blocks of one state, converted together where that pays: to numpy a block costs as much as a thousand entries.

All or nothing: where an entry is left out, is bad, or is not where it should be, the blocks are converted one by one,
in their order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs

from ...compat.transcode.executors import ExecutorName, paying
from ...serializers.errors import StateShiftError
from ...serializers.pickled.unpickling import trusting
from ..savepoint.blocks import Block

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...compat.transcode.transcoder import Transcoded
    from .block_rewriter import BlockRewriter, Tally

Step = Callable[[], Block | None]
"""What is left to do for a block that was converted, copied or dropped; it gives the new one, if there is any."""


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

    def steps(self, tally: Tally) -> Iterator[Step]:
        """Give what is left to do: the first of the blocks counts them all."""
        first, *rest = self.blocks

        def count() -> Block:
            tally.add(self.found, self.found.keys_read or 0, self.keys_written)
            return first

        yield count
        yield from (partial(_as_it_is, block) for block in rest)


def _as_it_is(block: Block) -> Block:
    return block


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
    if len(batch) == 1 or paying(0) is not ExecutorName.NUMPY:
        return made
    for state_id in dict.fromkeys(block.state_id for block in batch):
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
