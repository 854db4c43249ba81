"""The pieces that a new value is written from: parts of the old one, constants, widened numbers; neighbours joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.rewrite import Constant
from . import ops

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...serializers.rewrite import Counted, Sorted, VarCounted
    from .program import Op


@attrs.frozen
class Place:
    """A place in the old bytes: `behind` bytes after the offset in a register."""

    register: int
    behind: int = 0

    def later(self, size: int) -> Place:
        """Return the place `size` bytes after this one."""
        return Place(self.register, self.behind + size)


@attrs.frozen
class Copied:
    """The old bytes between two places.

    Attributes:
        first: Their start.
        last: Their end.
        known: The bytes, if the parse ops accept no others; else None.
    """

    first: Place
    last: Place
    known: bytes | None = None

    @property
    def size(self) -> int | None:
        """The number of bytes; None if it depends on the old value."""
        return self.last.behind - self.first.behind if self.first.register == self.last.register else None

    @property
    def is_small(self) -> bool:
        """Whether one `PIECE` op can copy it."""
        return self.size is not None and self.size <= ops.WORD


@attrs.frozen
class Wider:
    """A signed number extended by `more` sign bytes, with the bytes that are copied after it."""

    more: int
    copied: Copied


@attrs.frozen
class Made:
    """The output of a single emit op."""

    op: Op


@attrs.frozen
class Choice:
    """A choice by a test, an op without its target: `there` is written if it jumps, else `otherwise`."""

    test: Op
    there: tuple[Item, ...]
    otherwise: tuple[Item, ...]


@attrs.frozen
class Again:
    """Repeated items whose bytes change: they are parsed a second time from `start` on, to write them."""

    start: Place
    rewrite: Counted | VarCounted | Sorted


Item = Copied | Wider | Constant | Made | Choice | Again


def joined(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items, with neighbours joined that one op can write."""
    before: Item | None = None
    for item in items:
        both = None if before is None else _both(before, item)
        if both is None and before is not None:
            yield before
        before = both or item
    if before is not None:
        yield before


def _both(before: Item, item: Item) -> Item | None:
    """Return two adjacent items as one; None if they cannot be joined."""
    match before, item:
        case Copied(first, end, known), Copied(start, last, more) if end == start:
            return Copied(first, last, None if known is None or more is None else known + more)
        case Wider(more, Copied() as copied), Copied() if (both := _both(copied, item)) is not None:
            return Wider(more, both) if isinstance(both, Copied) and both.is_small else None
        case ((Constant(data) | Copied(known=bytes(data))), (Constant(more) | Copied(known=bytes(more)))):
            return Constant(data + more)
    return None
