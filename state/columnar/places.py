"""The positions of keys and values in blocks of entries: `i32 n, key, i32 m, value`, each."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from ..transcode.choice import ExecutorName
from ..transcode.framed import find_entries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...serializers.columns.bytes_at import Bytes, Places


def places_of(
    raw: bytes, data: Bytes, sizes: Sequence[int], counts: Sequence[int], executor: ExecutorName
) -> tuple[Places, Places, Places, Places]:
    """Find the entries of consecutive blocks.

    Args:
        raw: The bytes of the blocks.
        data: The bytes as a numpy array.
        sizes: The number of bytes of each block.
        counts: The number of entries of each block.
        executor: The executor that finds them: machine code, or plain Python.

    Returns:
        The start and end of each key, and the start and end of each value.

    Raises:
        CorruptSavepoint: A block does not have its number of entries.
    """
    places = np.empty((4, sum(counts)), dtype=np.int64)
    row = 0
    for end, size, count in zip(accumulate(sizes), sizes, counts, strict=True):
        block = places[:, row : row + count]
        if executor is ExecutorName.NUMBA:
            find_entries(data, end - size, end, [*block])
        else:
            lists = [[0] * count for _ in block]  # Python fills lists faster than arrays
            find_entries(raw, end - size, end, lists)
            block[:] = lists
        row += count
    return places[0], places[1], places[2], places[3]
