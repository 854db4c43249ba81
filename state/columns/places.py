"""Where keys and values lie in blocks of entries: `i32 n, key, i32 m, value`, each."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from ...serializers.errors import CorruptSavepoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .bytes_at import Places

_LENGTH = struct.Struct(">i")


def find_entries(raw: bytes, sizes: Sequence[int], counts: Sequence[int]) -> tuple[Places, Places, Places, Places]:
    """Find the entries of blocks that stand one after the other.

    Args:
        raw: Their bytes, padded.
        sizes: Bytes of each block.
        counts: Entries of each block.

    Returns:
        Where each key starts and ends, and each value.

    Raises:
        CorruptSavepoint: A block does not hold its number of entries.
    """
    places = np.empty((4, sum(counts)), dtype=np.int64)
    at = row = 0
    for size, count in zip(sizes, counts, strict=True):
        end = at + size
        for _ in range(count):
            key = at + 4
            key_end = key + _LENGTH.unpack_from(raw, at)[0]
            if not key <= key_end <= end - 4:
                raise _broken()
            value_end = key_end + 4 + _LENGTH.unpack_from(raw, key_end)[0]
            if not key_end + 4 <= value_end <= end:
                raise _broken()
            places[:, row] = key, key_end, key_end + 4, value_end
            at, row = value_end, row + 1
        if at != end:
            raise _broken()
    return places[0], places[1], places[2], places[3]


def _broken() -> CorruptSavepoint:
    return CorruptSavepoint("the entries of a block are cut off or damaged")
