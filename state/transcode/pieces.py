"""What a new value is put together from: pieces of the old one, constants, numbers made wider; neighbours joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.recipe import Constant
from . import ops

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...serializers.recipe import Counted, Sorted, VarCounted
    from .program import Op


@attrs.frozen
class Place:
    """A place in the old bytes: so many behind the one that a register holds."""

    register: int
    behind: int = 0

    def later(self, size: int) -> Place:
        """Give the place so many bytes behind this one."""
        return Place(self.register, self.behind + size)


@attrs.frozen
class Copied:
    """What lies between two places.

    Attributes:
        first: Where it begins.
        last: Where it ends.
        known: Its bytes, where they were seen to be these; None where they may be any.
    """

    first: Place
    last: Place
    known: bytes | None = None

    @property
    def size(self) -> int | None:
        """How many bytes; None where only the old value tells."""
        return self.last.behind - self.first.behind if self.first.register == self.last.register else None

    @property
    def is_small(self) -> bool:
        """Whether one op of one move writes it."""
        return self.size is not None and self.size <= ops.WORD


@attrs.frozen
class Wider:
    """A signed number with `more` bytes of its sign before it, and what is copied from behind it."""

    more: int
    copied: Copied


@attrs.frozen
class Made:
    """What an emit op writes by itself."""

    op: Op


@attrs.frozen
class Choice:
    """What is written where a test, an op that lacks its target, jumps, and where it does not."""

    test: Op
    there: tuple[Item, ...]
    otherwise: tuple[Item, ...]


@attrs.frozen
class Again:
    """Items that do not stay: they are gone through a second time, from a place on."""

    start: Place
    recipe: Counted | VarCounted | Sorted


Item = Copied | Wider | Constant | Made | Choice | Again


def joined(items: Iterable[Item]) -> Iterator[Item]:
    """Join neighbours that one op can write."""
    before: Item | None = None
    for item in items:
        both = None if before is None else _both(before, item)
        if both is None and before is not None:
            yield before
        before = both or item
    if before is not None:
        yield before


def _both(before: Item, item: Item) -> Item | None:
    """Give what is two items, one behind the other; None where nothing is."""
    match before, item:
        case Copied(first, end, known), Copied(start, last, more) if end == start:
            return Copied(first, last, None if known is None or more is None else known + more)
        case Wider(more, Copied() as copied), Copied() if (both := _both(copied, item)) is not None:
            return Wider(more, both) if isinstance(both, Copied) and both.is_small else None
        case ((Constant(data) | Copied(known=bytes(data))), (Constant(more) | Copied(known=bytes(more)))):
            return Constant(data + more)
    return None
