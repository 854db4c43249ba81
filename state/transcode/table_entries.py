"""The entries of blocks of RocksDB's files: found and framed as in canonical streams, and written from such.

    entry: varint shared, varint others, varint m, the other bytes of the key, m bytes of the value
    at the end u32 little-endian offsets of entries with a whole key, and their number

A key begins with `shared` bytes of the key before it. In blocks of data a key is followed by eight bytes, which count
as part of it: a sequence number of 56 bits and a type, little-endian. In an index the value is a place in the file: a
varint offset and a varint size. A short index has no `m`; where a key shares bytes, its block follows the one before,
and only the difference of their sizes is stored, as a zigzag varint.

In a block that is written, all entries are values without a sequence number.

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
_LENGTH_BYTES, _MOST_TYPE, _LEAST_BYTES = 4, 62, 9


def parse_table_entries(
    data: bytes | bytearray | memoryview, bounds: Sequence[int], values: int, stored: int, capacity: int, rows: int
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
                    same = min(shared, key_size, new_size)
                    order = compared(target, key_at, key_size, target, new_at, new_size, same)
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


def compared(data: Any, first: int, first_size: int, other: Any, second: int, second_size: int, at: int) -> int:
    """Return -1, 0 or 1 for a key in `data` that is less than, equal to or greater than one in `other`.

    They share `at` bytes.
    """
    most = min(first_size, second_size)
    while most - at >= 8 and load(data, first + at, 8) == load(other, second + at, 8):
        at += 8
    while at < most:
        if data[first + at] != other[second + at]:
            return -1 if data[first + at] < other[second + at] else 1
        at += 1
    if first_size == second_size:
        return 0
    return -1 if first_size < second_size else 1


def make_table_blocks(
    data: bytes | bytearray, entries: int, block_bytes: int, interval: int, *, is_last: bool
) -> tuple[int, list[int], memoryview, list[int], list[int]]:
    """Return the status, the result, the blocks, their ends and last entries of `write_table_blocks`.

    Args:
        data: Entries, with a margin behind.
        entries: Their number.
        block_bytes: As in `write_table_blocks`.
        interval: As in `write_table_blocks`.
        is_last: As in `write_table_blocks`.
    """
    size = len(data) - ROOM_BYTES
    capacity, most, wholes = room_for(size, entries, block_bytes, interval)
    target, ends, lasts, result = bytearray(capacity), [0] * most, [0] * most, [0] * 5
    status = write_table_blocks(
        data, size, block_bytes, interval, is_last, target, capacity, most, ends, lasts, [0] * wholes, result
    )
    return status, result, memoryview(target), ends, lasts


def room_for(size: int, entries: int, block_bytes: int, interval: int) -> tuple[int, int, int]:
    """Return how many bytes and blocks some entries may become, and how many whole keys a block may have."""
    capacity = size + 20 * entries + ROOM_BYTES  # of framing, 8 bytes become 16, and 9 for a block of one entry alone
    return (
        capacity,
        min(entries, capacity // block_bytes + 1),
        min(block_bytes // _LEAST_BYTES, entries) // interval + 2,
    )


def write_table_blocks(  # noqa: PLR0915 - one function, for numba
    data: Any, size: int, block_bytes: int, interval: int, is_last: bool, target: Any, capacity: int, most: int,  # noqa: FBT001 - for numba
    ends: Any, lasts: Any, wholes: Any, result: Any,
) -> int:  # fmt: skip
    """Write entries into blocks: values without a sequence number. Behind each is room for its trailer, of zeros.

    Args:
        data: Entries as in canonical streams, with a margin behind.
        size: Their bytes.
        block_bytes: From how many bytes on a block is finished.
        interval: After how many entries of a block a key is written as a whole.
        is_last: Whether a last block is finished that has fewer bytes.
        target: The buffer to write to.
        capacity: Its size.
        most: The number of blocks for which there is room; then some entries may be left.
        ends: Receives the end of each block, without its trailer.
        lasts: Receives the offset of the last entry of each block.
        wholes: Room for the offsets of the whole keys of a block.
        result: Receives the number of blocks, the end of the last one, the offset of the first entry that is in no
            block, the number of entries written, and the bytes of their keys.
    """
    at = to = block = entries = key_bytes = 0
    old_at, old_size = 0, -1
    while at < size and block < most:
        begin, start, count, restarts, key_sum, last = to, at, 0, 0, 0, at
        while at < size and (count == 0 or to - begin + 4 * restarts + 4 < block_bytes):
            key_at = at + _LENGTH_BYTES
            key_size = load(data, at, 4) if size - at >= 2 * _LENGTH_BYTES else -1
            if key_size < 0 or key_size > size - at - 2 * _LENGTH_BYTES:
                return BROKEN
            value_size = load(data, key_at + key_size, 4)
            value_at = key_at + key_size + _LENGTH_BYTES
            if value_size < 0 or value_size > size - value_at:
                return BROKEN
            if to + key_size + value_size + 4 * restarts + ROOM_BYTES > capacity:
                return CRAMPED
            shared, least = 0, min(key_size, old_size)
            while least - shared >= 8 and load(data, old_at + shared, 8) == load(data, key_at + shared, 8):
                shared += 8
            while shared < least and data[old_at + shared] == data[key_at + shared]:
                shared += 1
            if old_size >= 0:
                is_prefix = shared == least
                if (is_prefix and key_size <= old_size) or (
                    not is_prefix and data[key_at + shared] < data[old_at + shared]
                ):
                    return OUT_OF_ORDER
            if count % interval == 0:
                shared = 0
                wholes[restarts] = to - begin
                restarts += 1
            to = put_number(target, to, shared)
            to = put_number(target, to, key_size - shared + STORED_BYTES)
            to = put_number(target, to, value_size)
            copy(target, to, data, key_at + shared, key_size - shared)
            to += key_size - shared
            store_little(target, to, 8, 1)
            to += STORED_BYTES
            copy(target, to, data, value_at, value_size)
            to += value_size
            old_at, old_size, last = key_at, key_size, at
            at = value_at + value_size
            count += 1
            key_sum += key_size
        if at >= size and not is_last and to - begin + 4 * restarts + 4 < block_bytes:
            at, to = start, begin
            break
        for one in range(restarts):
            store_little(target, to, 4, wholes[one])
            to += 4
        store_little(target, to, 4, restarts)
        to += 4
        ends[block], lasts[block] = to, last
        target[to] = 0
        to += TRAILER_BYTES
        block += 1
        entries += count
        key_bytes += key_sum
    result[0], result[1], result[2], result[3], result[4] = block, to, at, entries, key_bytes
    return READ


def put_number(target: Any, to: int, number: int) -> int:
    """Write a varint; return its end."""
    while number > 0x7F:
        target[to] = number & 0x7F | 0x80
        number >>= 7
        to += 1
    target[to] = number
    return to + 1
