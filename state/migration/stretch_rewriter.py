"""Whole key groups on their way to a new stream, all of their states at once: plain entries, by machine code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...compat.transcode.blocks import BlockTranscoder
from ...compat.transcode.executors import ExecutorName, paying
from ...compat.transcode.key_groups import Treatment, make_key_groups_executor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...compat.transcode.key_groups import KeyGroupsExecutor, NewKeyGroups
    from ..savepoint.stretches import Stretch
    from .block_rewriter import BlockRewriter


@attrs.define
class StretchRewriter:
    """Rewrites stretches of a stored stream where machine code can; is for one thread.

    Attributes:
        rewriters: By the id of a state who converts its blocks, if anyone; a state is left to it until its first entry
            is proven (rule RUN-7).
        new_ids: By the id of a state the new one, if it is not dropped.
        prefix_bytes: How many bytes of a key tell its key group.
    """

    rewriters: Sequence[BlockRewriter | None]
    new_ids: Sequence[int | None]
    prefix_bytes: int
    _made: KeyGroupsExecutor | None = attrs.field(default=None, init=False)
    _credit: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._credit = 1 + len(self.rewriters)

    def convert(self, stretch: Stretch) -> NewKeyGroups | None:
        """Convert all entries of a stretch; None where that is to be done block by block.

        Once more stretches could not be converted than could, none is tried any more.
        """
        if not self._credit or paying(0) is not ExecutorName.NUMBA:
            return None
        unproven = [at for at, one in enumerate(self.rewriters) if one is not None and not one.proven]
        key_groups = [extent.key_group for extent in stretch.extents]
        found = self._executor().rewrite(stretch.data, stretch.begins, key_groups, unproven)
        self._credit += -1 if found is None else 1
        return found

    def _executor(self) -> KeyGroupsExecutor:
        if self._made is None:
            pairs = zip(self.new_ids, self.rewriters, strict=True)
            self._made = make_key_groups_executor([_treatment(*pair) for pair in pairs], self.prefix_bytes)
        return self._made


def may_be_whole(rewriters: Sequence[BlockRewriter | None]) -> bool:
    """Whether entries can be rewritten without a look at others of their key group, by machine code."""
    transcoders = [one.transcoder for one in rewriters if one is not None]
    return all(
        isinstance(one, BlockTranscoder)
        and not one.needs_whole_run
        and one.executor in {ExecutorName.AUTO, ExecutorName.NUMBA}
        for one in transcoders
    )


def _treatment(new_id: int | None, rewriter: BlockRewriter | None) -> Treatment:
    if rewriter is None or new_id is None:
        return Treatment(new_id)
    assert isinstance(rewriter.transcoder, BlockTranscoder)  # noqa: S101 - so says may_be_whole
    return Treatment(new_id, rewriter.transcoder.program)
