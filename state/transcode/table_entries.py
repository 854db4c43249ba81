"""The entries of blocks of RocksDB's files, found and framed as in canonical streams.

    entry: varint shared, varint others, varint m, the other bytes of the key, m bytes of the value
    at the end u32 little-endian offsets of entries with a whole key, and their number

A key begins with `shared` bytes of the key before it. In blocks of data a key is followed by eight bytes, which count
as part of it: a sequence number of 56 bits and a type, little-endian. In an index the value is a place in the file: a
varint offset and a varint size. A short index has no `m`; where a key shares bytes, its block follows the one before,
and only the difference of their sizes is stored, as a zigzag varint.

The functions are compiled by numba as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .memory import copy, load, load_little, store, store_little

if TYPE_CHECKING:
    from collections.abc import Sequence

VALUES, PLACES, SHORT_PLACES = range(3)
"""What the values of a block are: bytes, places in the file, or places of a short index."""
READ, CRAMPED, BROKEN, OUT_OF_ORDER = range(4)
"""How reading ends: with all entries, for want of room, at damage, at a key that is not after the one before it."""
STORED_BYTES = 8
"""The sequence number and the type behind a key."""
TRAILER_BYTES = 5
"""The type of compression and the checksum behind a block."""
ROOM_BYTES = 128
"""Machine code needs this room behind the entries that it writes, and behind those that it reads."""
_LENGTH_BYTES, _MOST_TYPE, _MOST_BYTES = 4, 62, (1 << 31) - 1


def parse_table_entries(
    data: bytes | bytearray, bounds: Sequence[int], values: int, stored: int, capacity: int, rows: int
) -> tuple[int, list[int], tuple[memoryview, list[int], list[int], list[int]]]:
    """Return the status, the result and the arrays of `read_table_entries`; arguments as there."""
    target, places, firsts, seconds = bytearray(capacity), [0] * (rows + 1), [0] * rows, [0] * rows
    result = [0, 0, 0, 0]
    status = read_table_entries(
        data, bounds, len(bounds) // 2, values, stored, target, capacity, rows, places, firsts, seconds, result
    )
    count = result[0]
    return status, result, (memoryview(target), places[: count + 1], firsts[:count], seconds[:count])


def read_table_entries(  # noqa: C901, PLR0912, PLR0915 - one function, for numba
    data: Any, bounds: Any, blocks: int, values: int, stored: int, target: Any, capacity: int, rows: int, places: Any,
    firsts: Any, seconds: Any, result: Any,
) -> int:  # fmt: skip
    """Write the entries of blocks one after the other: `i32 n, key, i32 m, value` each.

    Args:
        data: The blocks, without compression.
        bounds: The start and the end of each.
        blocks: The number of blocks.
        values: What the values are.
        stored: The number of bytes behind a key that are no part of it: `STORED_BYTES` or 0.
        target: The buffer to write to.
        capacity: Its size.
        rows: The number of entries for which there is room in the next three.
        places: Receives the offset of each entry, and the end of the last one.
        firsts: Receives its sequence number, or the offset of the place that its value is.
        seconds: Receives its type, or the size of that place.
        result: Receives the number of entries, a bit set of their types, the number of keys that are those of the entry
            before, and the index of the block where reading ended.
    """
    row = to = types = repeats = 0
    key_at = key_size = tail = offset = size = 0
    for block in range(blocks):
        result[3] = block
        at, end = bounds[2 * block], bounds[2 * block + 1]
        wholes = load_little(data, end - 4, 4) if end - at >= 4 else -1
        if wholes < 0 or 4 * wholes > end - at - 4:
            return BROKEN
        end -= 4 * wholes + 4
        is_first = True
        while at < end:
            shared, at = _number(data, at, end)
            others, at = _number(data, at, end)
            value_size, is_next = 0, False
            if values == SHORT_PLACES:
                is_next = shared > 0
            else:
                value_size, at = _number(data, at, end)
            if at < 0 or (is_first and shared > 0) or shared > key_size + stored or others > end - at:
                return BROKEN
            if shared + others < stored or value_size > end - at - others:
                return BROKEN
            new_size = shared + others - stored
            if row >= rows or to + new_size + value_size + ROOM_BYTES > capacity:
                return CRAMPED
            new_at = to + _LENGTH_BYTES
            if shared > 0:
                copy(target, new_at, target, key_at, min(shared, key_size))
                if shared > key_size:
                    store_little(target, new_at + key_size, STORED_BYTES, tail)
            copy(target, new_at + shared, data, at, others)
            at += others
            if stored > 0:
                new_tail = load_little(target, new_at + new_size, STORED_BYTES)
                first, second = new_tail >> 8 & (1 << 56) - 1, new_tail & 0xFF
                if row > 0:
                    order = _compared(target, key_at, key_size, new_at, new_size, min(shared, key_size, new_size))
                    is_newer = firsts[row - 1] < first or (firsts[row - 1] == first and seconds[row - 1] <= second)
                    if order > 0 or (order == 0 and values == VALUES and is_newer):
                        return OUT_OF_ORDER
                    repeats += order == 0
                tail = new_tail
                types |= 1 << min(second, _MOST_TYPE)
            else:
                first = second = 0
            store(target, to, 4, new_size)
            key_at, key_size = new_at, new_size
            to = new_at + new_size
            if values == VALUES:
                store(target, to, 4, value_size)
                copy(target, to + _LENGTH_BYTES, data, at, value_size)
                to += _LENGTH_BYTES + value_size
                at += value_size
            else:
                if is_next:
                    offset += size + TRAILER_BYTES
                    change, at = _number(data, at, end)
                    size += change >> 1 ^ -(change & 1)
                else:
                    offset, at = _number(data, at, end)
                    size, at = _number(data, at, end)
                if at < 0 or size < 0:
                    return BROKEN
                first, second = offset, size
                store(target, to, 4, 0)
                to += _LENGTH_BYTES
            places[row], firsts[row], seconds[row] = key_at - _LENGTH_BYTES, first, second
            row += 1
            is_first = False
    places[row] = to
    result[0], result[1], result[2] = row, types, repeats
    return READ


def _number(data: Any, at: int, end: int) -> tuple[int, int]:
    """Return a varint and its end, which is -1 where it is damaged; an end below 0 stays as it is."""
    if at < 0 or at >= end:
        return 0, -1
    number = load(data, at, 1)
    at += 1
    if number >= 0:
        return number, at
    number &= 0x7F
    shift = 7
    while at < end and shift <= 56:
        byte = load(data, at, 1)
        at += 1
        number |= (byte & 0x7F) << shift
        if byte >= 0:
            return number, at
        shift += 7
    return 0, -1


def _compared(data: Any, first: int, first_size: int, second: int, second_size: int, at: int) -> int:
    """Return whether a key is less (-1), equal (0) or greater (1) than another one; they share `at` bytes."""
    most = min(first_size, second_size)
    while at < most:
        one, other = load(data, first + at, 1) & 0xFF, load(data, second + at, 1) & 0xFF
        if one != other:
            return -1 if one < other else 1
        at += 1
    if first_size == second_size:
        return 0
    return -1 if first_size < second_size else 1
