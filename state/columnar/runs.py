"""Runs: entries of many blocks in one buffer, so that small key groups do not lead to small batches.

The positions of keys and values in it come from machine code, or from the lengths: `i32 n, key, i32 m, value`, each.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ...serializers.columns.bytes_at import padded
from ...serializers.columns.codec import Cells
from ..storage.prefetch import in_batches
from ..transcode.executor_choice import ExecutorName
from ..transcode.frames import find_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ...serializers.columns.bytes_at import Bytes, DecodeFlat, Flags, Flat, Places
    from ..formats.flink.blocks import Block


def flat_decoder(executor: ExecutorName) -> DecodeFlat | None:
    """Return what decodes adjacent numbers, booleans and strings by machine code; None for other executors."""
    return _decode_flat if executor is ExecutorName.NUMBA else None


def _decode_flat(*arguments: Any) -> Flat:
    from .flat_numba import decode_flat

    return decode_flat(*arguments)


def places_of(
    raw: bytes, data: Bytes, sizes: Sequence[int], counts: Sequence[int], executor: ExecutorName
) -> tuple[Places, Places, Places, Places]:
    """Find the entries of consecutive blocks.

    Args:
        raw: The bytes of the blocks.
        data: The bytes as a numpy array.
        sizes: The number of bytes of each block.
        counts: The number of entries of each block.
        executor: The executor that finds them: machine code, or plain Python.

    Returns:
        The start and end of each key, and the start and end of each value.

    Raises:
        CorruptSavepoint: A block does not have its number of entries.
    """
    places = np.empty((4, sum(counts)), dtype=np.int64)
    row = 0
    for end, size, count in zip(accumulate(sizes), sizes, counts, strict=True):
        block = places[:, row : row + count]
        if executor is ExecutorName.NUMBA:
            find_entries(data, end - size, end, [*block])
        else:
            lists = [[0] * count for _ in block]  # Python fills lists faster than arrays
            find_entries(raw, end - size, end, lists)
            block[:] = lists
        row += count
    return places[0], places[1], places[2], places[3]


RUN_BYTES = 4 << 20
_LEAST_BYTES = 64
"""What an entry counts for at least in a run."""


@attrs.frozen
class Run:
    """Entries and the positions of their parts.

    Attributes:
        raw: The padded bytes.
        data: The bytes as a numpy array.
        executor: The executor that decodes them.
        key_groups: The key group of each entry.
        key_starts, key_ends, value_starts, value_ends: The positions of the key and the value of each entry.
    """

    raw: bytes = attrs.field(repr=False)
    data: Bytes = attrs.field(repr=False)
    executor: ExecutorName
    key_groups: Places
    key_starts: Places
    key_ends: Places
    value_starts: Places
    value_ends: Places

    @classmethod
    def of(cls, blocks: list[Block], executor: ExecutorName) -> Run:
        """Join blocks, and find their entries; raises `CorruptSavepoint`."""
        raw, data = padded(*(block.data for block in blocks))
        counts = [block.entries for block in blocks]
        places = places_of(raw, data, [len(block.data) for block in blocks], counts, executor)
        return cls(raw, data, executor, np.repeat([block.key_group for block in blocks], counts), *places)

    def __len__(self) -> int:
        return len(self.key_groups)

    @property
    def keys(self) -> Cells:
        """The positions of the keys."""
        return Cells(self.raw, self.data, self.key_starts, self.key_ends, flat_decoder(self.executor))

    @property
    def values(self) -> Cells:
        """The positions of the values."""
        return Cells(self.raw, self.data, self.value_starts, self.value_ends, flat_decoder(self.executor))

    def picked(self, rows: Flags) -> Run:
        """Return a run of some of the entries."""
        found = (self.key_groups, self.key_starts, self.key_ends, self.value_starts, self.value_ends)
        return Run(self.raw, self.data, self.executor, *(places[rows] for places in found))

    def item(self, row: int) -> tuple[bytes, bytes]:
        """Return one entry as key bytes and value bytes."""
        key = self.raw[self.key_starts[row] : self.key_ends[row]]
        return key, self.raw[self.value_starts[row] : self.value_ends[row]]


def runs_of(blocks: Iterable[Block], executor: ExecutorName) -> Iterator[Run]:
    """Yield runs of the blocks of one state; an oversized value is refused, as in `Block.items`."""
    for some in in_batches(blocks, _run_bytes, RUN_BYTES):
        yield Run.of(some, executor)


def _run_bytes(block: Block) -> int:
    block.refuse_oversized()
    return max(len(block.data), _LEAST_BYTES * block.entries)
