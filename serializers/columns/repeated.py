"""Decoding of repeated values, as of lists, sets, arrays and maps.

Elements of fixed length are found by arithmetic. Others are decoded in steps: the first elements of all rows, then the
second ones, and so on, so that each step is a few operations on many rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
import pyarrow as pa

from ..layout import SEPARATOR_BYTES
from .bytes_at import none, numbers_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .bytes_at import Flags, Places
    from .codec import Cells, ColumnCodec

_FEW_ROWS, _MANY_STEPS = 40, 64
"""After `_MANY_STEPS` steps, the serializer reads fewer than `_FEW_ROWS` rows, because it is faster for few rows."""


@attrs.frozen
class Items:
    """The decoded elements of all rows, row by row.

    Attributes:
        column: The elements.
        offsets: The position in the column at which each row begins, and the end of the last row.
        ends: The position in the bytes after each row.
        odd: Whether each row is odd: it could not be decoded.
    """

    column: pa.Array
    offsets: Places
    ends: Places
    odd: Flags


def counted(item: ColumnCodec, cells: Cells) -> Items:
    """Decode an i32 count and that many items."""
    begins, odd = cells.skipped(4)
    counts = numbers_at(cells.data, cells.starts, ">i4").astype(np.int64)
    odd = odd | (counts < 0) | (counts > cells.limits - begins)
    counts[odd] = 0
    if item.size < 0:
        return _in_step(item, cells.moved(begins), odd, counts)
    odd = odd | (begins + counts * item.size > cells.limits)
    counts[odd] = 0
    return _of_one_size(item, cells.moved(begins), counts, odd, item.size)


def separated(item: ColumnCodec, cells: Cells) -> Items:
    """Decode items with one byte between them, up to the limit."""
    odd = none(len(cells))
    if item.size < 0:
        return _in_step(item, cells, odd, None)
    stride = item.size + SEPARATOR_BYTES
    sizes = cells.limits - cells.starts
    counts = (sizes + SEPARATOR_BYTES) // stride * (sizes > 0)
    odd |= (sizes > 0) & ((sizes + SEPARATOR_BYTES) % stride != 0)
    counts[odd] = 0
    found = _of_one_size(item, cells, counts, odd, stride)
    return attrs.evolve(found, ends=np.where(found.odd, found.ends, cells.limits))


def _offsets(counts: Places) -> Places:
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _of_one_size(item: ColumnCodec, cells: Cells, counts: Places, odd: Flags, stride: int) -> Items:
    offsets = _offsets(counts)
    starts = np.repeat(cells.starts - offsets[:-1] * stride, counts) + np.arange(offsets[-1]) * stride
    found = item.decode(attrs.evolve(cells, starts=starts, limits=np.repeat(cells.limits, counts)))
    if found.odd.any():
        odd = odd.copy()
        odd[np.repeat(np.arange(len(counts)), counts)[found.odd]] = True
    return Items(found.column, offsets, cells.starts + counts * stride, odd)


def _in_step(item: ColumnCodec, cells: Cells, odd: Flags, counts: Places | None) -> Items:
    """Decode items of variable length in steps; without counts they have one byte between them, up to the limit."""
    ends, odd = cells.starts.copy(), odd.copy()
    got = np.zeros(len(cells), dtype=np.int64)
    steps: list[tuple[Places, pa.Array]] = []
    for index, rows in enumerate(_rows_of_steps(cells, ends, odd, counts)):
        if index > _MANY_STEPS and len(rows) < _FEW_ROWS:
            odd[rows] = True
            break
        found = item.decode(attrs.evolve(cells, starts=ends[rows], limits=cells.limits[rows]))
        ends[rows] = found.ends
        odd[rows] = found.odd
        got[rows] += 1
        steps.append((rows, found.column))
    offsets = _offsets(got)
    if not steps:
        return Items(pa.array([], item.kind), offsets, ends, odd)
    # The steps' columns have all first elements, then all second ones: reorder them by row.
    order = np.empty(offsets[-1], dtype=np.int64)
    at = 0
    for index, (rows, _) in enumerate(steps):
        order[offsets[rows] + index] = np.arange(at, at + len(rows))
        at += len(rows)
    return Items(pa.concat_arrays([column for _, column in steps]).take(pa.array(order)), offsets, ends, odd)


def _rows_of_steps(cells: Cells, ends: Places, odd: Flags, counts: Places | None) -> Iterator[Places]:
    """Yield the rows that have a first item, a second one, and so on; the caller updates `ends` and `odd` between."""
    if counts is not None:
        index = 0
        while len(rows := np.flatnonzero((counts > index) & ~odd)):
            yield rows
            index += 1
        return
    rows = np.flatnonzero(ends < cells.limits)
    while len(rows):
        yield rows
        rows = rows[(ends[rows] < cells.limits[rows]) & ~odd[rows]]
        ends[rows] += SEPARATOR_BYTES
        cut = ends[rows] >= cells.limits[rows]
        odd[rows[cut]] = True
        rows = rows[~cut]
