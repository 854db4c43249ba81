"""Text and number primitives of the interpreter of op lists, like `memory`: Flink's strings, UTF-8, Avro's numbers.

A string of Flink is a varint of the number of its UTF-16 units plus one, and each unit as a varint of up to three
bytes. A number of Avro is zigzag-encoded (2 n, or -2 n - 1 if it is negative) as a varint, the lowest seven bits first;
a size is such a number. Nothing here checks offsets unless an end is passed: callers have checked them.
"""

from __future__ import annotations

from typing import Any

from .memory import is_ascii, is_utf8, load, store

LEAST_TEXT_CAPACITY = 16
"""The buffer space that is needed in addition to two bytes for each old byte."""
_FIRST_HIGH, _FIRST_LOW, _BEHIND_LOW = 0xD800, 0xDC00, 0xE000
_FIRST_BEYOND = 0x10000


def unit_bytes(data: Any, at: int) -> int:
    """Return the number of bytes of a varint."""
    size = 1
    while load(data, at + size - 1, 1) < 0:
        size += 1
    return size


def unit_at(data: Any, at: int, size: int) -> int:
    """Return a UTF-16 unit encoded in `size` bytes."""
    unit = shift = 0
    for place in range(size):
        unit |= (load(data, at + place, 1) & 0x7F) << shift
        shift += 7
    return unit


def has_whole_characters(data: Any, at: int, end: int) -> bool:
    """Whether all surrogates of a valid string are paired."""
    at += unit_bytes(data, at)
    awaits = False
    while at < end:
        size = unit_bytes(data, at)
        unit = unit_at(data, at, size)
        if awaits != (_FIRST_LOW <= unit < _BEHIND_LOW):
            return False
        awaits = _FIRST_HIGH <= unit < _FIRST_LOW
        at += size
    return not awaits


def put_utf8(target: Any, to: int, data: Any, at: int, end: int) -> int:
    """Write an i32 size and a string without unpaired surrogates in UTF-8; return the end."""
    begin = to
    to += 4
    at += unit_bytes(data, at)
    while at < end:
        size = unit_bytes(data, at)
        code = unit_at(data, at, size)
        at += size
        if _FIRST_HIGH <= code < _FIRST_LOW:
            size = unit_bytes(data, at)
            code = _FIRST_BEYOND + ((code - _FIRST_HIGH) << 10) + unit_at(data, at, size) - _FIRST_LOW
            at += size
        to = put_character(target, to, code)
    store(target, begin, 4, to - begin - 4)
    return to


def put_character(target: Any, to: int, code: int) -> int:
    """Write a character in UTF-8; return its end."""
    more = (code >= 0x80) + (code >= 0x800) + (code >= _FIRST_BEYOND)
    if more == 0:
        target[to] = code
        return to + 1
    target[to] = 0xFF00 >> (more + 1) & 0xFF | code >> 6 * more
    for left in range(more - 1, -1, -1):
        to += 1
        target[to] = 0x80 | code >> 6 * left & 0x3F
    return to + 1


def put_text(target: Any, to: int, data: Any, at: int, end: int) -> int:
    """Write valid UTF-8 as a string; return its end."""
    units = 1
    for place in range(at, end):
        byte = load(data, place, 1) & 0xFF
        units += (byte & 0xC0 != 0x80) + (byte >= 0xF0)
    to = put_unit(target, to, units)
    while at < end:
        first = load(data, at, 1) & 0xFF
        more = (first >= 0xC0) + (first >= 0xE0) + (first >= 0xF0)
        code = first if more == 0 else first & 0x3F >> more
        for place in range(more):
            code = code << 6 | load(data, at + 1 + place, 1) & 0x3F
        at += 1 + more
        if code >= _FIRST_BEYOND:
            code -= _FIRST_BEYOND
            to = put_unit(target, to, _FIRST_HIGH + (code >> 10))
            code = _FIRST_LOW + (code & 0x3FF)
        to = put_unit(target, to, code)
    return to


def put_unit(target: Any, to: int, unit: int) -> int:
    """Write a varint; return its end."""
    while unit > 0x7F:
        target[to] = unit & 0x7F | 0x80
        unit >>= 7
        to += 1
    target[to] = unit
    return to + 1


def put_big_integer(target: Any, to: int, number: int) -> int:
    """Write a 64-bit number as a big integer, in as few bytes as possible; return its end."""
    if number in (0, 1, 10):
        store(target, to, 4, 3 if number == 10 else number + 1)
        return to + 4
    rest, size = number if number >= 0 else ~number, 1
    while rest > 0x7F:
        rest >>= 8
        size += 1
    store(target, to, 4, size + 4)
    for left in range(size - 1, -1, -1):
        target[to + 3 + size - left] = number >> 8 * left & 0xFF
    return to + 4 + size


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
