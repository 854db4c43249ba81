"""Bytes as columns: what stands at many places of a buffer at once, gathered, scattered and looked through by numpy.

A view of a buffer whose items overlap (one begins at each byte) gathers items of any width from any places, at the
price of one fancy index. Places are int64; a buffer has `PADDING` bytes behind its end, so that words may be looked at
near it.
"""

from __future__ import annotations

from ctypes import addressof, c_char
from functools import lru_cache
from typing import Any

import numpy as np

PADDING = 64
WIDEST = 128
"""Ragged bytes are gathered in the width of the longest up to that."""
Column = Any
"""An array with a number for each entry."""

_TOP_BITS = np.array([0x8080808080808080 & (1 << 8 * size) - 1 for size in range(9)], np.uint64)
_PIECES = (16, 8, 4, 2, 1)


def padded(data: bytes | memoryview, room: int = PADDING) -> Any:
    """Give bytes as a buffer, with so many more behind them; where nobody has put those there, bytes are copied."""
    buffer, behind = np.frombuffer(data, np.uint8), bytes_behind(data)
    if behind < room:
        return np.frombuffer(b"".join((data, bytes(room))), np.uint8)
    return np.lib.stride_tricks.as_strided(buffer, (len(buffer) + room,), writeable=False)


def bytes_behind(block: bytes | memoryview) -> int:
    """Give how many bytes are known to follow a block in memory: of those that it is a view of."""
    if not isinstance(block, memoryview) or not block:
        return 0
    whole = memoryview(block.obj)
    return _address(whole) + whole.nbytes - _address(block) - block.nbytes


def _address(data: memoryview) -> int:
    if not data.readonly:  # several times as fast
        return addressof(c_char.from_buffer(data))
    array: Any = np.frombuffer(data, np.uint8)
    address: int = array.__array_interface__["data"][0]
    return address


def view(buffer: Any, dtype: str) -> Any:
    """Give the overlapping items of a type, one for each place of a buffer."""
    width = np.dtype(dtype).itemsize
    return np.ndarray((len(buffer) - width + 1,), dtype, buffer=buffer, strides=(1,))


def integers(buffer: Any, at: Column, size: int) -> Column:
    """Give the signed big-endian integers of 1, 2, 4 or 8 bytes at some places."""
    return view(buffer, f">i{size}")[at].astype(np.int64)


def words(buffer: Any, at: Column) -> Column:
    """Give the 8 bytes at some places as unsigned little-endian integers."""
    return view(buffer, "<u8")[at].astype(np.uint64)


def are_ascii(buffer: Any, at: Column, sizes: Column) -> Column:
    """Whether the top bit is clear in all of some bytes, for each place."""
    clear = np.ones(len(at), bool)
    longest = int(sizes.max(initial=0))
    for passed in range(0, longest, 8):
        left = np.clip(sizes - passed, 0, 8)
        places = np.minimum(at + passed, len(buffer) - 8)
        clear &= words(buffer, places) & _TOP_BITS[left] == 0
    return clear


def copy_fixed(target: Any, to: Column, source: Any, at: Column, size: int) -> None:
    """Copy as many bytes from each place to another."""
    for passed in range(0, size, PADDING):
        kind = f"V{min(size - passed, PADDING)}"
        view(target, kind)[to + passed] = view(source, kind)[at + passed]


def copy_ragged(target: Any, to: Column, source: Any, at: Column, sizes: Column) -> None:
    """Copy a number of bytes of its own from each place: in whole pieces, of which the last may overlap one before."""
    left = np.arange(len(sizes))
    for width in _PIECES:
        chosen = left[sizes[left] >= width]
        if len(chosen):
            _copy_pieces(target, to[chosen], source, at[chosen], sizes[chosen], width)
            left = left[sizes[left] < width]
        if not len(left):
            return


def _copy_pieces(target: Any, to: Column, source: Any, at: Column, sizes: Column, width: int) -> None:
    """Copy at least `width` bytes from each place."""
    kind = f"V{width}"
    there, here = view(target, kind), view(source, kind)
    there[to] = here[at]
    last = sizes - width
    for passed in range(width, int(last.max(initial=0)), width):
        more = last > passed
        there[to[more] + passed] = here[at[more] + passed]
    more = last > 0
    there[to[more] + last[more]] = here[at[more] + last[more]]


def put(target: Any, to: Column, values: Column, dtype: str) -> None:
    """Put numbers as items of a type."""
    view(target, dtype)[to] = values


def put_constant(target: Any, to: Column, data: bytes) -> None:
    """Put the same bytes at each place."""
    for passed in range(0, len(data), PADDING):
        piece = data[passed : passed + PADDING]
        view(target, f"V{len(piece)}")[to + passed] = np.frombuffer(piece, f"V{len(piece)}")[0]


def put_repeated(target: Any, to: Column, values: Column, count: int) -> None:
    """Put a byte of its own, so many times, at each place."""
    repeated = np.repeat(values.astype(np.uint8), count)
    view(target, f"V{count}")[to] = repeated.view(f"V{count}")


def gathered(buffer: Any, at: Column, behind: int, size: int) -> Any:
    """Give the bytes that lie so many bytes behind each place: a row of each, of `size` bytes or up to 7 more."""
    width = -(-size // 8) * 8
    if behind < 0:
        at, behind = at + behind, 0
    items = np.ndarray((len(buffer) - behind - width + 1,), f"V{width}", buffer=buffer, offset=behind, strides=(1,))
    return items[at].view(np.uint8).reshape(len(at), width)


def widest(sizes: Column) -> int:
    """Give the size of the longest, in whole words; 0 where that is more than most have."""
    longest = int(sizes.max(initial=1))
    is_too_wide = longest > WIDEST or longest > 2 * int(sizes.sum()) // max(len(sizes), 1) + 32
    return 0 if is_too_wide else -(-longest // 8) * 8


def widely(buffer: Any, at: Column, sizes: Column, least: int = 1) -> Any:
    """Gather ragged bytes in the width of the longest, `least` at least; None where that is more than most have."""
    width = widest(sizes)
    return gathered(buffer, at, 0, max(width, least)) if width else None


def scattered(target: Any, to: Column, rows: Any) -> None:
    """Put rows of bytes, each at its place; those of later rows stay where they overlap."""
    width = rows.shape[1]
    view(target, f"V{width}")[to] = rows.view(f"V{width}")[:, 0]


def have_no_top_bits(rows: Any, sizes: Column) -> Column | None:
    """Whether the top bit is clear in the first bytes of rows, as many as each has; None: in all of them."""
    clear: Column | None = None
    for place in range(0, rows.shape[1], 8):
        word = rows[:, place : place + 8].view(np.uint64)[:, 0]
        if not np.bitwise_or.reduce(word) & _TOP_BITS[8]:
            continue
        found = _top_bits(place).take(sizes)
        found &= word
        if np.bitwise_or.reduce(found):
            clear = found == 0 if clear is None else clear & (found == 0)
    return clear


@lru_cache(maxsize=64)
def _top_bits(passed: int) -> Any:
    """For each number of bytes up to `WIDEST`, a mask of the top bits of those among the 8 behind some."""
    return _TOP_BITS[np.clip(np.arange(WIDEST + 1) - passed, 0, 8)]
