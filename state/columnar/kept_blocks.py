"""The entries of a stored savepoint that are written to a subtask's stream together with new rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..formats.flink.blocks import Block
    from .stored_forms import StoredForms


class KeptBlocks:
    """Yields the kept blocks key group by key group, so that new rows can be merged between them.

    Args:
        blocks: The kept blocks, with the state ids of the new header; key groups ascend, and in each the blocks of
            `appended` come last, so that rows can follow them.
        appended: The state to which rows are added, or None. Its keys in the current key group are remembered.
        replaced: The state that rows replace, or None: its blocks are not yielded. Its entries in the current key group
            are remembered.
        forms: The converter of new rows to the form of the entries that they replace.
    """

    def __init__(
        self,
        blocks: Iterator[Block],
        appended: int | None = None,
        replaced: int | None = None,
        forms: StoredForms | None = None,
    ) -> None:
        self._blocks = blocks
        self._waiting: Block | None = None
        self._appended, self._replaced, self._forms = appended, replaced, forms
        self._key_group = -1
        self._keys: set[bytes] = set()
        self._stored: dict[bytes, bytes] = {}

    def up_to(self, key_group: int) -> Iterator[Block]:
        """Yield the blocks that come before the new rows of a key group."""
        if key_group != self._key_group:
            self._key_group = key_group
            self._keys.clear()
            self._stored.clear()
        while (block := self._waiting or next(self._blocks, None)) is not None:
            self._waiting = block if block.key_group > key_group else None
            if self._waiting is not None:
                return
            if block.state_id == self._replaced:
                if block.key_group == key_group:
                    self._stored.update(block.items())
                continue
            if block.state_id == self._appended and block.key_group == key_group:
                self._keys.update(key for key, _ in block.items())
            yield block

    def rest(self) -> Iterator[Block]:
        """Yield the blocks that come after the last rows."""
        if self._waiting is not None:
            yield from self._but_replaced([self._waiting])
        yield from self._but_replaced(self._blocks)

    def _but_replaced(self, blocks: Iterable[Block]) -> Iterator[Block]:
        return (block for block in blocks if block.state_id != self._replaced)

    def as_stored(self, block: Block) -> Block:
        """Return a block of new rows in the form of the entries that they replace; call `up_to` for it first."""
        if self._forms is None or not self._stored or block.state_id != self._replaced:
            return block
        return self._forms.restored(block, self._stored)

    def taken_by(self, block: Block) -> bytes | None:
        """Return a key of new rows that has an entry already, or None; call `up_to` for their key group first."""
        if not self._keys or block.state_id != self._appended:
            return None
        return next((key for key, _ in block.items() if key in self._keys), None)
