"""The builder of op lists: ops, labels, the current place in the old bytes, and fixed bytes skipped together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import ops
from .pieces import Copied, Place
from .program import Label, Program, assembled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .program import Op

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
