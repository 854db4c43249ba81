"""Op lists carried out for many entries together: each op goes on with all that are awake, or says what is written.

Where all entries take the same way at a jump, it is taken; else those that jump sleep until the place. What a column
cannot tell of an entry (a long number, a text of other characters than ASCII, unless it is asked to take care) makes
the entry unsound: plain Python then tells of that entry alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import columns, ops
from .row_output import Output, Stencils
from .row_texts import long_sizes, numbers_of, text_ends, var_text_ends
from .rows import WINDOW_BYTES, Rows, Spot

if TYPE_CHECKING:
    from collections.abc import Callable

    from .columns import Column
    from .program import Program

_ENDED = 1 << 40
_EXPONENT, _MANTISSA = 0x7F800000, 0x7FFFFF
_LONGEST_NUMBERS = {32: 5, 64: 8}
_DAYS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_PEEKED = 2
_SIZED = {ops.RANGE, ops.FIXED, ops.SKIP}
_TEXTS = {ops.TEXT, ops.MAYBE_TEXT, ops.VAR_TEXT, ops.MAYBE_VAR_TEXT}
_BY_DATA = {*_TEXTS, ops.BLOB, ops.VARINT, ops.VAR_RANGE, ops.VAR_BLOB, ops.VAR_LOOKED_UP, ops.REST, ops.END}
_FIXED_SIZES = {ops.DATE: 6, ops.NUMBER: 4, ops.LITTLE: 4, ops.LOOKED_UP: 4}


def can_run(program: Program) -> bool:
    """Whether all ops of a list can be carried out for many entries together."""
    return all(op in STEPS for _, op, _ in program.ops())


class RowProgram:
    """An op list, as it is carried out here."""

    def __init__(self, program: Program) -> None:
        self.constants = np.frombuffer(program.constants, np.uint8)
        self.numbers = np.array(program.code, np.int64)
        self.stencils = Stencils()
        self.listed = list(program.ops())
        self.places = {place: index for index, (place, _, _) in enumerate(self.listed)}
        self.ahead = _ahead(self.listed)
        self.has_texts = any(op in _TEXTS for _, op, _ in self.listed)
        self.reach = columns.PADDING + WINDOW_BYTES + sum(map(_size, self.listed))

    def run(self, rows: Rows, *, careful: bool) -> Output:
        """Carry it out; the rows tell then which entries are sound.

        Args:
            rows: At the beginning of their values.
            careful: Whether texts may have any characters; if not, they are looked at when they are copied.
        """
        state = _Run(self, rows, careful=careful)
        index = 0
        with np.errstate(invalid="ignore"):  # what is no number is no entry's: it is odd
            while index < len(self.listed):
                place, op, operands = self.listed[index]
                rows.ahead = self.ahead[index]
                index = state.step(index, place, op, operands)
        rows.awake = None
        rows.prove()
        state.output.look_at_texts()
        return state.output


def _size(listed: tuple[int, int, tuple[int, ...]]) -> int:
    """How many bytes an op passes at most, where its number tells."""
    _, op, operands = listed
    if op in _SIZED:
        return operands[0]
    if op in (ops.MAYBE, ops.BRANCH):
        return 1 + operands[0 if op == ops.MAYBE else 2]
    return _FIXED_SIZES.get(op, 0)


def _ahead(listed: list[tuple[int, int, tuple[int, ...]]]) -> list[int]:
    """For each op, how many bytes follow up to one that goes by the data."""
    ahead, left = [], 0
    for one in reversed(listed):
        left = _PEEKED if one[1] in _BY_DATA else min(left + _size(one), WINDOW_BYTES)
        ahead.append(left)
    return ahead[::-1]


class _Run:
    """The state of a run of an op list."""

    def __init__(self, program: RowProgram, rows: Rows, *, careful: bool) -> None:
        self._program, self._rows, self._careful = program, rows, careful
        self._registers = {ops.VALUE: rows.now}
        self._wakes: Column | None = None
        self._jumps_to: int | None = None
        self.output = Output(rows, program.stencils)

    def step(self, index: int, place: int, op: int, operands: tuple[int, ...]) -> int:
        """Carry out an op; give the number of the next."""
        if self._wakes is not None:
            awake = self._wakes <= place
            self._rows.awake = None if awake.all() else awake
            if self._rows.awake is None:
                self._wakes = None
            elif not awake.any():
                return index + 1
        self._jumps_to = None
        STEPS[op](self, *operands)
        if self._jumps_to is None:
            return index + 1
        return self._program.places.get(self._jumps_to, len(self._program.listed))

    def _jump(self, chosen: Column | None, target: int) -> None:
        """Let entries go on at a place in the op list; None: all."""
        awake = np.ones(len(self._rows), bool) if self._rows.awake is None else self._rows.awake
        jumping = awake if chosen is None else chosen & awake
        if self._rows.awake is None and jumping.all():
            self._jumps_to = target
        elif jumping.any():
            wakes = np.zeros(len(self._rows), np.int64) if self._wakes is None else self._wakes
            self._wakes = np.where(jumping, target, wakes)

    def _spot(self, register: int, behind: int) -> Spot:
        return self._registers.get(register, Spot(0, 0)).moved(behind)

    def note(self, register: int) -> None:
        self._registers[register] = self._rows.now

    def skip(self, size: int) -> None:
        self._rows.step(size)

    def likely(self, size: int, place: int, target: int) -> None:
        """Go on: to look at what follows costs columns no more."""

    def fixed(self, size: int, place: int) -> None:
        told = min(size, ops.WORD)
        middle = place + ops.WORD
        self._rows.expect(told, self._program.constants[place:middle], self._program.constants[middle:])
        self._rows.step(size)

    def maybe(self, size: int, bits: int, register: int) -> None:
        rows = self._rows
        flag = rows.byte(rows.now)
        is_there = flag == 0
        if bits:
            rows.decline(is_there & (rows.byte(rows.now.moved(1)) & bits != 0))
        if is_there.all():
            rows.step(1 + size)
        else:
            rows.decline(flag > 1)
            rows.go(rows.at(rows.now.moved(1)) + size * is_there)
        self.note(register)

    def text(self, register: int) -> None:
        self._text(register, may_be_null=False)

    def maybe_text(self, register: int) -> None:
        self._text(register, may_be_null=True)

    def _text(self, register: int, *, may_be_null: bool) -> None:
        first = self._rows.now
        ends, is_ascii = text_ends(self._rows, may_be_null=may_be_null, careful=self._careful)
        self._rows.go(ends)
        self.note(register)
        if not is_ascii:
            self.output.texts.append((first, self._rows.now))

    def blob(self, width: int, register: int) -> None:
        rows = self._rows
        at = rows.at(rows.now)
        size = rows.long(at) * width
        rows.decline((size < 0) | (size > rows.stops - at - 4))
        rows.go(at + 4 + np.maximum(size, 0))
        self.note(register)

    def range(self, size: int, low: int, high: int) -> None:
        number = self._rows.numbers(self._rows.now, f">i{size}")
        self._rows.decline((number < low) | (number > high))
        self._rows.step(size)

    def number(self) -> None:
        self._single(">i4")

    def little(self) -> None:
        self._single("<i4")

    def _single(self, dtype: str) -> None:
        bits = self._rows.numbers(self._rows.now, dtype)
        self._rows.decline((bits & _EXPONENT == _EXPONENT) & (bits & _MANTISSA != 0))
        self._rows.step(4)

    def date(self) -> None:
        rows = self._rows
        year = rows.numbers(rows.now, ">i4")
        month, day = (rows.numbers(rows.now.moved(behind), "i1") for behind in (4, 5))
        is_month = (month >= 1) & (month <= 12)
        is_leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
        days = _DAYS[np.where(is_month, month, 0)] + ((month == 2) & is_leap)
        rows.decline(~is_month | (abs(year) > 999_999_999) | (day < 1) | (day > days))
        rows.step(6)

    def branch(self, byte: int, other: int, size: int, target: int) -> None:
        rows = self._rows
        flag = rows.byte(rows.now)
        chosen = flag == byte
        rows.decline(~chosen & (flag != other))
        if chosen.all():
            rows.step(1 + size)
        elif not size or not chosen.any():
            rows.step(1)
        else:
            rows.go(rows.at(rows.now.moved(1)) + size * chosen)
        self._jump(chosen, target)

    def jump(self, target: int) -> None:
        self._jump(None, target)

    def test(self, register: int, behind: int, mask: int, byte: int, target: int) -> None:
        self._jump(self._rows.byte(self._spot(register, behind)) & mask == byte, target)

    def rest(self) -> None:
        self._rows.go(self._rows.stops)

    def end(self) -> None:
        self._rows.decline(self._rows.at(self._rows.now) != self._rows.stops)
        self._jump(None, _ENDED)

    def looked_up(self, place: int, size: int) -> None:
        self._decline_untold(self._rows.numbers(self._rows.now, ">i4"), place, size)
        self._rows.step(4)

    def _decline_untold(self, number: Column, place: int, size: int) -> None:
        good = (number >= 0) & (number < size)
        self._rows.decline(~good | (self._program.numbers[place + np.where(good, number, 0)] < 0))

    def look_up(self, register: int, behind: int, place: int) -> None:
        number = self._rows.numbers(self._spot(register, behind), ">i4")
        numbers = self._program.numbers
        self.output.put(">i4", numbers[np.clip(place + number, 0, len(numbers) - 1)])

    def varint(self, bits: int, register: int) -> None:
        self._varint(self._rows.words(self._rows.now), bits, register)

    def var_range(self, bits: int, low: int, high: int, register: int) -> None:
        words = self._rows.words(self._rows.now)
        number = numbers_of(words)
        self._rows.decline((number < low) | (number > high))
        self._varint(words, bits, register)

    def _varint(self, words: Column, bits: int, register: int) -> None:
        rows = self._rows
        sizes, last = long_sizes(words)
        longest = _LONGEST_NUMBERS[bits]
        bad = (sizes > longest) | ((sizes > 1) & (last == 0))
        rows.decline(bad if bits > 32 else bad | ((sizes == longest) & (last > 15)))
        rows.go(rows.at(rows.now) + sizes)
        self.note(register)

    def var_text(self, register: int) -> None:
        self._var_text(register, null=None)

    def maybe_var_text(self, null: int, register: int) -> None:
        self._var_text(register, null=null)

    def _var_text(self, register: int, *, null: int | None) -> None:
        first = self._rows.now
        ends, is_ascii = var_text_ends(self._rows, careful=self._careful, null=null)
        self._rows.go(ends)
        self.note(register)
        if not is_ascii:
            self.output.texts.append((first, self._rows.now))

    def var_blob(self, register: int) -> None:
        self._rows.go(var_text_ends(self._rows, careful=None)[0])
        self.note(register)

    def var_looked_up(self, place: int, size: int, register: int) -> None:
        number = self._rows.byte(self._rows.now).astype(np.int64)
        self._rows.decline((number >= 0x80) | (number & 1 != 0))
        self._decline_untold(number >> 1, place, size)
        self._rows.step(1)
        self.note(register)

    def var_look_up(self, register: int, behind: int, place: int) -> None:
        numbers = self._program.numbers
        number = self._rows.byte(self._spot(register, behind)).astype(np.int64) >> 1
        found = numbers[np.minimum(place + number, len(numbers) - 1)]
        self._rows.decline(found >= 0x40)
        self.output.put("u1", found << 1)

    def bits(self, register: int, behind: int, place: int, count: int) -> None:
        table = self._program.numbers[place : place + count].tolist()
        for first in range(0, count, 8):
            byte = np.zeros(len(self._rows), np.uint8)
            for index, bit in enumerate(table[first : first + 8]):
                if bit >= 0:
                    found = self._rows.byte(self._spot(register, behind + (bit >> 3)))
                    byte |= (found >> (7 - (bit & 7)) & 1) << (7 - index)
                else:
                    byte |= np.uint8((-1 - bit) << (7 - index))
            self.output.put("u1", byte)

    def copy(self, first: int, behind: int, last: int, more: int) -> None:
        self.output.copy(self._spot(first, behind), self._spot(last, more))

    def piece(self, register: int, behind: int, size: int) -> None:
        self.output.piece(self._spot(register, behind), size)

    def constant(self, place: int, size: int) -> None:
        self.output.constant(self._program.constants[place : place + size].tobytes())

    def widen(self, register: int, behind: int, more: int, size: int) -> None:
        spot = self._spot(register, behind)
        self.output.sign(spot, more)
        self.output.piece(spot, size)

    def float(self, register: int, behind: int, old: int, new: int) -> None:
        numbers = self._rows.numbers(self._spot(register, behind), f">i{old}" if old else ">f4")
        self.output.put(f">f{new}", numbers.astype(np.float64))

    def var_float(self, register: int, behind: int, bits: int, size: int) -> None:
        spot = self._spot(register, behind)
        numbers = numbers_of(self._rows.words(spot)) if bits else self._rows.numbers(spot, "<f4")
        self.output.put(f"<f{size}", numbers.astype(np.float64))


STEPS: dict[int, Callable[..., None]] = {
    getattr(ops, name.upper()): method
    for name, method in vars(_Run).items()
    if not name.startswith("_") and hasattr(ops, name.upper())
}
"""By op: what carries it out."""
