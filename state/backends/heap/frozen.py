"""The state of a heap backend at one moment, read as canonical blocks while the backend goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import attrs

from ....serializers.errors import StateShiftError
from ...formats.flink.blocks import Block
from ...formats.flink.keyed_stream import RUN_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ...formats.flink.keyed_stream import KeyedStreamHeader
    from .entry_codecs import Codec


class FrozenPart(Protocol):
    """One state at that moment."""

    def blocks(self, slot: int, key_group: int, state_id: int) -> Iterator[Block]:
        """Yield its blocks of one key group."""
        ...


@attrs.frozen
class FrozenTable:
    """The dicts of a table, which nobody changes until the snapshot is released.

    Attributes:
        groups: The dict of each key group.
        codec: Writes them as entries, sorted by their keys.
    """

    groups: list[dict[Any, Any]] = attrs.field(repr=False)
    codec: Codec

    def blocks(self, slot: int, key_group: int, state_id: int) -> Iterator[Block]:
        """Yield its blocks of one key group."""
        for items in _runs(sorted(self.codec.entries(key_group, self.groups[slot]))):
            yield Block.of(key_group, state_id, items)


def _runs(items: Iterable[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield lists of entries, each of a few megabytes."""
    run: list[tuple[bytes, bytes]] = []
    size = 0
    for item in items:
        run.append(item)
        size += len(item[0]) + len(item[1])
        if size >= RUN_BYTES:
            yield run
            run, size = [], 0
    if run:
        yield run


@attrs.frozen
class StoredState:
    """A restored state for which no handle was asked yet: the blocks as they were stored.

    Attributes:
        found: The blocks of each key group.
    """

    found: dict[int, tuple[Block, ...]] = attrs.field(factory=dict, repr=False)

    def add(self, block: Block) -> None:
        """Add a block; the bytes are copied if the block does not own them."""
        kept = attrs.evolve(block, data=bytes(block.data))
        self.found[block.key_group] = (*self.found.get(block.key_group, ()), kept)

    def blocks(self, slot: int, key_group: int, state_id: int) -> Iterator[Block]:
        """Yield its blocks of one key group."""
        return (attrs.evolve(block, state_id=state_id) for block in self.found.get(key_group, ()))


class FrozenHeap:
    """A frozen heap backend.

    Args:
        header: The key snapshot and the states.
        key_groups: The key groups of the subtask.
        parts: The content of each state.
        snapshots: The set in which the backend has its snapshots that have not been released; this one is added.
    """

    def __init__(
        self, header: KeyedStreamHeader, key_groups: range, parts: list[FrozenPart], snapshots: set[object]
    ) -> None:
        self.header, self._key_groups, self._parts, self._snapshots = header, key_groups, parts, snapshots
        snapshots.add(self)

    def blocks(self, key_groups: range | None = None, state_ids: Collection[int] | None = None) -> Iterator[Block]:
        """Yield the canonical blocks of some key groups and states (by default all), key groups ascending.

        Raises:
            StateShiftError: The snapshot has been released.
            ValueNotConvertible: A value does not fit its type.
        """
        wanted = range(len(self._parts)) if state_ids is None else sorted(state_ids)
        for slot, key_group in enumerate(self._key_groups):
            if key_groups is not None and key_group not in key_groups:
                continue
            for state_id in wanted:
                if self not in self._snapshots:
                    raise StateShiftError("the snapshot was released before it was written")
                yield from self._parts[state_id].blocks(slot, key_group, state_id)

    def release(self) -> None:
        """Release the dicts, which the backend changes in place again; calling it twice is harmless."""
        self._snapshots.discard(self)
