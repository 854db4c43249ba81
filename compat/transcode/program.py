"""Op lists as executors take them: one list of numbers, with constants beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from . import ops

if TYPE_CHECKING:
    from collections.abc import Iterator

_READ_REGISTERS = {
    ops.COPY: (0, 1), ops.WIDEN: (0,), ops.FLOAT: (0,), ops.LOOK_UP: (0,), ops.TEST: (0,), ops.SEEK: (0,),
    ops.APART: (0,), ops.MASKED: (0,), ops.BITS: (0,),
    ops.VAR_LOOK_UP: (0,),     ops.ASCEND: (0,),
}  # fmt: skip
"""By op: which of its operands are registers whose place was noted."""
_ENTRY_BYTES = 9
_MOST_GROWTH = 4


class Label:
    """A place in the list that is not known yet."""


Op = tuple[object, ...]
"""An op and its operands; a `Label` alone marks a place, a tuple among the operands is a table."""


@attrs.frozen
class Program:
    """An op list with what it refers to.

    Attributes:
        code: The ops; tables of numbers stand behind them.
        constants: Bytes of constants.
        registers: How many there are.
        growth: How many bytes longer than the old value a new one can be, outside of its lists.
    """

    code: tuple[int, ...]
    constants: bytes = attrs.field(repr=False)
    registers: int
    growth: int

    def ops(self) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Give each op with its place in the list and its operands."""
        at = 0
        while (op := self.code[at]) != ops.TABLES:
            following = at + 1 + ops.OPERANDS[op]
            yield at, op, self.code[at + 1 : following]
            at = following

    def room(self, size: int) -> int:
        """Bytes to hold ready for the new entries of a block of `size` bytes; lists may need more."""
        return size + min(self.growth * (size // _ENTRY_BYTES + 1), _MOST_GROWTH * size + 4096)


def assembled(listed: list[Op | Label], constants: bytes, registers: int) -> Program:
    """Drop the notes that nobody reads, join what belongs together, and put numbers in place of labels and tables."""
    listed = list(_fused(_needed(listed)))
    places: dict[Label, int] = {}
    tables: dict[tuple[int, ...], int] = {}
    size = 0
    for op in listed:
        if isinstance(op, Label):
            places[op] = size
        else:
            size += len(op)
    code: list[int] = []
    numbers: list[int] = []
    for op in (op for op in listed if isinstance(op, tuple)):
        for operand in op:
            if isinstance(operand, tuple) and operand not in tables:
                tables[operand] = size + 1 + len(numbers)
                numbers += operand
            code.append(_number(operand, places, tables))
    growth = sum(_growth(op) for op in listed if isinstance(op, tuple))
    return Program((*code, ops.TABLES, *numbers), constants, registers, growth)


def _number(operand: object, places: dict[Label, int], tables: dict[tuple[int, ...], int]) -> int:
    if isinstance(operand, Label):
        return places[operand]
    return tables[operand] if isinstance(operand, tuple) else int(operand)  # type: ignore[call-overload]


def _needed(listed: list[Op | Label]) -> list[Op | Label]:
    """Leave out notes that nobody reads."""
    read = {
        op[1 + index] for op in listed if isinstance(op, tuple) for index in _READ_REGISTERS.get(op[0], ())  # type: ignore[call-overload]
    }  # fmt: skip
    return [op for op in listed if not (isinstance(op, tuple) and op[0] == ops.NOTE and op[1] not in read)]


def _fused(listed: list[Op | Label]) -> Iterator[Op | Label]:
    """Join bytes that are passed one after the other."""
    before: Op | Label | None = None
    for op in listed:
        match before, op:
            case (ops.SKIP | ops.PRESENT as kind, int(size)), (ops.SKIP, int(more)):
                before = (kind, size + more)
                continue
            case (ops.EXPECT, 0), (ops.SKIP, size):
                before = (ops.PRESENT, size)
                continue
        if before is not None:
            yield before
        before = op
    if before is not None:
        yield before


def _growth(op: Op) -> int:
    match op:
        case (ops.CONSTANT, _, int(size)):
            return size
        case (ops.WIDEN | ops.FLOAT, _, int(old), int(new)):
            return max(new - old, 0)
        case (ops.BITS, _, _, int(count)):
            return -(-count // 8)
        case (ops.COPY, *_):
            return 0
    return 0
