"""Entries of a stored savepoint that go into the stream of a subtask together with new rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..savepoint.blocks import Block


class KeptBlocks:
    """Gives blocks key group by key group, each as early as the rows beside them need it.

    Args:
        blocks: Under the state ids of the new header; key groups ascending, and in each the blocks of `appended` last,
            so that rows can follow them.
        appended: The state to which rows are added, or None. The keys that it has in one key group are remembered.
    """

    def __init__(self, blocks: Iterator[Block], appended: int | None = None) -> None:
        self._blocks = blocks
        self._waiting: Block | None = None
        self._appended = appended
        self._key_group = -1
        self._keys: set[bytes] = set()

    def up_to(self, key_group: int) -> Iterator[Block]:
        """Give what comes before the new rows of a key group."""
        if key_group != self._key_group:
            self._key_group = key_group
            self._keys.clear()
        while (block := self._waiting or next(self._blocks, None)) is not None:
            self._waiting = block if block.key_group > key_group else None
            if self._waiting is not None:
                return
            if block.state_id == self._appended and block.key_group == key_group:
                self._keys.update(key for key, _ in block.items())
            yield block

    def rest(self) -> Iterator[Block]:
        """Give what comes after the last rows."""
        if self._waiting is not None:
            yield self._waiting
        yield from self._blocks

    def taken_by(self, block: Block) -> bytes | None:
        """Give a key of new rows that has an entry already, after `up_to` for their key group; None: there is none."""
        if not self._keys or block.state_id != self._appended:
            return None
        return next((key for key, _ in block.items() if key in self._keys), None)
