"""Rewriting of whole key groups by machine code, all of their states at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import StateShiftError
from ..formats.flink.blocks import Block
from ..transcode.block_transcoder import BlockTranscoder, entry_end
from ..transcode.key_groups import Treatment, make_key_groups_executor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..formats.flink.key_group_ranges import KeyGroupRange
    from ..savepoint.entry_checks import StreamCheck
    from ..transcode.entry_check import EntryCheck
    from ..transcode.key_groups import NewKeyGroups
    from ..transcode.numba_executor import NumbaKeyGroups
    from .block_rewriter import BlockRewriter


_CREDIT = 2


@attrs.define
class KeyGroupRewriter:
    """Rewrites consecutive key groups of a stored stream by machine code, if possible. It is for one thread.

    Attributes:
        rewriters: The converter of each state's blocks, by state id; None if they are copied or dropped.
        new_ids: The new id of each state, by state id; None if it is dropped.
        prefix_bytes: The number of key bytes that hold the key group.
        check: The check of entries.
    """

    rewriters: Sequence[BlockRewriter | None]
    new_ids: Sequence[int | None]
    prefix_bytes: int
    check: StreamCheck
    _made: NumbaKeyGroups | None = attrs.field(default=None, init=False)
    _credit: int = attrs.field(default=_CREDIT, init=False)

    def convert(self, stored: KeyGroupRange) -> NewKeyGroups | None:
        """Convert all entries of some key groups; return None if that must be done block by block.

        It gives up for good once there were two more failures than successes.
        """
        if not self._credit:
            return None
        found = self._executor().rewrite(stored.data, stored.begins, stored.key_groups)
        if found is None or not self._are_proven(found, stored.extents[0].key_group):
            self._credit -= 1
            return None
        self._credit += 1
        return found

    def _are_proven(self, found: NewKeyGroups, key_group: int) -> bool:
        """Whether the first entry of each converted state can be read back (rule RUN-7)."""
        try:
            for total in found.totals:
                rewriter, new_id = self.rewriters[total.state_id], self.new_ids[total.state_id]
                if rewriter is not None and new_id is not None and not rewriter.proven:
                    entry = found.data[total.first : entry_end(found.data, total.first)]
                    rewriter.prove_one(Block(key_group, new_id, entry, 1))
        except StateShiftError:
            return False
        return True

    def _executor(self) -> NumbaKeyGroups:
        if self._made is None:
            pairs = enumerate(zip(self.new_ids, self.rewriters, strict=True))
            treatments = [_treatment(*pair, self.check.entry_check(at)) for at, pair in pairs]
            self._made = make_key_groups_executor(treatments, self.prefix_bytes)
        return self._made


def may_be_whole(rewriters: Sequence[BlockRewriter | None]) -> bool:
    """Whether all states can be rewritten by op lists, entry by entry, without all entries of a key group at once."""
    transcoders = [one.transcoder for one in rewriters if one is not None]
    return all(isinstance(one, BlockTranscoder) and (one.keeps_apart or not one.needs_whole_run) for one in transcoders)


def _treatment(new_id: int | None, rewriter: BlockRewriter | None, check: EntryCheck) -> Treatment:
    """Return the treatment of a state; the entries of dropped states are not checked apart from their framing."""
    if rewriter is None or new_id is None:
        return Treatment(new_id, check=None if new_id is None else check)
    assert isinstance(rewriter.transcoder, BlockTranscoder)  # noqa: S101 - may_be_whole has checked it
    return Treatment(new_id, rewriter.transcoder.program, check)
