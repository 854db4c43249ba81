"""Where key groups lie in a canonical stream, and what is read of them at once."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import attrs

from ...serializers.errors import CorruptSavepoint, located
from .blocks import BlockWalker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..transcode.choice import ExecutorName
    from .blocks import Block
    from .handles import KeyedHandle
    from .sources import ByteSource

OVERLAP_BYTES = 1 << 12
"""A piece of a longer one has so many bytes before it: few entries that go on in the next piece are longer."""


class Extent(NamedTuple):
    """The bytes of one key group: which, and from where to where. A stream may have 32,768, so it is a tuple."""

    key_group: int
    start: int
    end: int

    def blocks(self, pieces: Iterator[memoryview], states: int, executor: ExecutorName) -> Iterator[Block]:
        """Give the blocks of the key group.

        Args:
            pieces: Its bytes, each piece with some of those before it.
            states: How many states the header has.
            executor: Who finds the entries.
        """
        size = self.end - self.start
        return walked(self, BlockWalker(self.key_group, states, pieces, size, OVERLAP_BYTES, executor))


@attrs.frozen
class Stretch:
    """Whole key groups that lie one behind the other, as they are stored.

    Attributes:
        extents: Theirs.
        data: Their bytes, in memory that may be written and that nobody else has.
        states: How many states the header has.
        executor: Who goes through them.
    """

    extents: tuple[Extent, ...]
    data: memoryview = attrs.field(repr=False)
    states: int
    executor: ExecutorName

    @property
    def key_groups(self) -> list[int]:
        """Which they are."""
        return [extent.key_group for extent in self.extents]

    @property
    def begins(self) -> list[int]:
        """Where each key group begins in the data."""
        first = self.extents[0].start
        return [extent.start - first for extent in self.extents]

    def blocks(self) -> Iterator[Block]:
        """Give their blocks, which are views of the data; errors as of `KeyedReader.blocks`."""
        edges = [*self.begins, len(self.data)]
        for extent, (begin, end) in zip(self.extents, pairwise(edges), strict=True):
            yield from extent.blocks(iter((self.data[begin:end],)), self.states, self.executor)


def extents(source: ByteSource, handle: KeyedHandle) -> Iterator[Extent]:
    """Find where each key group that has bytes begins and ends, ascending."""
    filled = [(group, offset) for group, offset in zip(handle.key_groups, handle.offsets, strict=True) if offset]
    starts = sorted({offset for _, offset in filled})
    if len(starts) < len(filled):
        raise CorruptSavepoint("two key groups are said to begin at the same byte", offset=starts[-1])
    if starts and starts[-1] >= source.size:
        raise CorruptSavepoint(
            f"a key group is said to begin at byte {starts[-1]} of {source.size}", offset=source.size
        )
    ends = dict(pairwise([*starts, source.size]))
    for group, offset in filled:
        yield Extent(group, offset, ends[offset])


def walked(extent: Extent, walker: BlockWalker) -> Iterator[Block]:
    """Give the blocks of a key group; what is damaged is told with its place."""
    with located(offset=extent.start):
        yield from walker.blocks()


def runs_of(extents: list[Extent], most_bytes: int) -> Iterator[list[Extent]]:
    """Join neighbours to runs of at most so many bytes; a key group that is longer is a run of its own."""
    run: list[Extent] = []
    for extent in extents:
        if run and (extent.start != run[-1].end or extent.end - run[0].start > most_bytes):
            yield run
            run = []
        run.append(extent)
    if run:
        yield run


def pieces_of(run: list[Extent], most_bytes: int) -> list[tuple[int, int]]:
    """Give offset and size of what a run is read in; only that of one long key group is read in several pieces."""
    start, end = run[0].start, run[-1].end
    count = -(-(end - start) // most_bytes)
    size = -(-(end - start) // count)  # about the same for all
    return [(at, min(size, end - at)) for at in range(start, end, size)]
