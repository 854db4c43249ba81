"""The pieces that a new value is written from, and the builder of op lists that notes their places.

A piece is a part of the old value, a constant, or a widened number; neighbours are joined. The builder has the ops,
labels and the current place in the old bytes; fixed bytes are skipped together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...serializers.rewrite import Constant
from . import ops
from .program import Label, Program, assembled

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


NOT_BOOLEAN = 0xFE
"""The bits that are clear in a boolean byte."""


class _Fixed:
    """A sequence of bytes of known size that are skipped together."""

    def __init__(self) -> None:
        self._mask, self._value = bytearray(), bytearray()

    def add(self, mask: bytes, value: bytes) -> None:
        """Append bytes that must equal `value` under a mask."""
        self._mask += mask
        self._value += value

    def words(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number of bytes to skip, with mask and value of one word for the first of them; b"" for none."""
        size, told = 0, b""
        for at in range(0, len(self._mask), ops.WORD):
            mask, value = (bytes(part[at : at + ops.WORD]) for part in (self._mask, self._value))
            if any(mask):
                if size:
                    yield size, told
                size, told = 0, mask.ljust(ops.WORD, b"\0") + value.ljust(ops.WORD, b"\0")
            size += len(mask)
        if size:
            yield size, told


class Listing:
    """A builder of an op list, with labels and a `NOTE` op for each place that might be needed."""

    def __init__(self) -> None:
        self._ops: list[Op | Label] = []
        self._constants = bytearray()
        self._registers = 1
        self._place: Place | None = Place(ops.VALUE)
        self._fixed = _Fixed()

    def op(self, *op: object) -> None:
        """Append an op with its operands."""
        self._pass_fixed()
        self._ops.append(op)

    def op_of_size(self, size: int, *op: object) -> None:
        """Append an op that skips `size` bytes."""
        self._place = self.here().later(size)
        self.op(*op)

    def op_to_end(self, *op: object) -> None:
        """Append an op that notes its end in a new register, its last operand."""
        self._place = Place(self.register())
        self.op(*op, self._place.register)

    def branch(self, byte: int, other: int, size: int, target: Label) -> None:
        """Append an op that expects `byte` or `other`; after `byte` it skips `size` bytes more, and jumps."""
        self.op_of_size(1, ops.BRANCH, byte, other, size, target)

    def skip(self, size: int) -> None:
        """Skip `size` bytes."""
        self.go_over(bytes(size), bytes(size))

    def boolean(self) -> None:
        """Skip a byte that must be 0 or 1."""
        self.go_over(bytes([NOT_BOOLEAN]), b"\0")

    def expect(self, byte: int) -> Copied:
        """Skip a byte that must be `byte`; return it as a piece."""
        start, value = self.here(), bytes([byte])
        self.go_over(b"\xff", value)
        return Copied(start, self.here(), value)

    def go_over(self, mask: bytes, value: bytes) -> None:
        self._place = self.here().later(len(mask))
        self._fixed.add(mask, value)

    def _pass_fixed(self) -> None:
        """Append the ops that skip the pending fixed bytes."""
        fixed, self._fixed = self._fixed, _Fixed()
        for size, told in fixed.words():
            self._ops.append((ops.FIXED, size, self.constant(told)) if told else (ops.SKIP, size))

    def add(self, label: Label) -> None:
        """Append a label; the place in the old bytes is unknown after it, since jumps lead here."""
        self._pass_fixed()
        self._ops.append(label)
        self._place = None

    def register(self) -> int:
        self._registers += 1
        return self._registers - 1

    def here(self) -> Place:
        """Return the current place in the old bytes."""
        if self._place is None:
            self._place = Place(self.register())
            self.op(ops.NOTE, self._place.register)
        return self._place

    def constant(self, data: bytes) -> int:
        place = self._constants.find(data)
        if place < 0:
            place = len(self._constants)
            self._constants += data
        return place

    def program(self) -> Program:
        """Return the op list."""
        return assembled(self._ops, bytes(self._constants), self._registers)
