"""Columns of numbers, booleans, text, bytes and enums.

    byte, short, int, long  tinyint, smallint, int, bigint     string, char  string
    float, double           float, double                      byte array    binary
    boolean                 boolean                            enum          string: the name of the constant
    BigInteger              decimal(38,0)                      void          void
    BigDecimal              decimal(38,18), to which Spark maps Java's

A big number that does not fit is an error; the exact forms return it as text, with its stored scale.
"""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...serializers.errors import StateShiftError
from ...serializers.primitives.big_numbers import split_decimal
from ...serializers.primitives.text import read_string
from ...serializers.views import DataInputView
from ..transcode.choice import ExecutorName
from .bytes_at import bitmap, byte_strings, is_ascii, number_array, numbers_at, varints_at
from .form import EXACT, ColumnForm, Decoded, not_in_column

if TYPE_CHECKING:
    from .bytes_at import Flags, Places
    from .form import Cells

_SCALE, _DIGITS = 18, 38
_LONG_BYTES = 8
_EXACTLY = decimal.Context(
    prec=_DIGITS, traps=[decimal.Inexact, decimal.Rounded, decimal.InvalidOperation, decimal.Overflow]
)


@attrs.frozen
class NumberForm(ColumnForm):
    """Numbers of fixed length.

    Attributes:
        type: The Arrow type of the column.
        form: The numpy format of the stored bytes.
    """

    type: pa.DataType
    form: str

    @property
    def is_plain(self) -> bool:
        return bool(pa.types.is_integer(self.type))  # 0.0 equals -0.0 in Spark, but is another key in Java

    @property
    def kind(self) -> pa.DataType:
        return self.type

    @property
    def size(self) -> int:
        return np.dtype(self.form).itemsize

    def _told(self, value: Any) -> Any:
        return value

    def decode(self, cells: Cells) -> Decoded:
        ends, odd = cells.skipped(self.size)
        return Decoded(number_array(self.type, numbers_at(cells.data, cells.starts, self.form)), ends, odd)

    def decode_some(self, cells: Cells, present: Flags) -> Decoded:
        ends, odd = cells.skipped(self.size)
        column = number_array(self.type, numbers_at(cells.data, cells.starts, self.form), present)
        return Decoded(column, np.where(present, ends, cells.starts), odd & present)


@attrs.frozen
class BooleanForm(ColumnForm):
    """Booleans: a byte 0 or 1."""

    @property
    def is_plain(self) -> bool:
        return True

    @property
    def kind(self) -> pa.DataType:
        return pa.bool_()

    @property
    def size(self) -> int:
        return 1

    def _told(self, value: Any) -> Any:
        return value

    def decode(self, cells: Cells) -> Decoded:
        ends, odd = cells.skipped(1)
        values = cells.data[cells.starts]
        return Decoded(pa.array(values == 1), ends, odd | (values > 1))


@attrs.frozen
class NothingForm(ColumnForm):
    """Void: a byte 0, and no value."""

    @property
    def kind(self) -> pa.DataType:
        return pa.null()

    @property
    def size(self) -> int:
        return 1

    def _told(self, value: Any) -> Any:
        return None

    def decode(self, cells: Cells) -> Decoded:
        ends, odd = cells.skipped(1)
        return Decoded(pa.nulls(len(cells)), ends, odd | (cells.data[cells.starts] != 0))


@attrs.frozen
class TextForm(ColumnForm):
    """Values that become text: by default a string as it is."""

    @property
    def kind(self) -> pa.DataType:
        return pa.string()

    def _told(self, value: Any) -> Any:
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
class StringForm(TextForm):
    """Flink's strings. With numpy, ASCII strings are copied as stored, and each other string is read singly."""

    @property
    def is_plain(self) -> bool:
        return True

    def decode(self, cells: Cells) -> Decoded:
        return self.decode_some(cells, np.ones(len(cells), dtype=bool))

    def decode_some(self, cells: Cells, present: Flags) -> Decoded:
        if cells.executor is ExecutorName.NUMBA:
            return self._decoded_fast(cells, present)
        units, header = varints_at(cells.data, cells.starts)
        found = self._decoded(cells, units * present, header * present)
        return attrs.evolve(found, odd=found.odd & present)

    def _decoded_fast(self, cells: Cells, present: Flags) -> Decoded:
        from .flat_numba import TEXT, decode_flat

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
                found.append(self.tell(read_string(source)))
                ends[row] = source.position
            except StateShiftError:
                found.append(None)
                odd[row] = True
        return Decoded(pc.replace_with_mask(text, pa.array(others), pa.array(found, pa.string())), ends, odd)


@attrs.frozen
class CharForm(TextForm):
    """Chars: one UTF-16 unit in two bytes."""

    @property
    def is_plain(self) -> bool:
        return True

    def decode(self, cells: Cells) -> Decoded:
        ends, odd = cells.skipped(2)
        units = numbers_at(cells.data, cells.starts, ">u2")
        return Decoded(_CHARS.take(pa.array(units & 0x7F)), ends, odd | (units > 0x7F))


_CHARS = pa.array([chr(code) for code in range(128)])


@attrs.frozen
class BinaryForm(ColumnForm):
    """Byte arrays: i32 n, n bytes."""

    @property
    def kind(self) -> pa.DataType:
        return pa.binary()

    def _told(self, value: Any) -> Any:
        return bytes(value)

    def decode(self, cells: Cells) -> Decoded:
        begins, odd = cells.skipped(4)
        sizes = numbers_at(cells.data, cells.starts, ">i4").astype(np.int64)
        odd = odd | (sizes < 0) | (begins + sizes > cells.limits)
        ends = np.where(odd, begins, begins + sizes)
        return Decoded(byte_strings(cells.data, begins, ends), ends, odd)


@attrs.frozen
class FramedBytesForm(ColumnForm):
    """Opaque values as their bytes: pickles, and values that Kryo wrote."""

    @property
    def kind(self) -> pa.DataType:
        return pa.binary()

    def _told(self, value: Any) -> Any:
        return bytes(value.data)


@attrs.frozen
class EnumForm(TextForm):
    """Enums: the name of the constant."""

    @property
    def size(self) -> int:
        return 4

    def _told(self, value: Any) -> Any:
        return value.name

    def decode(self, cells: Cells) -> Decoded:
        ends, odd = cells.skipped(4)
        ordinals = numbers_at(cells.data, cells.starts, ">i4")
        symbols: tuple[str, ...] = self.serializer.symbols  # type: ignore[attr-defined]  # of an enum
        outside = (ordinals < 0) | (ordinals >= len(symbols))
        names = pa.array(symbols, pa.string()).take(pa.array(ordinals, mask=outside))
        return Decoded(names, ends, odd | outside)


@attrs.frozen
class BigIntForm(ColumnForm):
    """Integers of up to 38 digits."""

    constants: ClassVar[tuple[int, ...]] = (0, 1, 10)

    @property
    def kind(self) -> pa.DataType:
        return pa.decimal128(_DIGITS, 0)

    def _told(self, value: Any) -> Any:
        if abs(value) >= 10**_DIGITS:
            raise not_in_column(value, f"has more than {_DIGITS} digits, more than a Spark decimal can have", EXACT)
        return decimal.Decimal(value)

    def decode(self, cells: Cells) -> Decoded:
        values, valid, ends, odd = _big_integers(cells)
        return Decoded(_decimals(self.kind, values, valid), ends, odd)


@attrs.frozen
class DecimalForm(ColumnForm):
    """Decimals: 20 digits before the point, and 18 after it."""

    @property
    def kind(self) -> pa.DataType:
        return pa.decimal128(_DIGITS, _SCALE)

    def _told(self, value: Any) -> Any:
        try:
            return value.quantize(decimal.Decimal((0, (1,), -_SCALE)), context=_EXACTLY)
        except decimal.DecimalException:
            raise not_in_column(
                value, f"does not fit decimal({_DIGITS},{_SCALE}) of Spark without being rounded", EXACT
            ) from None

    def decode(self, cells: Cells) -> Decoded:
        values, valid, ends, odd = _big_integers(cells)
        after, short = cells.moved(ends).skipped(4)
        scales = numbers_at(cells.data, ends, ">i4")
        odd = odd | valid & (short | (scales < 0) | (scales > _SCALE))
        ends = np.where(valid, after, ends)
        column = pa.nulls(len(cells), self.kind)
        usual = valid & ~odd
        for scale in np.unique(scales[usual]).tolist():
            rows = usual & (scales == scale)
            some = _decimals(pa.decimal128(19, scale), values[rows]).cast(self.kind)
            column = some if rows.all() else pc.replace_with_mask(column, pa.array(rows), some)
        return Decoded(column, ends, odd)


def _big_integers(cells: Cells) -> tuple[Places, Flags, Places, Flags]:
    """Return the values that fit 64 bits, which rows are not null, the positions after the values, and the odd rows."""
    begins, odd = cells.skipped(4)
    codes = numbers_at(cells.data, cells.starts, ">i4").astype(np.int64)
    sizes = np.maximum(codes - 4, 0)
    odd = odd | (codes < 0) | (codes == 4) | (sizes > _LONG_BYTES) | (begins + sizes > cells.limits)
    sizes[odd] = 0
    # The number is at the top of the first eight bytes; an arithmetic shift brings it down.
    values = numbers_at(cells.data, begins, ">i8") >> (8 * (_LONG_BYTES - np.maximum(sizes, 1)))
    for code, constant in zip((1, 2, 3), BigIntForm.constants, strict=True):
        values[codes == code] = constant
    return values, codes != 0, begins + sizes, odd


def _decimals(kind: pa.DataType, values: Places, valid: Flags | None = None) -> pa.Array:
    """Return an array of decimals from unscaled values."""
    wide = np.empty((len(values), 2), dtype=np.int64)
    wide[:, 0], wide[:, 1] = values, values >> 63
    nulls = None if valid is None else bitmap(valid)
    return pa.Array.from_buffers(kind, len(values), [nulls, pa.py_buffer(wide)])


@attrs.frozen
class ExactNumberForm(TextForm):
    """Big numbers as text: all digits, with the stored scale."""

    def _told(self, value: Any) -> Any:
        unscaled, scale = split_decimal(value) if isinstance(value, decimal.Decimal) else (value, 0)
        return format(decimal.Decimal(unscaled).scaleb(-scale, _WIDE), "f" if scale >= 0 else "")


_WIDE = decimal.Context(prec=decimal.MAX_PREC, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
