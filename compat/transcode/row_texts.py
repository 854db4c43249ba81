"""Where texts and numbers of a size of their own end, for many entries together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import columns

if TYPE_CHECKING:
    from .columns import Column
    from .rows import Rows

_MORE = 0x80
_TOP_BITS = np.uint64(0x8080808080808080)
_ONE, _EIGHT = np.uint64(1), np.uint64(8)


def text_ends(rows: Rows, *, may_be_null: bool, careful: bool) -> tuple[Column, bool]:
    """Give where strings end, of up to 2^14 characters, and whether their characters were looked at.

    Args:
        rows: At the strings.
        may_be_null: Whether a null flag stands before each.
        careful: Whether to look at the characters.
    """
    at = rows.at(rows.now)
    first = rows.byte(rows.now.moved(may_be_null))
    is_there = None
    if may_be_null:
        flag = rows.byte(rows.now)
        is_there = flag == 0
        rows.decline(flag > 1)
        first = first * is_there
    if careful or first.max(initial=0) >= _MORE:
        return _ends_of_any(rows, at + may_be_null, first, is_there), True
    rows.decline((first == 0) if is_there is None else (first == 0) & is_there)
    return at + (first + np.uint8(may_be_null)), False


def _ends_of_any(rows: Rows, at: Column, first: Column, is_there: Column | None) -> Column:
    """As `text_ends`, of texts of any characters and sizes up to 2^14; `at` are the places behind the null flags."""
    second = rows.buffer[at + 1]
    is_long = first >= _MORE
    sizes = np.where(is_long, (first & (_MORE - 1)) | second.astype(np.int64) << 7, first) - 1
    bad = (sizes < 0) | (is_long & ((second >= _MORE) | (second == 0)))
    at = at + 1 + is_long
    if is_there is not None:
        at, sizes, bad = at - ~is_there, np.where(is_there, sizes, 0), bad & is_there
    bad |= sizes > rows.stops - at
    sizes = np.where(bad, 0, sizes)
    rows.decline(bad)
    others = np.flatnonzero(~columns.are_ascii(rows.buffer, at, sizes))
    ends = at + sizes
    if len(others):
        ends[others] = _unit_ends(rows, others, at[others], sizes[others])
    return ends


def _unit_ends(rows: Rows, which: Column, at: Column, units: Column) -> Column:
    """Give where so many UTF-16 units end, varints of one to three bytes; entries with others are declined."""
    ends, bad = at.copy(), np.zeros(len(rows), bool)
    left = np.arange(len(at))
    step = 0
    while len(left):
        here = ends[left]
        one, two, three = (rows.buffer[np.minimum(here + more, len(rows.buffer) - 1)] for more in range(3))
        sizes = 1 + (one >= _MORE) + ((one >= _MORE) & (two >= _MORE))
        wrong = ((sizes == 2) & (two == 0)) | ((sizes == 3) & ((three == 0) | (three > 3)))
        wrong |= here + sizes > rows.stops[which[left]]
        bad[which[left[wrong]]] = True
        ends[left] = here + sizes
        step += 1
        left = left[~wrong & (units[left] > step)]
    rows.decline(bad)
    return ends


def long_sizes(words: Column) -> tuple[Column, Column]:
    """Of Avro's numbers, given by 8 bytes each: how many they take, 9 where they take more, and the last of them."""
    ends = ~words & _TOP_BITS
    sizes = np.bitwise_count((ends & -ends) - _ONE).astype(np.int64) >> 3
    sizes += 1
    last = (words >> (_EIGHT * np.minimum(sizes - 1, 7).astype(np.uint64))).astype(np.uint8)
    return np.where(ends == 0, 9, sizes), last


def numbers_of(words: Column) -> Column:
    """Give Avro's numbers of up to 8 bytes each, by these and what follows."""
    number, going = np.zeros(len(words), np.uint64), np.ones(len(words), bool)
    for place in range(8):
        byte = words >> np.uint64(8 * place)
        number |= np.where(going, byte & np.uint64(_MORE - 1), np.uint64(0)) << np.uint64(7 * place)
        going &= byte & np.uint64(_MORE) != 0
    return (number >> _ONE).astype(np.int64) ^ -(number & _ONE).astype(np.int64)


def var_text_ends(rows: Rows, *, careful: bool | None, null: int | None = None) -> tuple[Column, bool]:
    """As `text_ends`, of what Avro writes behind its size, up to 2^13 bytes.

    Args:
        rows: At the texts.
        careful: As there; None: they are bytes.
        null: How null is written before them, one of 0 and 2, where they may be null.
    """
    at, is_there = rows.at(rows.now), np.True_
    if null is None:
        first = rows.byte(rows.now)
    else:
        flag = rows.byte(rows.now)
        is_there = flag == 2 - null
        rows.decline(~is_there & (flag != null))
        at, first = at + 1, rows.byte(rows.now.moved(1)) * is_there
    is_long = first >= _MORE
    if careful is False and not is_long.any():
        rows.decline(first & 1 != 0)
        return at + is_there + (first >> 1), False
    second = rows.buffer[at + 1].astype(np.int64)
    number = np.where(is_long, first & (_MORE - 1) | second << 7, first)
    at = at + is_there + is_long
    bad = (number & 1 != 0) | (is_long & ((second >= _MORE) | (second == 0))) | (number >> 1 > rows.stops - at)
    sizes = np.where(bad, 0, number >> 1)
    rows.decline(bad)
    if careful is not None:
        rows.decline(~columns.are_ascii(rows.buffer, at, sizes))
    return at + sizes, True
