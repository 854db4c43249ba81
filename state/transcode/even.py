"""Many entries of one size at once: the op list of such values as moves from place to place.

Where an op list only passes over bytes, looks whether some are as expected, and puts pieces, constants and wider
numbers in a row, all places are known before. Then it is as good as a list of moves, each of 1, 2, 4 or 8 bytes from
one place of the old value to one of the new, and each move can be made for many entries in a row. Bytes that a value
ends with, and those that the next one begins with, lie around its key before and after: they are copied with it. That
takes keys of one size too; where they have many, and for the last few entries, the interpreter goes on. Of the speed
at which tuples of two numbers are migrated it gives a sixth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from . import ops
from .framed import alike, key_sums
from .memory import copy, load, matches, store, unlike

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .program import Program

_AT_ONCE_BYTES, _FEWEST = 12 << 10, 16  # with what is made of them, those bytes stay in the nearest cache
_LENGTH_BYTES, _MOVE_NUMBERS, _CHECK_NUMBERS = 4, 4, 2
_OLD_SIZE, _NEW_SIZE, _CHECKS, _MOVES, _LEAD, _TAIL, _FIRST = range(7)
"""What stands where in the numbers that `moves_of` gives; checks and moves come last."""
_WIDENED = {1: 1, 2: 2, 3: 1, 4: 4, 6: 2, 7: 1}
"""By the number of bytes that repeat a sign: how many of those behind them make a number of 2, 4 or 8 with them."""


@attrs.define
class _Moves:
    """The old value gone over so far, and the new one written so far.

    Attributes:
        at: Bytes of the old value that were passed.
        end: Bytes of the new one that are there.
        places: By register, the place of the old value that it holds.
        checks: Place of the old value, and of the constants, of what must be alike.
        moves: Place of the old value, bytes there, place of the new one, bytes there; of no bytes the number itself
            stands in the place's stead.
        copies: Place of the old value, place of the new one, and how many bytes are copied.
    """

    at: int = 0
    end: int = 0
    places: dict[int, int] = attrs.Factory(lambda: {ops.VALUE: 0})
    checks: list[int] = attrs.Factory(list)
    moves: list[int] = attrs.Factory(list)
    copies: list[tuple[int, int, int]] = attrs.Factory(list)

    def take(self, op: int, operands: tuple[int, ...], constants: bytes) -> bool:
        """Carry out an op; False where it is not one of moves alone."""
        match op, operands:
            case ops.NOTE, (register,):
                self.places[register] = self.at
            case ops.SKIP, (size,):
                self.at += size
            case ops.FIXED, (size, mask):
                self.checks += (self.at, mask)
                self.at += size
            case ops.PIECE, (register, offset, size):
                self._copy(self.places[register] + offset, size)
            case ops.COPY, (first, offset, last, behind):
                start = self.places[first] + offset
                self._copy(start, self.places[last] + behind - start)
            case ops.WIDEN, (register, offset, more, size) if (width := _WIDENED.get(more, size + 1)) <= size:
                start = self.places[register] + offset
                self.moves += (start, width, self.end, more + width)
                self.end += more + width
                self._copy(start + width, size - width)
            case ops.CONSTANT, (place, size):
                for at, width in _parts(size):
                    number = int.from_bytes(constants[place + at : place + at + width], "big", signed=True)
                    self.moves += (number, 0, self.end + at, width)
                self.end += size
            case _:
                return op == ops.END
        return True

    def _copy(self, start: int, size: int) -> None:
        if not size:
            return
        before, to, copied = self.copies.pop() if self.copies else (start, self.end, 0)
        if (before + copied, to + copied) == (start, self.end):
            self.copies.append((before, to, copied + size))
        else:
            self.copies += ((before, to, copied), (start, self.end, size))
        self.end += size

    def numbers(self) -> tuple[int, ...]:
        """Give all as `moves_of` does."""
        lead = tail = 0
        for start, to, size in self.copies:
            if start == to == 0:
                lead = size
            elif (start + size, to + size) == (self.at, self.end):
                tail = size
            else:
                for at, width in _parts(size):
                    self.moves += (start + at, width, to + at, width)
        sizes = len(self.checks) // _CHECK_NUMBERS, len(self.moves) // _MOVE_NUMBERS
        return (self.at, self.end, *sizes, lead, tail, *self.checks, *self.moves)


def moves_of(program: Program) -> tuple[int, ...]:
    """Give an op list as moves; of one that is more than moves, nothing.

    First come the sizes of the old and of the new value, the numbers of checks and of moves, and how many bytes both
    values begin with, and end with, that are alike; then the checks and the moves.
    """
    found = _Moves()
    if not all(found.take(op, operands, program.constants) for _, op, operands in program.ops()):
        return ()
    return found.numbers()


def _parts(size: int) -> Iterator[tuple[int, int]]:
    """Give bytes in parts of 8, 4, 2 or 1, each with its place; the last may have some of that before it."""
    width = next((width for width in (8, 4, 2) if width <= size), 1)
    for at in range(0, size, width):
        yield min(at, size - width), width


def rewrite_even(
    data: Any, start: int, most: int, moves: Any, constants: Any, target: Any, room: int, prefix: int,
    prefix_bytes: int, result: Any,
) -> None:  # fmt: skip
    """Rewrite entries as long as many of one size follow one another, are as expected, and have room.

    What was written is looked at: the keys must be there, and the lengths.

    Args:
        data: Entries.
        start: Where the first one begins.
        most: An entry that ends behind this place stops it.
        moves: As `moves_of` gives them.
        constants: Those of the op list.
        target: Takes the new entries.
        room: Bytes that it takes.
        prefix: How each key begins, as a number; another one stops it.
        prefix_bytes: How many bytes that are.
        result: As of the interpreter; behind it, where the last new entry begins.
    """
    at, written, entries, keys, last, count = start, 0, 0, 0, -1, _FEWEST
    mask = (1 << 8 * prefix_bytes) - 1
    while count >= _FEWEST and most - at >= 2 * _LENGTH_BYTES:
        key_size = load(data, at, 4)
        if key_size < prefix_bytes or key_size > most - at or load(data, at + prefix_bytes, 4) & mask != prefix:
            break
        head, value_size, new_value_size = _LENGTH_BYTES + key_size, moves[_OLD_SIZE], moves[_NEW_SIZE]
        if load(data, at + head, 4) != value_size:
            break
        old_size, new_size = head + _LENGTH_BYTES + value_size, head + _LENGTH_BYTES + new_value_size
        end = min(most, at + max(_AT_ONCE_BYTES // old_size, 2 * _FEWEST) * old_size)
        count = min(alike(data, at, at, end, key_size, value_size, prefix_bytes), max(room - written, 0) // new_size)
        count = _expected(data, at, moves, constants, old_size, count)
        _copy_around_keys(data, at, old_size, target, written, new_size, head, moves, count)
        value, new_value = at + head + _LENGTH_BYTES, written + head + _LENGTH_BYTES
        for move in range(moves[_MOVES]):
            place = _FIRST + moves[_CHECKS] * _CHECK_NUMBERS + move * _MOVE_NUMBERS
            _move(data, value, old_size, target, new_value, new_size, moves, place, count)
        if not _are_framed(data, at, old_size, target, written, new_size, head, new_value_size, count):
            break
        keys += key_sums(data, at, count, old_size, key_size)
        at += count * old_size
        written += count * new_size
        entries += count
        last = written - new_size if count > 0 else last
    result[0], result[1], result[2], result[3], result[4] = at, written, entries, keys, last


def _copy_around_keys(
    data: Any, at: int, old_size: int, target: Any, written: int, new_size: int, head: int, moves: Any, count: int
) -> None:
    """Copy the keys of so many entries, with what lies around them alike; and put the new lengths.

    Bytes behind may be spoilt: those that are moved, and what the next entry writes.
    """
    value_size, size, tail = moves[_NEW_SIZE], head + _LENGTH_BYTES + moves[_LEAD], moves[_TAIL]
    if count < 1:
        return
    copy(target, written, data, at, size)
    store(target, written + head, 4, value_size)
    for entry in range(1, count):
        to = written + entry * new_size
        copy(target, to - tail, data, at + entry * old_size - tail, tail + size)
        store(target, to + head, 4, value_size)
    if tail > 0:
        copy(target, written + count * new_size - tail, data, at + count * old_size - tail, tail)


def _are_framed(
    data: Any, at: int, old_size: int, target: Any, written: int, new_size: int, head: int, value_size: int, count: int
) -> bool:
    """Whether so many new entries have the keys of the old ones, and values of one size."""
    differs = 0
    if head <= ops.WORD:  # most keys
        for entry in range(count):
            old, new = at + entry * old_size, written + entry * new_size
            differs |= unlike(target, new, data, old, head, 0, 0) | (load(target, new + head, 4) ^ value_size)
        return differs == 0
    for entry in range(count):
        old, new = at + entry * old_size, written + entry * new_size
        differs |= load(target, new + head, 4) ^ value_size
        for place in range(0, head, ops.WORD):
            differs |= unlike(target, new + place, data, old + place, min(head - place, ops.WORD), 0, 0)
    return differs == 0


def _expected(data: Any, at: int, moves: Any, constants: Any, size: int, count: int) -> int:
    """Give how many of so many entries of one size have the bytes in their values that the op list expects."""
    for check in range(moves[_CHECKS]):
        place = _FIRST + check * _CHECK_NUMBERS
        value = at + size - moves[_OLD_SIZE] + moves[place]
        for entry in range(count):
            if not matches(data, value + entry * size, constants, moves[place + 1]):
                count = entry
                break
    return count


def _move(
    data: Any, value: int, size: int, target: Any, new_value: int, new_size: int, moves: Any, place: int, count: int
) -> None:
    """Carry out one move for so many entries.

    Args:
        data: Holds them.
        value: Where the value of the first one begins.
        size: Of each.
        target: Takes the new ones.
        new_value: Where the value of the first new one begins.
        new_size: Of each.
        moves: As `moves_of` gives them.
        place: Where the move stands.
        count: How many entries there are.
    """
    at, width, to, new_width = value + moves[place], moves[place + 1], new_value + moves[place + 2], moves[place + 3]
    if width == 8 and new_width == 8:  # the most frequent ones have a loop of their own in machine code
        _move_each(data, at, size, 8, target, to, new_size, 8, count)
    elif width == 4 and new_width == 8:
        _move_each(data, at, size, 4, target, to, new_size, 8, count)
    elif width:
        _move_each(data, at, size, width, target, to, new_size, new_width, count)
    else:
        number = moves[place]
        for entry in range(count):
            store(target, to + entry * new_size, new_width, number)


def _move_each(
    data: Any, at: int, size: int, width: int, target: Any, to: int, new_size: int, new_width: int, count: int
) -> None:
    for entry in range(count):
        store(target, to + entry * new_size, new_width, load(data, at + entry * size, width))
