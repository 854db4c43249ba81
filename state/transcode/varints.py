"""Avro primitives of the interpreter of op lists, like `memory`: numbers, sizes and strings.

A number is zigzag-encoded (2 n, or -2 n - 1 if it is negative) as a varint, the lowest seven bits first. A size is such
a number. Nothing here checks offsets unless an end is passed.
"""

from __future__ import annotations

from typing import Any

from .memory import is_ascii, is_utf8, load

_WORD_BYTES, _LONG_BITS = 8, 64
_LONGEST, _LONGEST_LONG = 5, 10
_NO_SHORT_SIZE = 0x81
_BITS_63, _BITS_57 = (1 << 63) - 1, (1 << 57) - 1
UUID_BYTES = 36


def varint_end(data: Any, at: int, stop: int, bits: int) -> int:
    """Return the end of Avro's number of 32 or 64 bits; -1 if it is invalid, or longer than it needs to be."""
    size = varint_bytes(data, at)
    if size <= bits >> 3 and size <= stop - at and load(data, at + size - 1, 1) >= (size > 1):
        return at + size
    return any_varint_end(data, at, stop, bits)


def any_varint_end(data: Any, at: int, stop: int, bits: int) -> int:
    """Return the end of Avro's number of any length; -1 as in `varint_end`."""
    size, longest, most = varint_bytes(data, at), _LONGEST, 15
    while size > _WORD_BYTES and size <= _LONGEST_LONG and load(data, at + size - 1, 1) < 0:
        size += 1
    if bits == _LONG_BITS:
        longest, most = _LONGEST_LONG, 1
    if size > longest or size > stop - at:
        return -1
    last = load(data, at + size - 1, 1)
    is_long = (size > 1 and last == 0) or (size == longest and last > most)
    return -1 if is_long else at + size


def varint_bytes(data: Any, at: int) -> int:
    """Return the number of bytes up to the first one whose top bit is clear; 9 if it is none of the first 8."""
    size = 1
    while size <= _WORD_BYTES and load(data, at + size - 1, 1) < 0:
        size += 1
    return size


def varint(data: Any, at: int, end: int) -> int:
    """Return Avro's number between two offsets."""
    number = shift = 0
    while at < end:
        number |= (int(data[at]) & 0x7F) << shift
        shift += 7
        at += 1
    return number >> 1 & _BITS_63 ^ -(number & 1)


def var_size(data: Any, at: int, end: int) -> int:
    """Return Avro's size between two offsets; -1 if it is too long to be a size of a value."""
    return varint(data, at, end) if end - at <= _LONGEST else -1


def var_blob_end(data: Any, at: int, stop: int) -> int:
    """Return the end of Avro's bytes; -1 if they are invalid."""
    place = varint_end(data, at, stop, _LONG_BITS)
    size = var_size(data, at, place) if place >= 0 else -1
    return place + size if 0 <= size <= stop - place else -1


def var_text_end(data: Any, at: int, stop: int) -> int:
    """Return the end of Avro's string; -1 if it is invalid."""
    twice = load(data, at, 1)
    size = 1 + (twice >> 1)
    if twice & _NO_SHORT_SIZE == 0 and size <= stop - at and is_ascii(data, at, size):
        return at + size
    return any_var_text_end(data, at, stop)


def maybe_var_text_end(data: Any, at: int, stop: int, null: int) -> int:
    """Return the end of Avro's union of null, whose branch is the byte `null`, and a string; -1 if it is invalid."""
    flag, twice = load(data, at, 1), load(data, at + 1, 1)
    told = -((flag ^ null) >> 1)  # all bits of a string's size, none of a null's: as in `maybe_text_end`
    left = (1 + (twice >> 1)) & told
    is_plain = (flag & ~2) | (twice & told & _NO_SHORT_SIZE) == 0
    if is_plain and left < stop - at and is_ascii(data, at + 1, left):
        return at + 1 + left
    return any_var_text_end(data, at + 1, stop) if at < stop and flag == 2 - null else -1


def any_var_text_end(data: Any, at: int, stop: int) -> int:
    """Return the end of Avro's string of any length and characters; -1 if it is invalid."""
    end = var_blob_end(data, at, stop)
    place = varint_end(data, at, stop, _LONG_BITS)
    return end if end >= 0 and is_utf8(data, place, end - place) else -1


def put_varint(data: Any, at: int, number: int) -> int:
    """Write Avro's number; return its end."""
    rest = number << 1 ^ number >> 63
    while rest < 0 or rest > 0x7F:  # an unsigned 64-bit number, which machine code holds as a signed one
        data[at] = rest & 0x7F | 0x80
        rest = rest >> 7 & _BITS_57
        at += 1
    data[at] = rest
    return at + 1


def is_uuid(data: Any, at: int) -> bool:
    """Whether Avro's string, its size and 36 characters, is a UUID in lower case."""
    if data[at] != 2 * UUID_BYTES:
        return False
    for place in range(UUID_BYTES):
        byte = data[at + 1 + place]
        if place in (8, 13, 18, 23):
            if byte != 0x2D:
                return False
        elif not (0x30 <= byte <= 0x39 or 0x61 <= byte <= 0x66):
            return False
    return True


def digits_end(data: Any, at: int, stop: int, size: int, most: int) -> int:
    """Return the end of a signed integer; -1 if it is invalid or not from -`most` to `most`.

    Args:
        data: The bytes of the value.
        at: The offset of the integer.
        stop: The latest end of the integer.
        size: The size of the integer; 0 for Avro's bytes, as few as it needs and up to 8.
        most: The largest absolute value.
    """
    is_short = size == 0
    if is_short:
        if at >= stop or data[at] > 2 * _WORD_BYTES or data[at] & 1 or data[at] == 0:
            return -1
        size = load(data, at, 1) >> 1
        at += 1
    if size > stop - at:
        return -1
    end = at + size
    number = load(data, at, 1)
    at += 1
    if is_short and at < end and number in (0, -1) and (load(data, at, 1) < 0) == (number < 0):
        return -1
    while at < end:
        left = end - at
        if left >= _WORD_BYTES and number not in (0, -1):
            return -1
        if left == _WORD_BYTES and (load(data, at, 1) < 0) != (number < 0):
            return -1
        number = number << 8 | load(data, at, 1) & 0xFF
        at += 1
    return end if -most <= number <= most else -1


def is_little_number(data: Any, at: int) -> bool:
    """Whether the little-endian 32-bit float is not NaN."""
    is_special = data[at + 3] & 0x7F == 0x7F and data[at + 2] & 0x80 != 0
    return not is_special or (data[at + 2] & 0x7F == 0 and data[at + 1] == 0 and data[at] == 0)
