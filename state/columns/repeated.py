"""Columns of lists, sets, arrays and maps, as Spark's arrays and maps.

Elements of fixed length are found by arithmetic. Others are decoded in steps: the first elements of all rows, then the
second ones, and so on, so that each step is a few operations on many rows. The elements of a set have no defined order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from ...serializers.layout import SEPARATOR_BYTES
from .bytes_at import none, number_array, numbers_at
from .form import ColumnForm, Decoded, not_in_column, told_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .bytes_at import Flags, Places
    from .form import Cells
    from .nested import PairForm

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


def counted(item: ColumnForm, cells: Cells) -> Items:
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


def separated(item: ColumnForm, cells: Cells) -> Items:
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


def _of_one_size(item: ColumnForm, cells: Cells, counts: Places, odd: Flags, stride: int) -> Items:
    offsets = _offsets(counts)
    starts = np.repeat(cells.starts - offsets[:-1] * stride, counts) + np.arange(offsets[-1]) * stride
    found = item.decode(attrs.evolve(cells, starts=starts, limits=np.repeat(cells.limits, counts)))
    if found.odd.any():
        odd = odd.copy()
        odd[np.repeat(np.arange(len(counts)), counts)[found.odd]] = True
    return Items(found.column, offsets, cells.starts + counts * stride, odd)


def _in_step(item: ColumnForm, cells: Cells, odd: Flags, counts: Places | None) -> Items:
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


@attrs.frozen
class ListForm(ColumnForm):
    """Lists, arrays and sets.

    Attributes:
        element: The form of the elements.
        item: The form of the stored elements: in sets and object arrays with a null flag before each.
        is_separated: Whether the lists are values of a list state, which have no count.
    """

    element: ColumnForm
    item: ColumnForm
    is_separated: bool = False

    @property
    def kind(self) -> pa.DataType:
        return pa.list_(pa.field("element", self.element.kind))

    def _told(self, value: Any) -> Any:
        return [told_at(self.element, item, "[]") for item in value]

    def decode(self, cells: Cells) -> Decoded:
        found = (separated if self.is_separated else counted)(self.item, cells)
        offsets = number_array(pa.int32(), found.offsets.astype(np.int32))
        return Decoded(pa.ListArray.from_arrays(offsets, found.column, type=self.kind), found.ends, found.odd)


@attrs.frozen
class MapForm(ColumnForm):
    """Maps.

    Attributes:
        pair: The form of the stored pairs of key and value.
    """

    pair: PairForm

    @property
    def _key(self) -> ColumnForm:
        return self.pair.parts[0].form

    @property
    def _value(self) -> ColumnForm:
        return self.pair.parts[1].form

    @property
    def kind(self) -> pa.DataType:
        return pa.map_(pa.field("key", self._key.kind, nullable=False), pa.field("value", self._value.kind))

    def _told(self, value: Any) -> Any:
        pairs = []
        for name, item in value.items():
            key = told_at(self._key, name, "<key>")
            if key is None:
                raise not_in_column(value, "has a null key, which Spark maps cannot have", "leave the state out")
            pairs.append((key, told_at(self._value, item, "{}")))
        return pairs

    def decode(self, cells: Cells) -> Decoded:
        found = counted(self.pair, cells)
        keys, values = found.column.flatten()
        if keys.null_count:  # Arrow does not allow null keys: reading singly finds the row
            return Decoded(pa.nulls(len(cells), self.kind), found.ends, ~none(len(cells)))
        offsets = number_array(pa.int32(), found.offsets.astype(np.int32))
        column = pa.MapArray.from_arrays(offsets, keys, values, type=self.kind)
        return Decoded(column, found.ends, found.odd)
