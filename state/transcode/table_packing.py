"""The compression by snappy of blocks of RocksDB's files, and their checksums, many blocks at a time.

    packed: varint n, then literals and copies until there are n bytes
    literal: u8 (size - 1) << 2, below 60; or 59 + k of 1 to 4, and size - 1 in k bytes; the bytes
    copy: u8 offset / 256 << 5 | size - 4 << 2 | 1, u8 offset; or u8 size - 1 << 2 | 2 or 3, an offset of 2 or 4 bytes

All numbers are little-endian. The functions are compiled by numba as they are; libraries take one block at a time,
which costs more in Python than in them. Source: the description of the format in snappy.
"""

from __future__ import annotations

from typing import Any

from .memory import alike_bytes, copy, crc32c, load, load_little, store_little
from .table_entries import BROKEN, CRAMPED, READ, ROOM_BYTES, TRAILER_BYTES, put_number

NO_COMPRESSION, SNAPPY = 0, 1
"""How a block is compressed, as the byte behind it says."""
OTHER = 4
"""A status besides those of reading: a block has another compression."""
_TABLE_BITS, _PLACE_BYTES, _MOST_PLACE = 14, 2, 0xFFFF
TABLE_BYTES = _PLACE_BYTES << _TABLE_BITS
"""The bytes of the table of the compression."""
_VALUE_BYTES, _KEY_SUFFIX, _SIZE_BYTES = 8, 1, 4
_MASK, _MIX, _CRC_DELTA = 0xFFFFFFFF, 0x1E35A7BD, 0xA282EAD8
_LITERAL, _NEAR, _FAR, _FARTHER = range(4)
_FEW, _MOST_OF_COPY, _MOST_NEAR = 60, 64, 1 << 11
_LEAST_TO_COPY, _TAIL_BYTES, _STEPS, _PIECE_BYTES = 4, 15, 5, 1 << 16
_MOST_GROWTH = 64
"""A packed byte is of fewer bytes."""


def unpack_blocks(data: Any, bounds: Any, blocks: int, target: Any, capacity: int, ends: Any, result: Any) -> int:
    """Write the content of blocks one after the other.

    Args:
        data: The blocks, each with the byte of its compression behind it.
        bounds: The start and the end of each, without that byte.
        blocks: Their number.
        target: The buffer to write to.
        capacity: Its size, with a margin.
        ends: Receives the start and the end of each content.
        result: Receives the bytes that they need, and the index of the block where it ended.
    """
    whole = 0
    for block in range(blocks):
        result[1] = block
        at, end = bounds[2 * block], bounds[2 * block + 1]
        if data[end] == NO_COMPRESSION:
            whole += end - at
        elif data[end] == SNAPPY:
            size, at = _size(data, at, end)
            if at < 0 or size > (end - at) * _MOST_GROWTH:
                return BROKEN
            whole += size
        else:
            return OTHER
    result[0] = whole
    if whole + ROOM_BYTES > capacity:
        return CRAMPED
    to = 0
    for block in range(blocks):
        result[1] = block
        at, end = bounds[2 * block], bounds[2 * block + 1]
        ends[2 * block] = to
        if data[end] == NO_COMPRESSION:
            copy(target, to, data, at, end - at)
            to += end - at
        else:
            size, at = _size(data, at, end)
            if not _unpack(data, at, end, target, to, size):
                return BROKEN
            to += size
        ends[2 * block + 1] = to
    return READ


def _size(data: Any, at: int, end: int) -> tuple[int, int]:
    """Return the size of the content, and where its packed bytes begin; -1 where that is damaged."""
    size = shift = 0
    while at < end and shift < 32:
        byte = _byte(data, at)
        at += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size, at
        shift += 7
    return 0, -1


def _byte(data: Any, at: int) -> int:
    return load(data, at, 1) & 0xFF


def _unpack(  # noqa: PLR0912 - one function, for numba
    data: Any, at: int, end: int, target: Any, to: int, size: int
) -> bool:
    """Write what is packed; return whether it is whole."""
    begin, stop = to, to + size
    while at < end:
        tag = _byte(data, at)
        at += 1
        kind = tag & 3
        if kind == _LITERAL:
            length = tag >> 2
            if length >= _FEW:
                more = length - _FEW + 1
                if more > end - at:
                    return False
                length = 0
                for one in range(more):
                    length |= _byte(data, at + one) << 8 * one
                at += more
            length += 1
            if length > end - at or length > stop - to:
                return False
            copy(target, to, data, at, length)
            at += length
            to += length
            continue
        if kind == _NEAR:
            if at >= end:
                return False
            length, offset = (tag >> 2 & 7) + 4, tag >> 5 << 8 | _byte(data, at)
            at += 1
        else:
            more = 2 if kind == _FAR else 4
            if more > end - at:
                return False
            length = (tag >> 2) + 1
            offset = load_little(data, at, more) & ((1 << 8 * more) - 1)
            at += more
        if offset <= 0 or offset > to - begin or length > stop - to:
            return False
        if offset >= length:
            copy(target, to, target, to - offset, length)
        else:
            for one in range(length):
                target[to + one] = target[to - offset + one]
        to += length
    return to == stop


def pack_blocks(
    data: Any, ends: Any, blocks: int, kind: int, start: int, keys: Any, lasts: Any, target: Any, table: Any,
    index: Any, sizes: Any, result: Any,
) -> None:  # fmt: skip
    """Write blocks as they are stored, each with its trailer, and the entry of each in an index.

    Args:
        data: The blocks, between which there is room for the trailers; with a margin behind.
        ends: The end of each.
        blocks: Their number.
        kind: How they are compressed: `SNAPPY`, where that takes less than 7/8 of their bytes; or not at all.
        start: The offset in the file of the first one.
        keys: Entries as in canonical streams.
        lasts: The offset of the last entry of each block there.
        target: Receives the blocks; there is room for all, and for a third of one more.
        table: Room for `TABLE_BYTES`.
        index: Receives an entry for each block: its last key, and its place.
        sizes: Receives the size of each entry of the index.
        result: Receives the number of bytes of the blocks, and of the index.
    """
    begin = to = put = 0
    for block in range(blocks):
        end, place = ends[block], to
        after = _pack(data, begin, end, target, to, table) if kind == SNAPPY else -1
        how = SNAPPY
        if after < 0 or (after - to) * 8 >= (end - begin) * 7:
            copy(target, to, data, begin, end - begin)
            after, how = to + end - begin, NO_COMPRESSION
        size = after - to
        target[after] = how
        checksum = crc32c(target, to, size + 1)
        checksum = ((checksum >> 15 | checksum << 17) + _CRC_DELTA) & _MASK
        _store(target, after + 1, 4, checksum)
        to, begin = after + TRAILER_BYTES, end + TRAILER_BYTES
        key_size = load(keys, lasts[block], _SIZE_BYTES)
        first = put
        put = put_number(index, put, 0)
        put = put_number(index, put, key_size + _VALUE_BYTES)
        place_bytes = _bytes_of(start + place) + _bytes_of(size)
        put = put_number(index, put, place_bytes)
        copy(index, put, keys, lasts[block] + _SIZE_BYTES, key_size)
        put += key_size
        store_little(index, put, 8, 1)
        put += _VALUE_BYTES
        put = put_number(index, put, start + place)
        put = put_number(index, put, size)
        sizes[block] = put - first
    result[0], result[1] = to, put


def _store(target: Any, to: int, size: int, value: int) -> None:
    """Write an integer of 2 or 4 bytes that has no sign."""
    store_little(target, to, size, value - (value >> 8 * size - 1 << 8 * size))


def _bytes_of(number: int) -> int:
    """Return the number of bytes of a varint."""
    size = 1
    while number > 0x7F:
        number >>= 7
        size += 1
    return size


def _pack(data: Any, begin: int, end: int, target: Any, to: int, table: Any) -> int:
    """Write what some bytes are packed to; return its end."""
    to = put_number(target, to, end - begin)
    while begin < end:
        stop = min(end, begin + _PIECE_BYTES)
        to = _pack_piece(data, begin, stop, target, to, table)
        begin = stop
    return to


def _pack_piece(data: Any, begin: int, end: int, target: Any, to: int, table: Any) -> int:
    """Write what up to `_PIECE_BYTES` bytes are packed to; return its end.

    Which copies are found is as in the usual libraries, so that they write the same bytes.
    """
    literal, most = begin, end - _TAIL_BYTES
    if most - begin < 2:
        return _put_literal(data, literal, end, target, to)
    bits = 8
    while 1 << bits < end - begin and bits < _TABLE_BITS:
        bits += 1
    for one in range((1 << bits) * _PLACE_BYTES // 8):
        store_little(table, 8 * one, 8, 0)
    shift, at = 32 - bits, begin + 1
    slot = _slot(data, at, shift)
    while True:
        tries, after, found = 1 << _STEPS, at, begin
        while True:
            at = after
            after = at + (tries >> _STEPS)
            tries += tries >> _STEPS
            if after > most:
                return _put_literal(data, literal, end, target, to)
            found = begin + (load_little(table, slot, _PLACE_BYTES) & _MOST_PLACE)
            _store(table, slot, _PLACE_BYTES, at - begin)
            slot = _slot(data, after, shift)
            if load_little(data, at, 4) == load_little(data, found, 4):
                break
        to = _put_literal(data, literal, at, target, to)
        while True:
            size, alike = _LEAST_TO_COPY, 8
            while alike == 8 and at + size + 8 <= end:
                alike = alike_bytes(data, at + size, found + size)
                size += alike
            while alike == 8 and at + size < end and data[at + size] == data[found + size]:
                size += 1
            to = _put_copies(target, to, at - found, size)
            at += size
            literal = at
            if at >= most:
                return _put_literal(data, literal, end, target, to)
            _store(table, _slot(data, at - 1, shift), _PLACE_BYTES, at - 1 - begin)
            slot = _slot(data, at, shift)
            found = begin + (load_little(table, slot, _PLACE_BYTES) & _MOST_PLACE)
            _store(table, slot, _PLACE_BYTES, at - begin)
            if load_little(data, at, 4) != load_little(data, found, 4):
                at += 1
                slot = _slot(data, at, shift)
                break


def _slot(data: Any, at: int, shift: int) -> int:
    return _PLACE_BYTES * (((load_little(data, at, 4) * _MIX) & _MASK) >> shift)


def _put_literal(data: Any, at: int, end: int, target: Any, to: int) -> int:
    size = end - at
    if size == 0:
        return to
    number = size - 1
    if number < _FEW:
        target[to] = number << 2
        to += 1
    else:
        more = 1
        while number >> 8 * more > 0:
            more += 1
        target[to] = (_FEW - 1 + more) << 2
        for one in range(more):
            target[to + 1 + one] = number >> 8 * one & 0xFF
        to += 1 + more
    copy(target, to, data, at, size)
    return to + size


def _put_copies(target: Any, to: int, offset: int, size: int) -> int:
    while size >= _MOST_OF_COPY + _LEAST_TO_COPY:
        to = _put_copy(target, to, offset, _MOST_OF_COPY)
        size -= _MOST_OF_COPY
    if size > _MOST_OF_COPY:
        to = _put_copy(target, to, offset, _MOST_OF_COPY - _LEAST_TO_COPY)
        size -= _MOST_OF_COPY - _LEAST_TO_COPY
    return _put_copy(target, to, offset, size)


def _put_copy(target: Any, to: int, offset: int, size: int) -> int:
    if size < 12 and offset < _MOST_NEAR:
        target[to] = offset >> 8 << 5 | size - 4 << 2 | _NEAR
        target[to + 1] = offset & 0xFF
        return to + 2
    target[to] = size - 1 << 2 | _FAR
    _store(target, to + 1, 2, offset)
    return to + 3
