"""The byte ranges of key groups in a canonical stream, and the ranges that are read at once."""

from __future__ import annotations

from itertools import compress, pairwise
from typing import TYPE_CHECKING, NamedTuple

import attrs

from ....serializers.errors import CorruptSavepoint, located
from .blocks import BlockWalker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...transcode.executor_choice import ExecutorName
    from .blocks import Block
    from .handles import KeyGroupsHandle
    from .sources import ByteSource

OVERLAP_BYTES = 1 << 12
"""The number of preceding bytes that a piece of a long key group repeats: few entries across pieces are longer."""


class Extent(NamedTuple):
    """The byte range of one key group. It is a tuple, because a stream may have 32,768 of them."""

    key_group: int
    start: int
    end: int

    def blocks(self, pieces: Iterator[memoryview], states: int, executor: ExecutorName) -> Iterator[Block]:
        """Yield the blocks of the key group.

        Args:
            pieces: The bytes of the key group; each piece repeats up to `OVERLAP_BYTES` preceding bytes.
            states: The number of states in the header.
            executor: The executor that finds the entries.
        """
        size = self.end - self.start
        return walked(self, BlockWalker(self.key_group, states, pieces, size, OVERLAP_BYTES, executor))


@attrs.frozen
class KeyGroupRange:
    """Whole key groups that are adjacent in the stream, as they are stored.

    Attributes:
        extents: The byte ranges of the key groups.
        data: The bytes of the key groups, in writable memory that is not shared.
        states: The number of states in the header.
        executor: The executor that finds the entries.
    """

    extents: tuple[Extent, ...]
    data: memoryview = attrs.field(repr=False)
    states: int
    executor: ExecutorName

    @property
    def key_groups(self) -> list[int]:
        """The key groups."""
        return [extent.key_group for extent in self.extents]

    @property
    def begins(self) -> list[int]:
        """The position of each key group in the data."""
        first = self.extents[0].start
        return [extent.start - first for extent in self.extents]

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of the key groups, which are views of the data; raises as `KeyedReader.blocks`."""
        edges = [*self.begins, len(self.data)]
        for extent, (begin, end) in zip(self.extents, pairwise(edges), strict=True):
            yield from extent.blocks(iter((self.data[begin:end],)), self.states, self.executor)


def extents(source: ByteSource, handle: KeyGroupsHandle) -> Iterator[Extent]:
    """Yield the byte range of each key group that is not empty, ascending by key group."""
    groups, offsets = [*compress(handle.key_groups, handle.offsets)], [*filter(None, handle.offsets)]
    starts = sorted({*offsets})
    if len(starts) < len(offsets):
        raise CorruptSavepoint("two key groups are listed with the same offset", offset=starts[-1])
    if starts and starts[-1] >= source.size:
        raise CorruptSavepoint(f"a key group is listed at byte {starts[-1]} of {source.size}", offset=source.size)
    ends = [*starts[1:], source.size]
    if starts != offsets:
        ends = [*map(dict(zip(starts, ends, strict=True)).__getitem__, offsets)]
    yield from map(Extent, groups, offsets, ends)


def walked(extent: Extent, walker: BlockWalker) -> Iterator[Block]:
    """Yield the blocks of a key group; errors get the offset of the key group."""
    with located(offset=extent.start):
        yield from walker.blocks()


def runs_of(extents: list[Extent], most_bytes: int) -> Iterator[list[Extent]]:
    """Yield runs of adjacent key groups of at most `most_bytes` bytes; a longer key group is a run of its own."""
    run: list[Extent] = []
    for extent in extents:
        if run and (extent.start != run[-1].end or extent.end - run[0].start > most_bytes):
            yield run
            run = []
        run.append(extent)
    if run:
        yield run


def pieces_of(run: list[Extent], most_bytes: int) -> list[tuple[int, int]]:
    """Return offset and size of the pieces in which a run is read: several for a long key group, else one."""
    start, end = run[0].start, run[-1].end
    count = -(-(end - start) // most_bytes)
    size = -(-(end - start) // count)  # the pieces have about the same size
    return [(at, min(size, end - at)) for at in range(start, end, size)]
