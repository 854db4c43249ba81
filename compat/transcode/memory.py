"""What the interpreter of op lists asks of bytes; numba replaces most of it by a few machine instructions each.

Nothing here checks a place: who calls has done so.
"""

from __future__ import annotations

import struct
from typing import Any

_FLOATS = {4: struct.Struct(">f"), 8: struct.Struct(">d")}
_MANTISSA, _EXPONENT = 0x7FFFFF, 0xFF
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_LONGEST_COUNT = 5
_MIX, _BITS_64 = 0x9E3779B97F4A7C15, (1 << 64) - 1


def load(data: Any, at: int, size: int) -> int:
    """Give the signed big-endian integer of 1, 2, 4 or 8 bytes."""
    return int.from_bytes(data[at : at + size], "big", signed=True)


def load_rest(data: Any, at: int, size: int) -> int:
    """Give the unsigned big-endian integer of up to 7 bytes."""
    return int.from_bytes(data[at : at + size], "big")


def mixed(number: int, word: int) -> int:
    """Mix a word into a number, both of 64 bits; the executor gives the result as signed."""
    number = ((number ^ word) * _MIX) & _BITS_64
    return number ^ number >> 32


def store(data: Any, at: int, size: int, value: int) -> None:
    """Put a signed big-endian integer of 1, 2, 4 or 8 bytes."""
    data[at : at + size] = value.to_bytes(size, "big", signed=True)


def store_float(data: Any, at: int, size: int, value: float) -> None:
    """Put a big-endian float of 4 or 8 bytes."""
    _FLOATS[size].pack_into(data, at, value)


def load_single(data: Any, at: int) -> float:
    """Give the 32-bit float, as one of 64."""
    value: float = _FLOATS[4].unpack_from(data, at)[0]
    return value


def copy(target: Any, to: int, source: Any, at: int, size: int) -> None:
    """Copy bytes; the executor may write up to 15 bytes more, which are overwritten or never read."""
    target[to : to + size] = source[at : at + size]


def is_ascii(data: Any, at: int, size: int) -> bool:
    """Whether the top bit of every byte is clear."""
    return bytes(data[at : at + size]).isascii()


def text_end(data: Any, at: int, stop: int) -> int:
    """Give where a string ends; -1 where it is null, or not written as Flink writes it."""
    size = shift = 0
    while True:
        if at >= stop or shift >= 7 * _LONGEST_COUNT:
            return -1
        byte = int(data[at])
        at += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
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
    """Give where a UTF-16 unit ends, a varint of one to three bytes; -1 where it is none."""
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


def big_integer_end(data: Any, at: int, stop: int) -> int:
    """Give where a big integer ends; -1 where it is null, or in more bytes than it needs."""
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
    """Whether it is a day of the calendar that Java's LocalDate holds."""
    if not (-999_999_999 <= year <= 999_999_999 and 1 <= month <= 12):
        return False
    is_leap_day = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 1 <= day <= _MONTH_DAYS[month - 1] + is_leap_day


def is_number(data: Any, at: int) -> bool:
    """Whether the 32-bit float is a number, and not NaN."""
    bits = load(data, at, 4)
    return (bits >> 23) & _EXPONENT != _EXPONENT or bits & _MANTISSA == 0


def is_less(data: Any, first: int, first_end: int, second: int, second_end: int) -> bool:
    """Whether bytes come before others, in the order of unsigned bytes, the shorter first."""
    while first < first_end and second < second_end:
        if data[first] != data[second]:
            return bool(data[first] < data[second])
        first += 1
        second += 1
    return first >= first_end and second < second_end
