"""Byte primitives of the interpreter of op lists; numba replaces most of them by a few machine instructions each.

Nothing here checks offsets unless an end is passed: callers have checked them.
"""

from __future__ import annotations

import struct
from typing import Any

_FLOATS = {4: struct.Struct(">f"), 8: struct.Struct(">d")}
_MANTISSA, _EXPONENT = 0x7FFFFF, 0xFF
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_LONGEST_COUNT, _SEVEN_BITS = 5, 0x7F
MIX, HALF_BITS, _BITS_64 = 0x9E3779B97F4A7C15, 32, (1 << 64) - 1
PADDING = 96
"""Copies and loads of machine code may run past the end of their data by less than this number of bytes."""
_WORD_BYTES = 8
_BITS_32, _CRC_POLYNOMIAL = (1 << 32) - 1, 0x82F63B78
_OFFSET_BITS = 31
MOST_OFFSET = (1 << _OFFSET_BITS) - 1
SEED = 0x1E3779B97F4A7C15
_MIDDLE, _MASK_BYTES, _SIGN_BIT = 256, 32, 0x80


def _crc_row(code: int) -> int:
    for _ in range(8):
        code = code >> 1 ^ (_CRC_POLYNOMIAL if code & 1 else 0)
    return code


_CRC_TABLE = tuple(map(_crc_row, range(256)))


def address(array: Any) -> Any:
    """Return the address of the first item of an array."""
    return array


def bytes_at(number: int) -> Any:
    """Return the pointer to bytes at an address, which only machine code has."""
    raise NotImplementedError(number)


def numbers_at(number: int) -> Any:
    """Return the pointer to 64-bit integers at an address, which only machine code has."""
    raise NotImplementedError(number)


def load(data: Any, at: int, size: int) -> int:
    """Return the signed big-endian integer of 1, 2, 4 or 8 bytes."""
    return int.from_bytes(data[at : at + size], "big", signed=True)


def mixed(number: int, word: int) -> int:
    """Mix a word into a number, both of 64 bits; the result of machine code is signed."""
    number = ((number ^ word) * MIX) & _BITS_64
    return number ^ number >> HALF_BITS


def key_sum(data: Any, at: int, size: int) -> int:
    """Return the hash that a key adds to the checksum (`frames`)."""
    if _WORD_BYTES <= size <= 2 * _WORD_BYTES:  # most keys: a few inlined instructions
        return mixed(mixed(mixed(SEED, size), load(data, at, 8)), load(data, at + size - 8, 8))
    return any_key_sum(data, at, size)


def any_key_sum(data: Any, at: int, size: int) -> int:
    """Return the hash that a key of any size adds to the checksum."""
    first = last = 0
    if size >= _WORD_BYTES:
        first, last = load(data, at, 8), load(data, at + size - 8, 8)
    elif size >= _WORD_BYTES // 2:
        first, last = load(data, at, 4), load(data, at + size - 4, 4)
    elif size > 0:
        first = load(data, at, 1)
        last = load(data, at + (size >> 1), 1) * _MIDDLE + load(data, at + size - 1, 1)
    total = mixed(mixed(SEED, size), first)
    for place in range(at + 8, at + size - 8, 8):
        total = mixed(total, load(data, place, 8))
    return mixed(total, last)


def store(data: Any, at: int, size: int, value: int) -> None:
    """Write a signed big-endian integer of 1, 2, 4 or 8 bytes."""
    data[at : at + size] = value.to_bytes(size, "big", signed=True)


def load_little(data: Any, at: int, size: int) -> int:
    """Return the signed little-endian integer of 1, 2, 4 or 8 bytes."""
    return int.from_bytes(data[at : at + size], "little", signed=True)


def store_little(data: Any, at: int, size: int, value: int) -> None:
    """Write a signed little-endian integer of 1, 2, 4 or 8 bytes."""
    data[at : at + size] = value.to_bytes(size, "little", signed=True)


def crc32c(data: Any, at: int, size: int) -> int:
    """Return the CRC-32C of bytes."""
    code = _BITS_32
    for place in range(at, at + size):
        code = code >> 8 ^ _CRC_TABLE[(code ^ load(data, place, 1)) & 0xFF]
    return code ^ _BITS_32


def alike_bytes(data: Any, first: int, second: int) -> int:
    """Return how many of the first 8 bytes at two places are equal."""
    size = 0
    while size < _WORD_BYTES and data[first + size] == data[second + size]:
        size += 1
    return size


def store_float(data: Any, at: int, size: int, value: float) -> None:
    """Write a big-endian float of 4 or 8 bytes."""
    _FLOATS[size].pack_into(data, at, value)


def load_single(data: Any, at: int) -> float:
    """Return the 32-bit float as a 64-bit one."""
    value: float = _FLOATS[4].unpack_from(data, at)[0]
    return value


def copy(target: Any, to: int, source: Any, at: int, size: int) -> None:
    """Copy bytes; machine code may write up to 31 bytes more, which are overwritten or never read."""
    target[to : to + size] = source[at : at + size]


def copy_few(target: Any, to: int, source: Any, at: int, size: int) -> None:
    """Copy up to 32 bytes; machine code may write more, as in `copy`."""
    target[to : to + size] = source[at : at + size]


def unlike(first: Any, at: int, second: Any, place: int, size: int, behind: int, more: int) -> int:
    """Return 0 if two places have equal bytes: `size` bytes, and `more` from `behind` on; else another number.

    Machine code loads 32 bytes of each place.
    """
    is_same = first[at : at + size] == second[place : place + size]
    at, place = at + behind, place + behind
    return int(not is_same or first[at : at + more] != second[place : place + more])


def put_sign(target: Any, to: int, size: int, byte: int) -> None:
    """Write up to 7 sign bytes of a signed byte; machine code may write 8 bytes."""
    target[to : to + size] = (b"\xff" if byte & _SIGN_BIT else b"\0") * size


def matches(data: Any, at: int, constants: Any, place: int) -> bool:
    """Whether 32 bytes under a mask equal those that follow the mask."""
    mask = constants[place : place + _MASK_BYTES]
    value = constants[place + _MASK_BYTES : place + 2 * _MASK_BYTES]
    number = int.from_bytes(data[at : at + _MASK_BYTES], "little")
    return number & int.from_bytes(mask, "little") == int.from_bytes(value, "little")


def is_ascii(data: Any, at: int, size: int) -> bool:
    """Whether the top bit of every byte is clear."""
    return bytes(data[at : at + size]).isascii()


def text_end(data: Any, at: int, stop: int) -> int:
    """Return the end of a string; -1 if it is null, or not encoded as Flink does it."""
    size = load(data, at, 1) if at < stop else 0
    if 0 < size <= stop - at and is_ascii(data, at + 1, size - 1):
        return at + size
    return any_text_end(data, at, stop)


def maybe_text_end(data: Any, at: int, stop: int) -> int:
    """Return the end of a null flag and, if it is 0, of the string after it; -1 as in `text_end`."""
    if at >= stop:
        return -1
    flag, size = load(data, at, 1), load(data, at + 1, 1)
    left = 0 if flag else size  # flags are unpredictable: arithmetic costs less than jumps
    is_plain = (flag == 1) | ((flag == 0) & (size > 0))
    if is_plain and left < stop - at and is_ascii(data, at + 2, max(left - 1, 0)):
        return at + 1 + left
    return any_text_end(data, at + 1, stop) if flag == 0 else -1


def any_text_end(data: Any, at: int, stop: int) -> int:
    """Return the end of a string of any length and characters; -1 as in `text_end`."""
    size = shift = 0
    while True:
        if at >= stop or shift >= 7 * _LONGEST_COUNT:
            return -1
        byte = load(data, at, 1)
        at += 1
        size |= (byte & _SEVEN_BITS) << shift
        if byte >= 0:
            break
        shift += 7
    if size == 0 or (shift and not byte):
        return -1
    left = size - 1
    if left > stop - at:
        return -1
    if is_ascii(data, at, left):
        return at + left
    while left > 0:
        at = unit_end(data, at, stop)
        if at < 0:
            return -1
        left -= 1
    return at


def unit_end(data: Any, at: int, stop: int) -> int:
    """Return the end of a UTF-16 unit, a varint of one to three bytes; -1 if it is invalid."""
    if at >= stop:
        return -1
    if data[at] < 0x80:
        return at + 1
    if at + 1 >= stop:
        return -1
    if data[at + 1] < 0x80:
        return at + 2 if data[at + 1] else -1
    if at + 2 >= stop:
        return -1
    return at + 3 if 0 < data[at + 2] <= 3 else -1


def clear_keys(table: Any, at: int, count: int) -> None:
    """Clear a hash table for up to `count` keys.

    Its numbers, from `at` on: how often it was cleared (its age), the number of slots in use less one, and the slots.
    A taken slot holds the age and, in its lowest 31 bits, the offset of the key.
    """
    size = 2
    while size < 2 * count:
        size *= 2
    table[at] += 1
    table[at + 1] = size - 1


def add_key(table: Any, at: int, data: Any, start: int, offset: int, size: int) -> bool:
    """Add a key to a hash table; return False if it is there already.

    Args:
        table: The table, cleared by `clear_keys`.
        at: The index at which the table begins.
        data: The bytes of the keys; the encoding of a key must determine its end.
        start: The base of the offsets.
        offset: The offset of the key.
        size: The size of the key in bytes.
    """
    age, last = table[at], table[at + 1]
    slot = key_sum(data, start + offset, size) & last
    while True:
        taken = table[at + 2 + slot]
        if taken >> _OFFSET_BITS != age:
            table[at + 2 + slot] = age << _OFFSET_BITS | offset
            return True
        if is_same(data, start + (taken & MOST_OFFSET), start + offset, size):
            return False
        slot = (slot + 1) & last


def is_same(data: Any, first: int, second: int, size: int) -> bool:
    """Whether two places hold the same bytes."""
    while size > 0 and data[first] == data[second]:
        first += 1
        second += 1
        size -= 1
    return size == 0


def put_bits(target: Any, to: int, data: Any, at: int, places: Any, first: int, count: int) -> int:
    """Write bits, the highest of a byte first, padded with zeros; return their end.

    Args:
        target: The buffer to write to.
        to: The offset in the buffer.
        data: The source of the bits.
        at: The offset of the first byte of the bits.
        places: For each bit to write the index of a source bit, or -1 for 0, or -2 for 1.
        first: The index of the first of these places.
        count: The number of bits.
    """
    byte = 0
    for place in range(count):
        bit = places[first + place]
        byte = byte << 1 | (int(data[at + (bit >> 3)]) >> (7 - (bit & 7)) & 1 if bit >= 0 else -1 - bit)
        if place & 7 == 7 or place == count - 1:
            target[to] = byte << (7 - (place & 7))
            byte = 0
            to += 1
    return to


def reverse(data: Any, at: int, size: int) -> None:
    """Reverse bytes in place."""
    for place in range(size // 2):
        first = data[at + place]
        data[at + place] = data[at + size - 1 - place]
        data[at + size - 1 - place] = first


def size_end(data: Any, at: int, stop: int, size: int) -> int:
    """Return the end of an encoded size: lowest byte first, in as few bytes as possible; -1 if it is not `size`."""
    while True:
        if at >= stop or data[at] != size & 0xFF:
            return -1
        at += 1
        size >>= 8
        if size == 0:
            return at


def is_utf8(data: Any, at: int, size: int) -> bool:
    """Whether bytes are valid UTF-8: without surrogates, and each character in as few bytes as possible."""
    if is_ascii(data, at, size):
        return True
    end = at + size
    while at < end:
        first = int(data[at])
        at += 1
        if first < 0x80:
            continue
        if 0xC2 <= first <= 0xDF:
            more, low, high = 1, 0x80, 0xBF
        elif 0xE0 <= first <= 0xEF:
            more, low, high = 2, 0xA0 if first == 0xE0 else 0x80, 0x9F if first == 0xED else 0xBF
        elif 0xF0 <= first <= 0xF4:
            more, low, high = 3, 0x90 if first == 0xF0 else 0x80, 0x8F if first == 0xF4 else 0xBF
        else:
            return False
        if more > end - at or not low <= data[at] <= high:
            return False
        for place in range(at + 1, at + more):
            if data[place] & 0xC0 != 0x80:
                return False
        at += more
    return True


def big_integer_end(data: Any, at: int, stop: int) -> int:
    """Return the end of a big integer; -1 if it is null, or has more bytes than it needs."""
    if stop - at < 4:
        return -1
    code = load(data, at, 4)
    at += 4
    if 1 <= code <= 3:
        return at
    size = code - 4
    if size < 1 or size > stop - at:
        return -1
    first = load(data, at, 1)
    if size == 1:
        return -1 if first in (0, 1, 10) else at + 1
    second = load(data, at + 1, 1)
    is_padded = (first == 0 and second >= 0) or (first == -1 and second < 0)
    return -1 if is_padded else at + size


def is_date(year: int, month: int, day: int) -> bool:
    """Whether the numbers are a valid date of Java's LocalDate."""
    if not (-999_999_999 <= year <= 999_999_999 and 1 <= month <= 12):
        return False
    is_leap_day = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 1 <= day <= _MONTH_DAYS[month - 1] + is_leap_day


def is_number(data: Any, at: int) -> bool:
    """Whether the 32-bit float is not NaN."""
    bits = load(data, at, 4)
    return (bits >> 23) & _EXPONENT != _EXPONENT or bits & _MANTISSA == 0


def is_less(data: Any, first: int, first_end: int, second: int, second_end: int) -> bool:
    """Whether the first bytes are less than the second, compared as unsigned bytes, a prefix being less."""
    while first < first_end and second < second_end:
        if data[first] != data[second]:
            return bool(data[first] < data[second])
        first += 1
        second += 1
    return first >= first_end and second < second_end
