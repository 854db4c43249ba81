"""Where keys and values lie in blocks of entries: `i32 n, key, i32 m, value`, each."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from ...compat.transcode.executors import ExecutorName, machine_code, paying
from ...compat.transcode.framed import find_entries
from ...compat.transcode.lockstep import Entries
from ...compat.transcode.lockstep import find_entries as find_in_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .bytes_at import Bytes, Places


def places_of(
    raw: bytes, data: Bytes, sizes: Sequence[int], counts: Sequence[int], known: Sequence[Entries | None] = ()
) -> tuple[Places, Places, Places, Places]:
    """Find the entries of blocks that stand one after the other.

    Args:
        raw: Their bytes.
        data: The same for numpy.
        sizes: Bytes of each block.
        counts: Entries of each block.
        known: What is known already of where each block has them.

    Returns:
        Where each key starts and ends, and each value.

    Raises:
        CorruptSavepoint: A block does not hold its number of entries.
    """
    if any(sizes) and paying(sum(sizes)) is ExecutorName.NUMPY:
        found = _in_columns(data, sizes, counts, known)
        if found is not None:
            return found
    places = np.empty((4, sum(counts)), dtype=np.int64)
    row = 0
    for end, size, count in zip(accumulate(sizes), sizes, counts, strict=True):
        block = places[:, row : row + count]
        if machine_code(size) is None:
            lists = [[0] * count for _ in block]  # which Python fills faster than arrays
            find_entries(raw, end - size, end, lists)
            block[:] = lists
        else:
            find_entries(data, end - size, end, [*block])
        row += count
    return places[0], places[1], places[2], places[3]


def _in_columns(
    data: Bytes, sizes: Sequence[int], counts: Sequence[int], known: Sequence[Entries | None]
) -> tuple[Places, Places, Places, Places] | None:
    """As `places_of`, all at once; None where only plain Python can tell."""
    ends = np.cumsum(sizes, dtype=np.int64)
    begins = ends - sizes
    whole = [one for one in known if one is not None]
    if whole and len(whole) == len(sizes):
        found: Entries | None = Entries.joined([e.part(0, len(e), -at) for e, at in zip(whole, begins, strict=True)])
    else:
        filled = ends > begins
        found = find_in_columns(data, begins[filled], ends[filled], stored=False)
    if found is None or (np.diff(np.searchsorted(found.starts, [0, *ends])) != counts).any():
        return None
    return found.starts + 4, found.values - 4, found.values, np.append(found.starts[1:], ends[-1:])
