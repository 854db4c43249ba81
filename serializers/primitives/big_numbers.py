"""Decimals: Flink's BigDecimal, its snapshot, and rule DEC-1.

    the unscaled value as a big integer; then i32 scale, unless it is null

The value is unscaled * 10^-scale. Flink's type limits neither precision nor scale, so its snapshot holds nothing that
could change, and rules DEC-2 to DEC-5 do not apply here. Source: format notes 7.
"""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, ClassVar

import attrs

from .. import layout, rewrite
from ..errors import ValueNotConvertible, shown
from ..scalars import Scalar, ScalarSerializer, ScalarSnapshot, snapshot_of
from .numeric import read_big_integer, write_big_integer

if TYPE_CHECKING:
    from ..views import DataInputView, DataOutputView

_STAYS = rewrite.Sequence((rewrite.BigInteger(), rewrite.Fixed(4)))
_BITS_AT_ONCE = 1 << 13
_SCALES = range(-(2**31), 2**31)
_EXACT = decimal.Context(
    prec=decimal.MAX_PREC,
    Emin=decimal.MIN_EMIN,
    Emax=decimal.MAX_EMAX,
    traps=[decimal.Inexact, decimal.Rounded, decimal.InvalidOperation],
)


def split_decimal(value: decimal.Decimal) -> tuple[int, int]:
    """Return unscaled value and scale, exactly.

    Raises:
        ValueNotConvertible: Java has no such number: NaN, an infinity, -0 (it has one zero), a scale past 32 bits.
    """
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueNotConvertible(f"{shown(value)} is not a number, and Java's BigDecimal holds only numbers")
    if value.is_zero() and value.is_signed():
        raise ValueNotConvertible(
            f"{shown(value)} would lose its sign: Java's BigDecimal has only one zero", advice="write abs(value)"
        )
    if -exponent not in _SCALES:
        raise ValueNotConvertible(f"{shown(value)} has a scale of {-exponent}, which does not fit an int (32 bits)")
    return int(value.scaleb(-exponent, _EXACT)), -exponent


def join_decimal(unscaled: int, scale: int) -> decimal.Decimal:
    """Undo `split_decimal`, exactly; trailing zeros of the scale stay."""
    return decimal_of(unscaled).scaleb(-scale, _EXACT)


def decimal_of(number: int) -> decimal.Decimal:
    """Convert an integer to a decimal, exactly; a megabyte of digits takes seconds, and minutes in `Decimal(n)`."""
    if number.bit_length() <= _BITS_AT_ONCE:
        return decimal.Decimal(number)
    bits, powers = _BITS_AT_ONCE, [decimal.Decimal(1 << _BITS_AT_ONCE)]
    while bits < number.bit_length() >> 1:
        bits, powers = bits * 2, [*powers, _EXACT.multiply(powers[-1], powers[-1])]

    def joined(part: int, power: int) -> decimal.Decimal:
        if power < 0 or part.bit_length() <= _BITS_AT_ONCE:
            return decimal.Decimal(part)
        size = _BITS_AT_ONCE << power
        low = part & ((1 << size) - 1)
        return _EXACT.fma(joined(part >> size, power - 1), powers[power], joined(low, power - 1))

    return joined(number, len(powers) - 1)


@attrs.frozen
class DecimalSerializer(ScalarSerializer[decimal.Decimal]):
    """Flink's BigDecimal: the serializer for the hint `Decimal`.

    Every digit and the scale are kept: 1.0 and 1.00, equal in Python, differ in bytes as they do in Java.

    Attributes:
        allow_null: Whether None is read and written, in the format's null form; otherwise None is an error.
    """

    row = Scalar("decimal", "BigDec", "java.math.BigDecimal", "", "Decimal", stays=_STAYS)
    restored: ClassVar[dict[str, bool]] = {"allow_null": True}

    allow_null: bool = attrs.field(default=False, eq=False)

    def serialize(self, value: decimal.Decimal, target: DataOutputView) -> None:
        if value is None and self.allow_null:
            write_big_integer(None, target)
            return
        if not isinstance(value, decimal.Decimal):
            raise ValueNotConvertible(f"{shown(value)} is not a Decimal")
        unscaled, scale = split_decimal(value)
        write_big_integer(unscaled, target)
        target.write_int(scale)

    def deserialize(self, source: DataInputView) -> decimal.Decimal:
        unscaled = read_big_integer(source)
        if unscaled is not None:
            return join_decimal(unscaled, source.read_int())
        if not self.allow_null:
            raise ValueNotConvertible("a null is stored where a decimal is declared")
        return None  # type: ignore[return-value]  # only with allow_null

    @property
    def layout(self) -> layout.Layout:
        return layout.BigDecimal()


@snapshot_of(DecimalSerializer)
class BigDecSerializerSnapshot(ScalarSnapshot[decimal.Decimal]):
    """Snapshot of `DecimalSerializer`."""

    kind: ClassVar[str] = "decimal"
