"""Binary rows of Flink SQL: their slots as numbers, the check that one is as expected, and the writing of a new one.

A row that is as Flink's serializer writes it has one form only: what lies behind the slots is in their order, padded by
zeros to full words, and what is not used is zero. All numbers within are little-endian; see
`serializers.sql.binary_rows` for the layout.

The numbers of a row or array: how many slots it has (-1: an array, whose items have one), and six for each slot: its
form, the bytes of a number, the lowest and the highest value (for a row or array within, where its numbers begin),
whether a null is odd, and how many slots from it on hold any 8 bytes unless they are null. The numbers of a new row:
how many slots it has, the bytes before the first old one, and seven for each slot: the change, the old slot, the size
of the old number, the factor, the size of the new number, the room behind the slots (-1: as the slot says), and how
many slots from it on are the old ones, without room. A constant has its slot in place of the third, then where its
words are, and how many.

The functions with data are compiled by numba as they are.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from ...serializers.rewrite import MOST_NANOS, BinaryRow, SlotChange, SlotForm
from .memory import copy, is_utf8, load, load_little, load_single, reverse, store, store_float, store_little
from .numba_encodings import is_little_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...serializers.rewrite import ByteRewrite, NewSlot, Slot

_NUMBER, _SINGLE, _TEXT, _BYTES, _WIDE, _FINE, _ROW, _ARRAY = (
    int(form) for form in SlotForm if form is not SlotForm.BEHIND
)
_KEPT, _SCALED, _TO_WIDE, _TO_DOUBLE, _TO_FINE, _BEGUN = map(int, SlotChange)
_WORD, _HALF, _HALF_BITS = 8, 0xFFFFFFFF, 32
_WIDE_ROOM, _FINE_ROOM, _AS_SAID = 16, 8, -1
_SLOT_NUMBERS, _NEW_SLOT_NUMBERS, _FRAME_NUMBERS = 6, 7, 7
_ROOMS = {SlotForm.NUMBER: 0, SlotForm.SINGLE: 0, SlotForm.WIDE: _WIDE_ROOM, SlotForm.FINE: _FINE_ROOM}
_ARRAYS, _MOST_IN_A_SLOT, _KINDS, _MOST_IN_A_WORD = -1, 7, 4, 56
_FIRST_BIT_OF_A_ROW, _FIRST_BIT_OF_AN_ARRAY = 8, 32
NO_KIND = 0xFC
"""The bits that are clear in the first byte of a row."""
_WITHIN = frozenset({SlotForm.ROW, SlotForm.ARRAY})


def head_bytes(count: int) -> int:
    """Return the bytes of a row of so many slots before the first of them."""
    return (count + 71) // 64 * _WORD


def fixed_size(row: ByteRewrite | None) -> int:
    """Return the size of rows of which each slot holds any bytes of a number; 0 if there are others."""
    if not isinstance(row, BinaryRow) or not all(one.form is SlotForm.NUMBER and _is_any(one) for one in row.slots):
        return 0
    return head_bytes(len(row.slots)) + _WORD * len(row.slots)


def _is_any(slot: Slot) -> bool:
    return slot.high - slot.low == (1 << 8 * slot.size) - 1


def frame_registers(slots: tuple[Slot, ...]) -> int:
    """Return the registers that the rows and arrays within slots need."""
    return max((_FRAME_NUMBERS + frame_registers(one.inner) for one in slots if one.form in _WITHIN), default=0)


def slot_numbers(row: BinaryRow) -> tuple[int, ...]:
    """Return the numbers of the slots of a row, and of the rows and arrays within."""
    numbers: list[int] = []
    pending: list[tuple[int, bool, tuple[Slot, ...]]] = [(-1, True, row.slots)]
    while pending:
        place, is_row, slots = pending.pop(0)
        if place >= 0:
            numbers[place] = len(numbers)
        numbers.append(len(slots) if is_row else _ARRAYS)
        for at, one in enumerate(slots):
            if one.form in _WITHIN:
                pending.append((len(numbers) + 2, one.form is SlotForm.ROW, one.inner))
            free = _run(one.form is SlotForm.NUMBER and one.size == _WORD and _is_any(one) for one in slots[at:])
            numbers += (one.form, one.size, one.low, one.high, one.is_required, free)
    return tuple(map(int, numbers))


def _run(fits: Iterable[bool]) -> int:
    """Return how many fit before the first that does not."""
    return sum(1 for _ in takewhile(bool, fits))


def new_slot_numbers(row: BinaryRow, emitted: tuple[NewSlot, ...]) -> tuple[int, ...]:
    """Return the numbers of the slots of a new row."""
    numbers, words = [len(emitted), head_bytes(len(row.slots))], list[int]()
    behind = len(numbers) + _NEW_SLOT_NUMBERS * len(emitted)
    for at, one in enumerate(emitted):
        if one.change is SlotChange.BEGUN:
            slot, *more = [
                int.from_bytes(one.constant[at : at + _WORD], "little", signed=True)
                for at in range(0, len(one.constant), _WORD)
            ] or [0]  # fmt: skip
            numbers += (one.change, -1 if one.constant else -2, slot, behind + len(words), len(more), 0, 0)
            words += more
        else:
            old = row.slots[one.source]
            kept = _run(
                other.change is SlotChange.KEPT
                and other.source == one.source + further
                and _ROOMS.get(row.slots[other.source].form) == 0
                for further, other in enumerate(emitted[at:])
            )
            room = _ROOMS.get(old.form, _AS_SAID)
            numbers += (one.change, one.source, old.size, one.factor, one.size, room, kept)
    return (*map(int, numbers), *words)


def growth(row: BinaryRow, emitted: tuple[NewSlot, ...]) -> int:
    """Return the most bytes that a new row has more than the old one."""
    heads = head_bytes(len(emitted)) - head_bytes(len(row.slots)) + _WORD * (len(emitted) - len(row.slots))
    rooms = {SlotChange.TO_WIDE: _WIDE_ROOM, SlotChange.TO_FINE: _FINE_ROOM}
    return heads + sum(max(len(one.constant) - _WORD, 0) + rooms.get(one.change, 0) for one in emitted)


def row_end(  # noqa: C901, PLR0912, PLR0915 - one function, for numba; a case for each form
    data: Any, at: int, stop: int, code: Any, slots: int, frames: Any, frame: int
) -> int:
    """Return the end of a row behind its size; -1 if it is not as expected.

    Args:
        data: The bytes.
        at: Where the size stands.
        stop: The end of what may be read.
        code: Numbers, among them those of `slot_numbers`.
        slots: The index of the first of these.
        frames: Numbers to be used freely.
        frame: The index of the first of `FRAME_REGISTERS`, if rows or arrays are within the row.
    """
    size = load(data, at, 4) if stop - at >= 4 else -1
    if size < 0 or size > stop - at - 4:
        return -1
    start, end, block, level = at + 4, at + 4 + size, slots, 0
    count, index, first, width, bit, cursor, is_full = 0, -1, 0, _WORD, _FIRST_BIT_OF_A_ROW, 0, False
    while True:
        if index < 0:
            count, width, bit = code[block], _WORD, _FIRST_BIT_OF_A_ROW
            if count >= 0:
                first = (count + 71) // 64 * _WORD
                if first + _WORD * count > size or data[start] >= _KINDS:
                    return -1
            else:
                count = load_little(data, start, 4) if size >= 4 else -1
                first, bit = 4 + (count + 31) // 32 * 4, _FIRST_BIT_OF_AN_ARRAY
                width = code[block + 2]
                if count < 0 or first + width * count > size:
                    return -1
            after, cursor, index = bit + count, first + width * count, 0
            is_full = _is_full(data, start, code[block])
            if is_full:
                continue
            if after & 7 != 0 and data[start + (after >> 3)] >> (after & 7) != 0:
                return -1
            if not _is_clear(data, start + (after + 7 >> 3), first - (after + 7 >> 3)):
                return -1
            if cursor & 7 != 0:
                if -cursor & 7 > size - cursor or not _is_clear(data, start + cursor, -cursor & 7):
                    return -1
                cursor += -cursor & 7
        if index == count:
            if cursor != size:
                return -1
            if level == 0:
                return end
            level -= 1
            place = frame + _FRAME_NUMBERS * level
            block, start, size, count, first, cursor, index = (
                frames[place], frames[place + 1], frames[place + 2], frames[place + 3], frames[place + 4],
                frames[place + 5], frames[place + 6],
            )  # fmt: skip
            width, bit, is_full = _WORD, _FIRST_BIT_OF_A_ROW, _is_full(data, start, code[block])
            if code[block] < 0:
                width, bit = code[block + 2], _FIRST_BIT_OF_AN_ARRAY
            continue
        field = block + 1 + (_SLOT_NUMBERS * index if bit == _FIRST_BIT_OF_A_ROW else 0)
        if is_full and code[field + 5] > 0:
            index += code[field + 5]
            continue
        form, slot, flag = code[field], start + first + width * index, bit + index
        index += 1
        if not is_full and data[start + (flag >> 3)] >> (flag & 7) & 1:
            if code[field + 4]:
                return -1
            if not _is_clear(data, slot, width):
                room = _WIDE_ROOM if form == _WIDE else _FINE_ROOM if form == _FINE else 0
                word = load_little(data, slot, 8) if room else 0
                if level or not room or word != cursor << _HALF_BITS or room > size - cursor:
                    return -1
                if not _is_clear(data, start + cursor, room):
                    return -1
                cursor += room
        elif form == _NUMBER:
            used = code[field + 1]
            number = load_little(data, slot, used)
            if number < code[field + 2] or number > code[field + 3]:
                return -1
            if used < width and not _is_clear(data, slot + used, width - used):
                return -1
        elif form == _SINGLE:
            if not is_little_number(data, slot) or not _is_clear(data, slot + 4, width - 4):
                return -1
        else:
            word = load_little(data, slot, 8)
            used, offset = word & _HALF, word >> _HALF_BITS
            if offset < 0:
                used = word >> 56 & 0x7F
                if form > _BYTES or used > _MOST_IN_A_SLOT or not _is_clear(data, slot + used, _MOST_IN_A_SLOT - used):
                    return -1
                if form == _TEXT and not is_utf8(data, slot, used):
                    return -1
                continue
            if form == _FINE:
                if used > MOST_NANOS:
                    return -1
                used = _FINE_ROOM
            room, there = _WIDE_ROOM if form == _WIDE else used + 7 & -8, start + cursor
            if offset != cursor or room > size - cursor or used > room:
                return -1
            if not _is_clear(data, there + used, room - used):
                return -1
            if form <= _BYTES and used <= _MOST_IN_A_SLOT:
                return -1
            if form == _TEXT and not is_utf8(data, there, used):
                return -1
            if form == _WIDE and not _is_shortest(data, there, used, code[field + 3], code[field + 2]):
                return -1
            cursor += room
            if form >= _ROW:
                place = frame + _FRAME_NUMBERS * level
                frames[place], frames[place + 1], frames[place + 2], frames[place + 3] = block, start, size, count
                frames[place + 4], frames[place + 5], frames[place + 6] = first, cursor, index
                level += 1
                block, start, size, index = slots + code[field + 2], there, used, -1


def _is_full(data: Any, start: int, count: int) -> bool:
    """Whether a row is known to have no null, since its head is one word that has no bits; -1 slots mean an array."""
    return 0 <= count <= _MOST_IN_A_WORD and load_little(data, start, 8) >> 8 == 0


def _is_clear(data: Any, at: int, size: int) -> bool:
    """Whether bytes are zero."""
    while size >= _WORD:
        if load_little(data, at, 8) != 0:
            return False
        at += _WORD
        size -= _WORD
    return size <= 0 or load_little(data, at, 8) & (1 << 8 * size) - 1 == 0


def _is_shortest(data: Any, at: int, size: int, most: int, below: int) -> bool:
    """Whether a big-endian integer has no byte that it does not need, and at most so many.

    It may have a byte more if its first 8 bytes are below a number, or their complement, if it is negative.
    """
    if size < 1 or size > most + 1:
        return False
    if size > most:
        number = load(data, at, 8)
        if (number if number >= 0 else ~number) >= below:
            return False
    first, second = load(data, at, 1), load(data, at + 1, 1)
    return size == 1 or not ((first == 0 and second >= 0) or (first == -1 and second < 0))


def put_row(  # noqa: C901, PLR0912, PLR0915 - one function, for numba; a case for each change
    target: Any, to: int, data: Any, at: int, code: Any, table: int
) -> int:
    """Write a new row behind its size; return its end.

    Args:
        target: The buffer to write to.
        to: The offset in the buffer.
        data: The bytes of the old row, which `row_end` has accepted.
        at: Where it begins, behind its size.
        code: Numbers, among them those of `new_slot_numbers`.
        table: The index of the first of these.
    """
    count, old_first = code[table], code[table + 1]
    first, start = (count + 71) // 64 * _WORD, to + 4
    cursor = first + _WORD * count
    for place in range(0, first, _WORD):
        store_little(target, start + place, 8, 0)
    target[start] = data[at]
    is_full, index = old_first == _WORD and _is_full(data, at, 0), -1
    while index + 1 < count:
        index += 1
        place = table + 2 + _NEW_SLOT_NUMBERS * index
        change, source, slot = code[place], code[place + 1], start + first + _WORD * index
        old_slot, flag = at + old_first + _WORD * source, _FIRST_BIT_OF_A_ROW + source
        if is_full and code[place + 6] > 0:
            for further in range(code[place + 6]):
                store_little(target, slot + _WORD * further, 8, load_little(data, old_slot + _WORD * further, 8))
            index += code[place + 6] - 1
            continue
        store_little(target, slot, 8, 0)
        if change == _BEGUN:
            words = code[place + 4]
            store_little(target, slot, 8, code[place + 2] + (cursor << _HALF_BITS if words else 0))
            for word in range(words):
                store_little(target, start + cursor, 8, code[table + code[place + 3] + word])
                cursor += _WORD
            is_null = source == -2
        else:
            is_null = not is_full and data[at + (flag >> 3)] >> (flag & 7) & 1 != 0
        if is_null:
            flag = _FIRST_BIT_OF_A_ROW + index
            target[start + (flag >> 3)] |= 1 << (flag & 7)
            if change == _KEPT and load_little(data, old_slot, 8) != 0:
                store_little(target, slot, 8, cursor << _HALF_BITS)
                for _ in range(0, code[place + 5], _WORD):
                    store_little(target, start + cursor, 8, 0)
                    cursor += _WORD
        elif change == _KEPT:
            word, room = load_little(data, old_slot, 8), code[place + 5]
            if room != 0 and word >= 0:
                room = (word & _HALF) + 7 & -8 if room == _AS_SAID else room
                copy(target, start + cursor, data, at + (word >> _HALF_BITS), room)
                word = cursor << _HALF_BITS | word & _HALF
                cursor += room
            store_little(target, slot, 8, word)
        elif change == _SCALED:
            number = load_little(data, old_slot, code[place + 2]) * code[place + 3]
            store_little(target, slot, code[place + 4], number)
        elif change == _TO_WIDE:
            number = load_little(data, old_slot, code[place + 2]) * code[place + 3]
            store_little(target, start + cursor + 8, 8, 0)
            store_little(target, slot, 8, cursor << _HALF_BITS | _put_shortest(target, start + cursor, number))
            cursor += _WIDE_ROOM
        elif change == _TO_DOUBLE:
            store_little(target, slot, 4, load_little(data, old_slot, 4))
            reverse(target, slot, 4)
            store_float(target, slot, 8, load_single(target, slot))
            reverse(target, slot, 8)
        elif change == _TO_FINE:
            store_little(target, start + cursor, 8, load_little(data, old_slot, 8))
            store_little(target, slot, 8, cursor << _HALF_BITS)
            cursor += _FINE_ROOM
    store(target, to, 4, cursor)
    end: int = start + cursor
    return end


def _put_shortest(target: Any, to: int, number: int) -> int:
    """Write a number big-endian in as few bytes as possible, zeros after it to 8 bytes; return their number."""
    rest, size = number if number >= 0 else ~number, 1
    while rest > 0x7F:
        rest >>= 8
        size += 1
    store(target, to, 8, number << 8 * (_WORD - size))
    return size
