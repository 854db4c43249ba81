"""Assembled op lists, as executors run them: one list of numbers, with constants beside it."""

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
    ops.TO_BIG: (0,), ops.TO_UTF8: (0, 2), ops.FROM_UTF8: (0, 2), ops.TO_ROW: (0,),
}  # fmt: skip
"""Op -> indices of the operands that are registers whose offset it reads."""
_ENTRY_BYTES = 9
_MOST_GROWTH = 4
_LONGEST_NUMBER, _LONGEST_PRODUCT, _LONGEST_BIG = 5, 10, 12


class Label:
    """A jump target whose index in the list is not known yet."""


Op = tuple[object, ...]
"""An op and its operands; an operand may be a `Label` (a jump target) or a tuple (a table)."""


@attrs.frozen
class Program:
    """An op list with its tables and constants.

    Attributes:
        code: The ops, followed by tables of numbers.
        constants: The bytes of constants.
        registers: The number of registers.
        growth: The most bytes by which a new value can be longer than the old one, apart from its lists.
        fixed: The total of the bytes written by the ops that do not check for space, each op counted once.
    """

    code: tuple[int, ...]
    constants: bytes = attrs.field(repr=False)
    registers: int
    growth: int
    fixed: int

    def ops(self) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Yield the index, the op, and the operands of each op."""
        at = 0
        while (op := self.code[at]) != ops.TABLES:
            following = at + 1 + ops.OPERANDS[op]
            yield at, op, self.code[at + 1 : following]
            at = following

    def capacity(self, size: int) -> int:
        """Return the buffer size for the new entries of a block of `size` bytes; lists may need more."""
        return size + min(self.growth * (size // _ENTRY_BYTES + 1), _MOST_GROWTH * size + 4096) + self.fixed


def assembled(listed: list[Op | Label], constants: bytes, registers: int) -> Program:
    """Return the program: unread `NOTE` ops are dropped, labels and tables become numbers."""
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
    """Return the registers whose offsets are read."""
    return {
        op[1 + index] for op in listed if isinstance(op, tuple) for index in _READ_REGISTERS.get(op[0], ())  # type: ignore[call-overload]
    }  # fmt: skip


def _needed(listed: list[Op | Label]) -> list[Op | Label]:
    """Return the ops without `NOTE` ops whose register is never read."""
    read = registers_read(listed)
    return [op for op in listed if not (isinstance(op, tuple) and op[0] == ops.NOTE and op[1] not in read)]


def _growth(op: Op) -> int:
    """Return the most bytes that an op can write beyond those of the old value that it replaces."""
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
        case (ops.TO_ROW, _, _, _, int(more)):
            return max(more, 0)
    return 0


def _fixed(op: Op) -> int:
    """Return the number of bytes that an op writes without checking for space."""
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
