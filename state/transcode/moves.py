"""Vectorized rewriting of entries of one size: the op list of such values as a list of moves.

If an op list only skips bytes, compares some with constants, and writes pieces, constants and widened numbers, all
offsets are known beforehand. It is then equivalent to a list of moves, each of 1, 2, 4 or 8 bytes from an offset of the
old value to an offset of the new one, and each move is made for many entries in a row. Bytes that all values begin or
end with unchanged are copied together with the keys beside them. This needs keys of one size; for keys of varying size,
and for the last few entries, the interpreter takes over. It accounts for a sixth of the migration speed for tuples of
two numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from . import ops
from .frames import alike, key_sums
from .memory import copy, load, matches, store, unlike

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .program import Program

_AT_ONCE_BYTES, _FEWEST = 12 << 10, 16  # these bytes and the new ones fit into the L1 cache
_LENGTH_BYTES, _MOVE_NUMBERS, _CHECK_NUMBERS = 4, 4, 2
_OLD_SIZE, _NEW_SIZE, _CHECKS, _MOVES, _LEAD, _TAIL, _FIRST = range(7)
"""Indices into the numbers that `moves_of` returns; checks and moves come last."""
_WIDENED = {1: 1, 2: 2, 3: 1, 4: 4, 6: 2, 7: 1}
"""Number of sign bytes -> number of following bytes that complete an integer of 2, 4 or 8 bytes."""


@attrs.define
class _Moves:
    """The moves collected from the ops seen so far.

    Attributes:
        at: The number of bytes of the old value that were skipped.
        end: The number of bytes of the new value that were written.
        places: Register -> offset in the old value.
        checks: Pairs of an offset in the old value and an offset in the constants; the bytes must be equal.
        moves: Groups of four: offset in the old value, size there, offset in the new value, size there. If the first
            size is 0, the first number is a constant to write instead of an offset.
        copies: Triples of offset in the old value, offset in the new value, and number of bytes.
    """

    at: int = 0
    end: int = 0
    places: dict[int, int] = attrs.Factory(lambda: {ops.VALUE: 0})
    checks: list[int] = attrs.Factory(list)
    moves: list[int] = attrs.Factory(list)
    copies: list[tuple[int, int, int]] = attrs.Factory(list)

    def take(self, op: int, operands: tuple[int, ...], constants: bytes) -> bool:
        """Add an op's moves; return False if the op cannot be expressed as moves."""
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
        """Return the numbers that `moves_of` returns."""
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
    """Return an op list as moves; empty if it cannot be expressed as moves.

    First come the sizes of the old and of the new value, the numbers of checks and of moves, and the sizes of the
    unchanged bytes at the beginning and at the end of both values; then the checks and the moves.
    """
    found = _Moves()
    if not all(found.take(op, operands, program.constants) for _, op, operands in program.ops()):
        return ()
    return found.numbers()


def _parts(size: int) -> Iterator[tuple[int, int]]:
    """Yield offset and size of parts of 8, 4, 2 or 1 bytes; the last one may overlap the one before it."""
    width = next((width for width in (8, 4, 2) if width <= size), 1)
    for at in range(0, size, width):
        yield min(at, size - width), width


def rewrite_even(
    data: Any, start: int, most: int, moves: Any, constants: Any, target: Any, capacity: int, prefix: int,
    prefix_bytes: int, result: Any,
) -> None:  # fmt: skip
    """Rewrite entries as long as many of one size follow one another, pass the checks, and fit into the target.

    The keys and lengths of the new entries are verified.

    Args:
        data: Entries.
        start: The offset of the first entry.
        most: Rewriting stops at an entry that ends beyond this offset.
        moves: The moves from `moves_of`.
        constants: The constants of the op list.
        target: The buffer for the new entries.
        capacity: The number of bytes available in it.
        prefix: The number that each key must begin with; another one stops the rewriting.
        prefix_bytes: The size of the prefix in bytes.
        result: Receives the interpreter's results, and then the offset of the last new entry.
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
        count = min(
            alike(data, at, at, end, key_size, value_size, prefix_bytes), max(capacity - written, 0) // new_size
        )
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
    """Copy the keys of `count` entries with the unchanged bytes around them, and store the new lengths.

    A copy may overrun into bytes that the moves or the next entry overwrite later.
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
    """Whether `count` new entries have the keys of the old ones, and values of `value_size` bytes."""
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
    """Return how many of `count` entries of one size, from the first on, pass the checks of the op list."""
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
    """Make one move for `count` entries.

    Args:
        data: The old entries.
        value: The offset of the first old value.
        size: The size of an old entry.
        target: The buffer of the new entries.
        new_value: The offset of the first new value.
        new_size: The size of a new entry.
        moves: The moves from `moves_of`.
        place: The index of the move in `moves`.
        count: The number of entries.
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
