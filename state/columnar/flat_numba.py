"""Decoding of consecutive numbers, booleans and strings in one pass over the rows, as machine code.

Each may have a null flag before it. Strings become UTF-8; a string with half of a surrogate pair, or with a character
in more bytes than necessary, makes its row odd. Only imported where numba is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...serializers.columns.bytes_at import TEXT, Flat
from ..transcode.kept_code import compiled
from ..transcode.memory import PADDING, address, copy, is_ascii, load, store
from ..transcode.numba_encodings import put_character

if TYPE_CHECKING:
    from ...serializers.columns.bytes_at import Bytes, Flags, Places

_MOST_SHIFT = 35
_ODD, _NULL = -1, -1


def decode_flat(
    data: Bytes, starts: Places, limits: Places, present: Flags, sizes: list[int], flagged: list[bool]
) -> Flat:
    """Decode parts; arguments and result as of `DecodeFlat`."""
    rows, parts = len(starts), len(sizes)
    bases = np.cumsum([0, *(size * rows + PADDING for size in sizes)])
    fixed = np.empty(bases[-1], np.uint8)
    # A character of two stored bytes may have three in UTF-8. The system allocates only pages that are written.
    capacity = int((limits - starts).sum()) * 3 // 2 + PADDING
    texts = np.empty((parts, capacity if TEXT in sizes else 0), np.uint8)
    offsets = np.zeros((parts, rows + 1), np.int32)
    there, ends, odd = np.empty((parts, rows), np.uint8), np.empty(rows, np.int64), np.empty(rows, np.bool_)
    _decode_flat(
        data, starts, limits, present, np.array(sizes, np.int64), np.array(flagged, np.int64), bases, fixed,
        texts, offsets, there, ends, odd,
    )  # fmt: skip
    return Flat(
        [fixed[base : base + size * rows] for base, size in zip(bases[:-1].tolist(), sizes, strict=True)],
        [(own, text[: own[-1]]) for own, text in zip(offsets, texts, strict=True)],
        [*there.view(np.bool_)],
        ends,
        odd,
    )


def load_compiled() -> None:
    """Load the machine code by running it on empty input."""
    nothing, places = np.frombuffer(bytes(PADDING), np.uint8), np.zeros(0, np.int64)
    decode_flat(nothing, places, places, np.zeros(0, np.bool_), [TEXT], [False])


@compiled
def _decode_flat(
    data: Any, starts: Any, limits: Any, present: Any, sizes: Any, flagged: Any, bases: Any, fixed: Any,
    texts: Any, offsets: Any, there: Any, ends: Any, odd: Any,
) -> Any:  # fmt: skip
    rows, parts, capacity = len(starts), len(sizes), texts.shape[1]
    here: Any = address(data)
    numbers: Any = address(fixed)
    letters: Any = address(texts)
    size_of: Any = address(sizes)
    flag_of: Any = address(flagged)
    base_of: Any = address(bases)
    offset_of: Any = address(offsets)
    has_value: Any = address(there)
    for row in range(rows):
        at, limit, is_odd = starts[row], limits[row], False
        for part in range(parts):
            size, is_there = size_of[part], present[row] and not is_odd
            if is_there and flag_of[part] != 0:
                is_odd = at >= limit or here[at] > 1
                is_there = not is_odd and here[at] == 0
                at += not is_odd
            if size != TEXT:
                if is_there and size > limit - at:
                    is_odd, is_there = True, False
                value = load(here, at, size) if is_there else 0
                store(numbers, base_of[part] + row * size, size, value)
                at += size * is_there
            else:
                place = part * (rows + 1) + row
                total = np.int64(offset_of[place])
                length: Any = np.int64(0)
                if is_there:
                    end, length = _text(here, at, limit, letters, part * capacity + total)
                    is_odd, is_there = end == _ODD, end != _ODD and length != _NULL
                    at, length = at if is_odd else end, length if is_there else 0
                offset_of[place + 1] = total + length
            has_value[part * rows + row] = np.uint8(is_there)
        ends[row], odd[row] = at, is_odd


def _text(data: Any, at: Any, limit: Any, target: Any, to: Any) -> Any:
    """Copy a string as UTF-8; return its end or `_ODD`, and its number of UTF-8 bytes or `_NULL`."""
    size, at = _varint(data, at, limit, _MOST_SHIFT)
    if at == _ODD or size <= 0:
        return at, np.int64(_NULL)
    count = size - 1
    if count > limit - at:
        return np.int64(_ODD), np.int64(0)
    if is_ascii(data, at, count):
        copy(target, to, data, at, count)
        return at + count, count
    begin, high = to, np.int64(0)
    for _ in range(count):
        before = at
        unit, at = _varint(data, at, limit, 21)
        is_low = 0xDC00 <= unit < 0xE000
        needs = 1 if unit < 0x80 else 2 if unit < 0x4000 else 3
        if at == _ODD or at - before != needs or unit > 0xFFFF or is_low != (high > 0):
            return np.int64(_ODD), np.int64(0)
        if 0xD800 <= unit < 0xDC00:
            high = unit
            continue
        if is_low:
            unit, high = 0x10000 + ((high - 0xD800) << 10) + unit - 0xDC00, np.int64(0)
        to = put_character(target, to, unit)
    return (at, to - begin) if high == 0 else (np.int64(_ODD), np.int64(0))


def _varint(data: Any, at: Any, limit: Any, most_shift: Any) -> Any:
    """Read a number with 7 bits in each byte, lowest first; return it, and its end or `_ODD`."""
    value = np.int64(0)
    for shift in range(0, most_shift, 7):
        if at >= limit:
            break
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    return value, np.int64(_ODD)
