"""Columns of values that contain others: behind a null flag, as parts one after the other, or repeated.

Machine code decodes adjacent plain parts at once, row by row, each optionally after a null flag; numpy decodes them one
by one. Source: performance notes, "Columnar transcoding in numpy".

Decoding of repeated values, as of lists, sets, arrays and maps.

Elements of fixed length are found by arithmetic. Others are decoded in steps: the first elements of all rows, then the
second ones, and so on, so that each step is a few operations on many rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from ..views import SEPARATOR
from .bytes_at import TEXT, bitmap, none, number_array, numbers_at
from .codec import ColumnCodec, Decoded, EncodedColumn, join_pieces, nulls_of, spread_bytes, together
from .scalars import BooleanCodec, NumberCodec, StringCodec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .bytes_at import Flags, Places
    from .codec import Cells, Matrix, Singly, Taker


@attrs.frozen
class OptionalCodec(ColumnCodec):
    """A flag and the value, or a null.

    Attributes:
        value: The codec of the values.
        padding: The number of bytes that replace the value of a null.
        null_flag: The flag of a null: 1 nearly everywhere, 0 in object arrays.
    """

    value: ColumnCodec
    padding: int = 0
    null_flag: int = 1

    @property
    def kind(self) -> pa.DataType:
        return self.value.kind

    def _arrow_value(self, value: Any) -> Any:
        return self.value.tell(value)

    def decode(self, cells: Cells) -> Decoded:
        begins, odd = cells.skipped(1)
        flags = cells.data[cells.starts]
        if self.null_flag and not flags.any():  # the usual case: no null, and no damage
            inner = self.value.decode(cells.moved(begins))
            return Decoded(inner.column, inner.ends, odd | inner.odd)
        odd |= flags > 1
        present = flags != self.null_flag
        inner = self.value.decode_some(cells.moved(begins), present)
        if not self.padding:
            return Decoded(inner.column, inner.ends, odd | inner.odd)
        padded, short = cells.moved(begins).skipped(self.padding)
        ends = np.where(present, inner.ends, padded)
        return Decoded(inner.column, ends, odd | inner.odd | (short & ~present))

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        return self.value.mismatches(kind, path)

    def taker(self) -> Taker | None:
        return self.value.taker()

    def _encoded(self, column: pa.Array, singly: Singly) -> EncodedColumn:
        return behind_flag(self.value, column, b"\1" + bytes(self.padding), singly)

    def within(self, kind: pa.DataType, path: str) -> Iterator[tuple[ColumnCodec, pa.DataType, str]]:
        yield self.value, kind, path


def behind_flag(codec: ColumnCodec, column: pa.Array, null: bytes, singly: Singly) -> EncodedColumn:
    """Encode values after a flag byte, nulls as `null`."""
    missing = nulls_of(column)
    zero: Matrix = np.zeros((len(column), 1), dtype=np.uint8)
    if not missing.any():
        inner = codec.encode(column, singly)
        return EncodedColumn((zero, *inner.pieces), inner.declined)
    inner = codec.encode(column.drop_null(), singly)
    declined = np.zeros(len(column), dtype=bool)
    declined[~missing] = inner.declined
    present = join_pieces((zero[~missing], *inner.pieces))
    return EncodedColumn((spread_bytes(present, missing, null),), declined)


_LEAST = 2


@attrs.frozen
class Parts:
    """Several decoded columns.

    Attributes:
        columns: The columns of the parts.
        ends: The position after the last part of each row.
        odd: Whether each row is odd: it could not be decoded.
    """

    columns: list[pa.Array]
    ends: Places
    odd: Flags


def decode_flat(codecs: Sequence[ColumnCodec], cells: Cells) -> Parts | None:
    """Decode the leading numbers, booleans and strings by machine code; return None if it does not apply.

    Args:
        codecs: The codecs of the parts.
        cells: The positions of the first part in each row.
    """
    if cells.decode_flat is None:
        return None
    bare: list[ColumnCodec] = []
    flagged: list[bool] = []
    for codec in codecs:
        inner = (
            codec.value if isinstance(codec, OptionalCodec) and codec.null_flag == 1 and not codec.padding else codec
        )
        if not isinstance(inner, NumberCodec | BooleanCodec) and type(inner) is not StringCodec:
            break
        bare.append(inner)
        flagged.append(inner is not codec)
    if len(bare) < _LEAST and not any(isinstance(codec, StringCodec) for codec in bare):
        return None
    sizes = [TEXT if isinstance(codec, StringCodec) else codec.size for codec in bare]
    found = cells.decode_flat(cells.data, cells.starts, cells.limits, ~none(len(cells)), sizes, flagged)
    columns, odd = [], found.odd
    for codec, number, text, there in zip(bare, found.numbers, found.texts, found.present, strict=True):
        if isinstance(codec, NumberCodec):
            values = number.view(codec.form).astype(np.dtype(codec.form).newbyteorder("="))
            columns.append(number_array(codec.kind, values, there))
        elif isinstance(codec, BooleanCodec):
            columns.append(pa.array(number == 1, mask=None if there.all() else ~there))
            odd |= number > 1
        else:
            buffers = [bitmap(there), pa.py_buffer(text[0]), pa.py_buffer(text[1])]
            columns.append(pa.Array.from_buffers(pa.string(), len(cells), buffers))
    return Parts(columns, found.ends, odd)


@attrs.frozen
class Part:
    """A part of a struct.

    Attributes:
        name: The name of the part in the struct.
        codec: The codec of the part.
    """

    name: str
    codec: ColumnCodec


def struct_of(parts: tuple[Part, ...]) -> pa.DataType:
    """Return the Arrow type of a struct with these parts."""
    return pa.struct([pa.field(part.name, part.codec.kind) for part in parts])


def struct_array(kind: pa.DataType, columns: list[pa.Array], count: int, valid: Flags | None = None) -> pa.Array:
    """Return an array of `count` structs of the columns, which may be none."""
    if not columns:
        return pa.array([{}] * count, kind)
    mask = None if valid is None or valid.all() else pa.array(~valid)
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)


def decode_parts(parts: tuple[Part, ...], cells: Cells) -> tuple[list[pa.Array], Places, Flags]:
    """Decode consecutive parts; return their columns, the positions after the last part, and the odd rows."""
    columns: list[pa.Array] = []
    odd = none(len(cells))
    while len(columns) < len(parts):
        codecs = [part.codec for part in parts[len(columns) :]]
        several = decode_flat(codecs, cells)
        if several is not None:
            columns += several.columns
            cells = cells.moved(several.ends)
            odd |= several.odd
            continue
        found = parts[len(columns)].codec.decode(cells)
        columns.append(found.column)
        odd |= found.odd
        cells = cells.moved(found.ends)
    return columns, cells.starts, odd


@attrs.frozen
class StructCodec(ColumnCodec):
    """Values that are stored as their parts, without bytes between them, and become a struct."""

    parts: tuple[Part, ...]

    @property
    def kind(self) -> pa.DataType:
        return struct_of(self.parts)

    @property
    def size(self) -> int:
        sizes = [part.codec.size for part in self.parts]
        return -1 if -1 in sizes or not sizes else sum(sizes)

    def decode(self, cells: Cells) -> Decoded:
        columns, ends, odd = decode_parts(self.parts, cells)
        return Decoded(struct_array(self.kind, columns, len(cells)), ends, odd)

    def _encoded(self, column: pa.Array, singly: Singly) -> EncodedColumn | None:
        if not pa.types.is_struct(column.type) or not self.parts:
            return None
        pairs = zip(self.parts, column.flatten(), strict=True)
        return together([part.codec.encode(field, singly) for part, field in pairs], nulls_of(column))


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
    stride = item.size + len(SEPARATOR)
    sizes = cells.limits - cells.starts
    counts = (sizes + len(SEPARATOR)) // stride * (sizes > 0)
    odd |= (sizes > 0) & ((sizes + len(SEPARATOR)) % stride != 0)
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
        ends[rows] += len(SEPARATOR)
        cut = ends[rows] >= cells.limits[rows]
        odd[rows[cut]] = True
        rows = rows[~cut]
