"""Columns of numbers, booleans, strings and chars.

    byte, short, int, long  tinyint, smallint, int, bigint     string, char  string
    float, double           float, double                      BigInteger    decimal(38,0)
    boolean                 boolean                            BigDecimal    decimal(38,18), to which Spark maps Java's

A big number that does not fit is an error; the exact codec returns it as text, with its stored scale.
"""

from __future__ import annotations

import decimal
import re
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..columns.bytes_at import bitmap, numbers_at
from ..columns.codec import EXACT, ColumnCodec, Decoded, is_text, not_in_column, plain
from ..columns.scalars import BooleanCodec, FloatCodec, NumberCodec, StringCodec, TextCodec
from ..errors import ValueNotConvertible, shown
from .numeric import (
    BigIntSerializer,
    BooleanSerializer,
    DecimalSerializer,
    FloatingSerializer,
    LongSerializer,
    NumberSerializer,
    split_decimal,
)
from .table import NUMBERS
from .text import CharSerializer, StringSerializer

if TYPE_CHECKING:
    from ..columns.bytes_at import Flags, Places
    from ..columns.codec import Cells, Codecs, ColumnTable, Taker
    from ..serializer import TypeSerializer

_SCALE, _DIGITS = 18, 38
_LONG_BYTES = 8
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_EXACTLY = decimal.Context(
    prec=_DIGITS, traps=[decimal.Inexact, decimal.Rounded, decimal.InvalidOperation, decimal.Overflow]
)


@attrs.frozen
class CharCodec(TextCodec):
    """Chars: one UTF-16 unit in two bytes."""

    is_plain = True

    def decode(self, cells: Cells) -> Decoded:
        ends, odd = cells.skipped(2)
        units = numbers_at(cells.data, cells.starts, ">u2")
        return Decoded(_CHARS.take(pa.array(units & 0x7F)), ends, odd | (units > 0x7F))

    def _fits(self, kind: pa.DataType) -> bool:
        return is_text(kind)


_CHARS = pa.array([chr(code) for code in range(128)])


@attrs.frozen
class BigIntCodec(ColumnCodec):
    """Integers of up to 38 digits."""

    constants: ClassVar[tuple[int, ...]] = (0, 1, 10)

    kind = pa.decimal128(_DIGITS, 0)

    def _arrow_value(self, value: Any) -> Any:
        if abs(value) >= 10**_DIGITS:
            raise not_in_column(value, f"has more than {_DIGITS} digits, more than a Spark decimal can have", EXACT)
        return decimal.Decimal(value)

    def decode(self, cells: Cells) -> Decoded:
        values, valid, ends, odd = _big_integers(cells)
        return Decoded(_decimals(self.kind, values, valid), ends, odd)

    def _fits(self, kind: pa.DataType) -> bool:
        return is_text(kind) or bool(pa.types.is_integer(kind)) or (bool(pa.types.is_decimal(kind)) and kind.scale == 0)

    def taker(self) -> Taker:
        return lambda value: int(_number_of(value, _INTEGER))


@attrs.frozen
class DecimalCodec(ColumnCodec):
    """Decimals: 20 digits before the point, and 18 after it."""

    kind = pa.decimal128(_DIGITS, _SCALE)

    def _arrow_value(self, value: Any) -> Any:
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

    def _fits(self, kind: pa.DataType) -> bool:
        return is_text(kind) or bool(pa.types.is_decimal(kind))

    def taker(self) -> Taker:
        return _number_of


def _big_integers(cells: Cells) -> tuple[Places, Flags, Places, Flags]:
    """Return the values that fit 64 bits, which rows are not null, the positions after the values, and the odd rows."""
    begins, odd = cells.skipped(4)
    codes = numbers_at(cells.data, cells.starts, ">i4").astype(np.int64)
    sizes = np.maximum(codes - 4, 0)
    odd = odd | (codes < 0) | (codes == 4) | (sizes > _LONG_BYTES) | (begins + sizes > cells.limits)
    sizes[odd] = 0
    # The number is at the top of the first eight bytes; an arithmetic shift brings it down.
    values = numbers_at(cells.data, begins, ">i8") >> (8 * (_LONG_BYTES - np.maximum(sizes, 1)))
    for code, constant in zip((1, 2, 3), BigIntCodec.constants, strict=True):
        values[codes == code] = constant
    return values, codes != 0, begins + sizes, odd


def _decimals(kind: pa.DataType, values: Places, valid: Flags | None = None) -> pa.Array:
    """Return an array of decimals from unscaled values."""
    wide = np.empty((len(values), 2), dtype=np.int64)
    wide[:, 0], wide[:, 1] = values, values >> 63
    nulls = None if valid is None else bitmap(valid)
    return pa.Array.from_buffers(kind, len(values), [nulls, pa.py_buffer(wide)])


def _number_of(value: Any, form: re.Pattern[str] = _NUMBER) -> Any:
    """Return a big number from text, which an exact read returns: with all digits, and its scale."""
    if not isinstance(value, str):
        return value
    try:
        if form.fullmatch(value) is not None:
            return decimal.Decimal(value)
    except decimal.DecimalException:  # the exponent is out of bounds
        pass
    raise ValueNotConvertible(
        f"{shown(value)} is not such a number", advice="write it with ASCII digits: 12.50, 1.2E+3"
    )


@attrs.frozen
class ExactNumberCodec(TextCodec):
    """Big numbers as text: all digits, with the stored scale."""

    def _arrow_value(self, value: Any) -> Any:
        unscaled, scale = split_decimal(value) if isinstance(value, decimal.Decimal) else (value, 0)
        return format(decimal.Decimal(unscaled).scaleb(-scale, _WIDE), "f" if scale >= 0 else "")


_WIDE = decimal.Context(prec=decimal.MAX_PREC, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)


def long_codec() -> NumberCodec:
    """Return the codec of longs."""
    return number_codec(LongSerializer())


def number_codec(serializer: NumberSerializer[Any]) -> NumberCodec:
    """Return the codec of numbers of fixed length."""
    make = FloatCodec if isinstance(serializer, FloatingSerializer) else NumberCodec
    return make(serializer, pa.type_for_alias(serializer.row.arrow), serializer.row.form)


def _big(codec: type[ColumnCodec], codecs: Codecs, serializer: TypeSerializer[Any]) -> ColumnCodec:
    return ExactNumberCodec(serializer) if codecs.exact else codec(serializer)


COLUMNS: ColumnTable = {
    **dict.fromkeys(NUMBERS, plain(number_codec)),
    BooleanSerializer: plain(BooleanCodec),
    BigIntSerializer: partial(_big, BigIntCodec),
    DecimalSerializer: partial(_big, DecimalCodec),
    StringSerializer: plain(StringCodec),
    CharSerializer: plain(CharCodec),
}
