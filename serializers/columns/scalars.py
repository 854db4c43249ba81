"""Codecs of numbers of fixed length, booleans, text, opaque bytes and nothing, which several families use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import StateShiftError
from ..views import DataInputView
from .bytes_at import TEXT, bitmap, byte_strings, is_ascii, number_array, numbers_at, varints_at
from .codec import (
    ColumnCodec,
    Decoded,
    EncodedColumn,
    is_text,
    not_in_column,
    nulls_of,
    number_bytes,
    numbers_of,
    read_one,
    varints,
)

if TYPE_CHECKING:
    from .bytes_at import DecodeFlat, Flags, Places
    from .codec import Cells, Singly

_EXACT_INTEGERS = 1 << 53
_DOUBLE_BYTES = 8


@attrs.frozen
class NumberCodec(ColumnCodec):
    """Integers of fixed length.

    Attributes:
        kind: The Arrow type of the column.
        form: The numpy format of the stored bytes.
    """

    kind: pa.DataType
    form: str

    @property
    def is_plain(self) -> bool:
        return bool(pa.types.is_integer(self.kind))  # 0.0 equals -0.0 in Spark, but is another key in Java

    @property
    def size(self) -> int:
        return np.dtype(self.form).itemsize

    def _arrow_value(self, value: Any) -> Any:
        return value

    def decode(self, cells: Cells) -> Decoded:
        ends, odd = cells.skipped(self.size)
        return Decoded(number_array(self.kind, numbers_at(cells.data, cells.starts, self.form)), ends, odd)

    def decode_some(self, cells: Cells, present: Flags) -> Decoded:
        ends, odd = cells.skipped(self.size)
        column = number_array(self.kind, numbers_at(cells.data, cells.starts, self.form), present)
        return Decoded(column, np.where(present, ends, cells.starts), odd & present)

    def _fits(self, kind: pa.DataType) -> bool:
        return bool(pa.types.is_integer(kind))

    def _encoded(self, column: pa.Array, singly: Singly) -> EncodedColumn | None:
        if not pa.types.is_integer(column.type):
            return None
        values = numbers_of(column)
        form = np.dtype(self.form)
        declined = nulls_of(column)
        if values.dtype.itemsize > form.itemsize:
            limits = np.iinfo(form)
            declined |= (values < limits.min) | (values > limits.max)
        return EncodedColumn((number_bytes(values, form.str),), declined)


@attrs.frozen
class FloatCodec(NumberCodec):
    """Floats of 32 or 64 bits."""

    def _fits(self, kind: pa.DataType) -> bool:
        return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))

    def _encoded(self, column: pa.Array, singly: Singly) -> EncodedColumn | None:
        if not self._fits(column.type):
            return None
        values = numbers_of(column).astype(np.float64)
        declined = nulls_of(column) | _inexact(column)
        if self.size == _DOUBLE_BYTES:
            return EncodedColumn((number_bytes(values, self.form),), declined)
        with np.errstate(over="ignore"):
            rounded = values.astype(np.float32)
        return EncodedColumn((number_bytes(rounded, self.form),), declined | (np.isinf(rounded) & ~np.isinf(values)))


def _inexact(column: pa.Array) -> Flags:
    """Return which integers a double might round; these are left to the serializer."""
    if not pa.types.is_integer(column.type):
        return np.zeros(len(column), dtype=bool)
    values = numbers_of(column)
    return np.asarray((values > _EXACT_INTEGERS) | (values < -_EXACT_INTEGERS))


@attrs.frozen
class BooleanCodec(ColumnCodec):
    """Booleans: a byte 0 or 1."""

    is_plain = True
    kind = pa.bool_()
    size = 1

    def _arrow_value(self, value: Any) -> Any:
        return value

    def decode(self, cells: Cells) -> Decoded:
        ends, odd = cells.skipped(1)
        values = cells.data[cells.starts]
        return Decoded(pa.array(values == 1), ends, odd | (values > 1))

    def _fits(self, kind: pa.DataType) -> bool:
        return bool(pa.types.is_boolean(kind))

    def _encoded(self, column: pa.Array, singly: Singly) -> EncodedColumn | None:
        if not pa.types.is_boolean(column.type):
            return None
        return EncodedColumn((numbers_of(column).astype(np.uint8).reshape(-1, 1),), nulls_of(column))


@attrs.frozen
class NothingCodec(ColumnCodec):
    """Void: a byte 0, and no value."""

    kind = pa.null()
    size = 1

    def _arrow_value(self, value: Any) -> Any:
        return None

    def decode(self, cells: Cells) -> Decoded:
        ends, odd = cells.skipped(1)
        return Decoded(pa.nulls(len(cells)), ends, odd | (cells.data[cells.starts] != 0))


@attrs.frozen
class TextCodec(ColumnCodec):
    """Values that become text: by default a string as it is."""

    kind = pa.string()

    def _arrow_value(self, value: Any) -> Any:
        text = str(value)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise not_in_column(
                value,
                "contains half of a surrogate pair, which a string column cannot hold",
                "leave the state out, or read it in Python: stateshift.Savepoint",
            ) from None
        return text


@attrs.frozen
class StringCodec(TextCodec):
    """Flink's strings. With numpy, ASCII strings are copied as stored, and each other string is read singly."""

    is_plain = True

    def decode(self, cells: Cells) -> Decoded:
        return self.decode_some(cells, np.ones(len(cells), dtype=bool))

    def decode_some(self, cells: Cells, present: Flags) -> Decoded:
        if cells.decode_flat is not None:
            return self._decoded_fast(cells, present, cells.decode_flat)
        units, header = varints_at(cells.data, cells.starts)
        found = self._decoded(cells, units * present, header * present)
        return attrs.evolve(found, odd=found.odd & present)

    def _decoded_fast(self, cells: Cells, present: Flags, decode_flat: DecodeFlat) -> Decoded:
        found = decode_flat(cells.data, cells.starts, cells.limits, present, [TEXT], [False])
        ((offsets, letters),) = found.texts
        buffers = [bitmap(found.present[0]), pa.py_buffer(offsets), pa.py_buffer(letters)]
        return Decoded(pa.Array.from_buffers(pa.string(), len(cells), buffers), found.ends, found.odd)

    def _decoded(self, cells: Cells, units: Places, header: Places) -> Decoded:
        """Decode strings of `units` UTF-16 units (plus one; 0: null) after `header` bytes."""
        valid = units > 0
        begins = np.minimum(cells.starts + header, cells.limits)
        ends = begins + np.maximum(units - 1, 0)
        odd = (header == 0) | (ends > cells.limits)
        if odd.any():
            ends = np.where(odd, begins, ends)
        binary = byte_strings(cells.data, begins, ends)
        _, offsets, values = binary.buffers()
        nulls = bitmap(valid)
        text = pa.Array.from_buffers(pa.string(), len(cells), [nulls, offsets, values])
        if is_ascii(values):
            return Decoded(text, ends, odd)
        raw = pa.Array.from_buffers(pa.string(), len(text), [None, offsets, values])
        others = ~np.asarray(pc.string_is_ascii(raw).to_numpy(zero_copy_only=False), dtype=bool)
        return self._with_others(cells, Decoded(text, ends, odd), others)

    def _with_others(self, cells: Cells, decoded: Decoded, others: Flags) -> Decoded:
        """Return `decoded` with the non-ASCII strings, each of which is read singly."""
        text, ends, odd = decoded.column, decoded.ends, decoded.odd
        found = []
        for row in np.flatnonzero(others).tolist():
            source = DataInputView(cells.raw, int(cells.starts[row]), int(cells.limits[row]))
            try:
                found.append(self.tell(read_one(self.serializer, source)))
                ends[row] = source.position
            except StateShiftError:
                found.append(None)
                odd[row] = True
        return Decoded(pc.replace_with_mask(text, pa.array(others), pa.array(found, pa.string())), ends, odd)

    def _fits(self, kind: pa.DataType) -> bool:
        return is_text(kind)

    def _encoded(self, column: pa.Array, singly: Singly) -> EncodedColumn | None:
        if not is_text(column.type):
            return None
        declined = nulls_of(column)
        column = pc.fill_null(column, "") if column.null_count else column
        declined |= ~np.asarray(pc.string_is_ascii(column).to_numpy(zero_copy_only=False), dtype=bool)
        lengths = numbers_of(pc.binary_length(column)).astype(np.int64)
        return EncodedColumn((varints(lengths + 1), pc.cast(column, pa.large_binary())), declined)


@attrs.frozen
class FramedBytesCodec(ColumnCodec):
    """Opaque values as their bytes: pickles, and values that Kryo wrote."""

    kind = pa.binary()

    def _arrow_value(self, value: Any) -> Any:
        return bytes(value.data)
