"""The transcoder of operator state by op lists: elements are framed as entries and rewritten in blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from .executors import make_executor
from .interpreter import ODD
from .transcoder import TranscodedElements

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .bad_values import BadValue
    from .choice import ExecutorName
    from .program import Program
    from .transcoder import ElementTranscoder

_BLOCK_BYTES = 1 << 22
_LARGEST_BYTES = 1 << 27
"""The largest element that op lists rewrite; the new one may be many times as long, and its size is an i32."""
_KEY = (1).to_bytes(4, "big") + b"\0"
"""The framed dummy key before each element."""
_HEAD_BYTES = len(_KEY) + 4


@attrs.frozen
class ElementBlocks:
    """A transcoder that rewrites elements by an op list.

    Attributes:
        objects: The transcoder of odd elements.
        program: The op list.
        executor: The name of the executor that runs it.
    """

    objects: ElementTranscoder
    program: Program
    executor: ExecutorName

    def transcode(self, elements: Sequence[bytes]) -> TranscodedElements:
        if max(map(len, elements), default=0) > _LARGEST_BYTES:
            return self.objects.transcode(elements)
        executor = make_executor(self.executor, self.program)
        found: list[bytes] = []
        aside: list[BadValue] = []
        for start, block in framed_elements(elements):
            place, at = start, 0
            while at < len(block):
                done = executor.rewrite(block, at)
                found += _elements(bytes(done.data))
                place, at = place + done.entries, done.stop
                if done.status == ODD:
                    slowly = self.objects.transcode([elements[place]])
                    found += slowly.elements
                    aside += slowly.quarantined
                    at += framed_size(elements[place])
                    place += 1
        return TranscodedElements(tuple(found), tuple(aside))


def framed_elements(elements: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of framed elements, a few megabytes each, with the index of each block's first element."""
    start, framed, size = 0, list[bytes](), 0
    for place, element in enumerate(elements, 1):
        framed += (_KEY, len(element).to_bytes(4, "big"), element)
        size += len(element)
        if size >= _BLOCK_BYTES or place == len(elements):
            yield start, b"".join(framed)
            start, framed, size = place, [], 0


def framed_size(element: bytes) -> int:
    """Return the size of an element with its frame."""
    return _HEAD_BYTES + len(element)


def _elements(block: bytes) -> Iterator[bytes]:
    """Yield the elements without their frames."""
    at = 0
    while at < len(block):
        start = at + _HEAD_BYTES
        at = start + int.from_bytes(block[start - 4 : start], "big")
        yield block[start:at]
