"""String primitives of the interpreter of op lists, like `memory`: conversion between Flink's strings and UTF-8.

A string is a varint of the number of its UTF-16 units plus one, and each unit as a varint of up to three bytes. Nothing
here checks offsets: callers have checked them.
"""

from __future__ import annotations

from typing import Any

from .memory import load, store

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
        to = _put_character(target, to, code)
    store(target, begin, 4, to - begin - 4)
    return to


def _put_character(target: Any, to: int, code: int) -> int:
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
