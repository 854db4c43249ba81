"""Whole key groups on their way to a new stream, all of their states at once: plain entries, by machine code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import StateShiftError
from ..savepoint.blocks import Block
from ..transcode.blocks import BlockTranscoder, entry_end
from ..transcode.key_groups import Treatment, make_key_groups_executor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..savepoint.entry_checks import StreamCheck
    from ..savepoint.key_group_ranges import Stretch
    from ..transcode.entry_check import EntryCheck
    from ..transcode.key_groups import KeyGroupsExecutor, NewKeyGroups
    from .block_rewriter import BlockRewriter


_CREDIT = 2


@attrs.define
class StretchRewriter:
    """Rewrites stretches of a stored stream where machine code can; is for one thread.

    Attributes:
        rewriters: By the id of a state who converts its blocks, if anyone.
        new_ids: By the id of a state the new one, if it is not dropped.
        prefix_bytes: How many bytes of a key tell its key group.
        check: Holds entries against what they must be.
    """

    rewriters: Sequence[BlockRewriter | None]
    new_ids: Sequence[int | None]
    prefix_bytes: int
    check: StreamCheck
    _made: KeyGroupsExecutor | None = attrs.field(default=None, init=False)
    _credit: int = attrs.field(default=_CREDIT, init=False)

    def convert(self, stretch: Stretch) -> NewKeyGroups | None:
        """Convert all entries of a stretch; None where that is to be done block by block.

        Once more stretches could not be converted than could, by two, none is tried any more.
        """
        if not self._credit:
            return None
        found = self._executor().rewrite(stretch.data, stretch.begins, stretch.key_groups)
        if found is None or not self._are_proven(found, stretch.extents[0].key_group):
            self._credit -= 1
            return None
        self._credit += 1
        return found

    def _are_proven(self, found: NewKeyGroups, key_group: int) -> bool:
        """Read the first entry of each state that was converted (rule RUN-7); what is wrong with one, blocks tell."""
        try:
            for total in found.totals:
                rewriter, new_id = self.rewriters[total.state_id], self.new_ids[total.state_id]
                if rewriter is not None and new_id is not None and not rewriter.proven:
                    entry = found.data[total.first : entry_end(found.data, total.first)]
                    rewriter.prove_one(Block(key_group, new_id, entry, 1))
        except StateShiftError:
            return False
        return True

    def _executor(self) -> KeyGroupsExecutor:
        if self._made is None:
            pairs = enumerate(zip(self.new_ids, self.rewriters, strict=True))
            treatments = [_treatment(*pair, self.check.entry_check(at)) for at, pair in pairs]
            self._made = make_key_groups_executor(treatments, self.prefix_bytes)
        return self._made


def may_be_whole(rewriters: Sequence[BlockRewriter | None]) -> bool:
    """Whether entries can be rewritten by an op list, without a look at others of their key group."""
    transcoders = [one.transcoder for one in rewriters if one is not None]
    return all(isinstance(one, BlockTranscoder) and not one.needs_whole_run for one in transcoders)


def _treatment(new_id: int | None, rewriter: BlockRewriter | None, check: EntryCheck) -> Treatment:
    """Say what happens to a state; what is dropped is held against nothing but its framing."""
    if rewriter is None or new_id is None:
        return Treatment(new_id, check=None if new_id is None else check)
    assert isinstance(rewriter.transcoder, BlockTranscoder)  # noqa: S101 - so says may_be_whole
    return Treatment(new_id, rewriter.transcoder.program, check)
