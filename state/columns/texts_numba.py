"""Strings of ASCII out of many places in one pass, as machine code; only imported where numba is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...compat.transcode.machine import PADDING, address, compiled
from ...compat.transcode.memory import copy, is_ascii

if TYPE_CHECKING:
    from .bytes_at import Bytes, Flags, Places

ASCII, OTHER, ODD = 0, 1, 2
_MOST_SHIFT = 35


@compiled
def _texts(
    data: Any, starts: Any, limits: Any, present: Any, offsets: Any, ends: Any, units: Any, what: Any, out: Any
) -> Any:
    total, room = 0, len(out) - PADDING
    for row in range(len(starts)):
        at, limit = starts[row], limits[row]
        offsets[row], ends[row], units[row], what[row] = total, at, 0, ASCII
        if not present[row]:
            continue
        size: Any = 0
        shift, is_read = 0, False
        while at < limit and shift < _MOST_SHIFT and not is_read:
            byte: Any = np.int64(data[at])
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            is_read = byte < 0x80
        count = max(size - 1, 0)
        if not is_read or count > limit - at or count > room - total:
            what[row] = ODD
            continue
        units[row], ends[row] = size, at + count
        if is_ascii(address(data), at, count):
            copy(address(out), total, address(data), at, count)
            total += count
        else:
            what[row] = OTHER
    offsets[len(starts)] = total
    return total


def texts(
    data: Bytes, starts: Places, limits: Places, present: Flags
) -> tuple[np.ndarray[Any, Any], Bytes, Places, Flags, Places]:
    """Gather strings.

    Args:
        data: The bytes, padded.
        starts: Where each string begins.
        limits: What it may not go past.
        present: Which rows have one; the others are null.

    Returns:
        Their offsets and bytes, as Arrow has them: those not of ASCII are empty. Where each ends. Which are not null.
        What each is: `ASCII`, `OTHER`, or `ODD` where it is none.
    """
    count = len(starts)
    offsets = np.empty(count + 1, np.int32)
    ends, units, what = (np.empty(count, np.int64) for _ in range(3))
    out = np.empty(len(data) + PADDING, np.uint8)  # of which the system gives only what is written
    total = _texts(data, starts, limits, present, offsets, ends, units, what, out)
    return offsets, out[:total], ends, units > 0, what
