"""Op lists as executors take them: one list of numbers, with constants beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from . import ops

if TYPE_CHECKING:
    from collections.abc import Iterator

_READ_REGISTERS = {
    ops.COPY: (0, 2), ops.PIECE: (0,), ops.WIDEN: (0,), ops.FLOAT: (0,), ops.LOOK_UP: (0,), ops.VAR_LOOK_UP: (0,),
    ops.BITS: (0,), ops.TEST: (0,), ops.SEEK: (0,), ops.ASCEND: (0,), ops.APART: (0,),
    ops.VAR_TIMES: (0,), ops.VAR_FLOAT: (0,), ops.SIZE: (0,),
    ops.TO_BIG: (0,), ops.TO_UTF8: (0, 2), ops.FROM_UTF8: (0, 2),
}  # fmt: skip
"""By op: which of its operands are registers whose place was noted."""
_ENTRY_BYTES = 9
_MOST_GROWTH = 4
_LONGEST_NUMBER, _LONGEST_PRODUCT, _LONGEST_BIG = 5, 10, 12


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
        fixed: How many bytes ops write that do not look whether there is room, each of them once.
    """

    code: tuple[int, ...]
    constants: bytes = attrs.field(repr=False)
    registers: int
    growth: int
    fixed: int

    def ops(self) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Give each op with its place in the list and its operands."""
        at = 0
        while (op := self.code[at]) != ops.TABLES:
            following = at + 1 + ops.OPERANDS[op]
            yield at, op, self.code[at + 1 : following]
            at = following

    def room(self, size: int) -> int:
        """Bytes to hold ready for the new entries of a block of `size` bytes; lists may need more."""
        return size + min(self.growth * (size // _ENTRY_BYTES + 1), _MOST_GROWTH * size + 4096) + self.fixed


def assembled(listed: list[Op | Label], constants: bytes, registers: int) -> Program:
    """Drop the notes that nobody reads, and put numbers in place of labels and tables."""
    listed = _needed(listed)
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
    told = [op for op in listed if isinstance(op, tuple)]
    growth, fixed = sum(map(_growth, told)), sum(map(_fixed, told))
    return Program((*code, ops.TABLES, *numbers), constants, registers, growth, fixed)


def _number(operand: object, places: dict[Label, int], tables: dict[tuple[int, ...], int]) -> int:
    if isinstance(operand, Label):
        return places[operand]
    return tables[operand] if isinstance(operand, tuple) else int(operand)  # type: ignore[call-overload]


def registers_read(listed: list[Op | Label]) -> set[object]:
    """Give the registers whose places are read."""
    return {
        op[1 + index] for op in listed if isinstance(op, tuple) for index in _READ_REGISTERS.get(op[0], ())  # type: ignore[call-overload]
    }  # fmt: skip


def _needed(listed: list[Op | Label]) -> list[Op | Label]:
    """Leave out notes that nobody reads."""
    read = registers_read(listed)
    return [op for op in listed if not (isinstance(op, tuple) and op[0] == ops.NOTE and op[1] not in read)]


def _growth(op: Op) -> int:
    """How many bytes an op can write beyond those of the old value that it stands for."""
    match op:
        case (ops.CONSTANT, _, int(size)):
            return size
        case (ops.WIDEN, _, _, int(more), _):
            return more
        case (ops.FLOAT, _, _, int(old), int(new)):
            return max(new - old, 0)
        case (ops.BITS, _, _, _, int(count)):
            return -(-count // 8)
        case (ops.VAR_LOOK_UP, *_):
            return _LONGEST_NUMBER - 1
        case (ops.TO_BIG, _, _, int(size)):
            return _LONGEST_BIG - size
        case (ops.VAR_TIMES, *_):
            return _LONGEST_PRODUCT - 1
        case (ops.VAR_FLOAT, _, _, _, int(size)):
            return size - 1
    return 0


def _fixed(op: Op) -> int:
    """How many bytes an op writes that does not look whether there is room."""
    match op:
        case (ops.CONSTANT, _, int(size)) | (ops.PIECE, _, _, int(size)) | (ops.FLOAT, _, _, _, int(size)):
            return size
        case (ops.WIDEN, _, _, int(more), int(size)):
            return more + size
        case (ops.BITS, _, _, _, int(count)):
            return -(-count // 8)
        case (ops.LOOK_UP | ops.KEY_END, *_):
            return 4
        case (ops.VAR_LOOK_UP, *_):
            return _LONGEST_NUMBER
        case (ops.TO_BIG, *_):
            return _LONGEST_BIG
        case (ops.VAR_TIMES, *_):
            return _LONGEST_PRODUCT
        case (ops.VAR_FLOAT, _, _, _, int(size)):
            return size
        case (ops.AGAIN, *_):
            return 1
    return 0
