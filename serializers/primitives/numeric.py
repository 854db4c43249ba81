"""Numbers and booleans: Flink's bytes, their snapshots, and the rules PRIM-1 to PRIM-4.

    boolean 1 byte; byte, short, int, long: 1, 2, 4, 8 bytes, two's complement; float, double: IEEE 754, 4 and 8 bytes
    bigint  i32 c: 0 null, 1 zero, 2 one, 3 ten, otherwise c - 4 bytes of minimal two's complement

Source: format notes 6.1 and 7.

Decimals: Flink's BigDecimal, its snapshot, and rule DEC-1.

    the unscaled value as a big integer; then i32 scale, unless it is null

The value is unscaled * 10^-scale. Flink's type limits neither precision nor scale, so its snapshot holds nothing that
could change, and rules DEC-2 to DEC-5 do not apply here. Source: format notes 7.
"""

from __future__ import annotations

import decimal
import math
import struct
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs

from .. import rewrite
from ..compatibility import CompatibilityResult, Finding, Flag, Verdict
from ..errors import CorruptSavepoint, ValueNotConvertible, shown
from ..scalars import Scalar, ScalarSerializer, ScalarSnapshot, snapshot_of
from ..serializer import KEEP_OLD_TYPE, converter_that, incompatible, unrelated
from ..ways_out import by_migration
from ..wording import one

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..snapshot import TypeSerializerConfigSnapshot
    from ..views import DataInputView, DataOutputView

N = TypeVar("N", int, float)

_MANTISSA_BITS = {">f": 24, ">d": 53}


def to_single_precision(value: float) -> float:
    """Round to the nearest 32-bit float; raises `ValueNotConvertible` where there is none."""
    try:
        rounded: float = struct.unpack(">f", struct.pack(">f", value))[0]
    except OverflowError as error:
        raise ValueNotConvertible(f"{shown(value)} does not fit a float (32 bits)") from error
    return rounded


def bits_of(number: Scalar) -> float:
    """Return how many bits, besides the sign, an integer may have to be exact in a type of numbers."""
    return _MANTISSA_BITS.get(number.form, 8 * number.size - 1 if number.form else math.inf)


def widening_of(old: Scalar, new: Scalar) -> tuple[Callable[[Any], Any] | None, bool] | None:
    """Return how rule PRIM-2 converts one number type to another: (conversion, lossy); None where it does not."""
    becomes_float = new.form in _MANTISSA_BITS
    if becomes_float == (old.form in _MANTISSA_BITS):
        return (None, False) if bits_of(old) < bits_of(new) else None
    if not becomes_float or not old.form:
        return None
    return to_single_precision if new.form == ">f" else float, bits_of(old) > bits_of(new)


class NumberSnapshot(ScalarSnapshot[N]):
    """Snapshot of a number."""

    kind: ClassVar[str] = "number"


@attrs.frozen
class NumberSerializer(ScalarSerializer[N]):
    """Base of the number serializers: bytes of fixed length, and the rules PRIM-1 to PRIM-3."""

    is_rounded: ClassVar[bool] = False
    """Whether the type does not hold every integer in its range; an int is written only if it is exact."""

    def serialize(self, value: N, target: DataOutputView) -> None:
        try:
            data = self.row.packing.pack(value)
        except (struct.error, OverflowError) as error:
            raise self._refused(value, "does not fit") from error
        if self.is_rounded and isinstance(value, int) and self.row.packing.unpack(data)[0] != value:
            raise self._refused(value, "is not exact as")
        target.write(data)

    def _refused(self, value: N, why: str) -> ValueNotConvertible:
        return ValueNotConvertible(f"{shown(value)} {why} {one(self.row.name)} ({8 * self.row.size} bits)")

    def deserialize(self, source: DataInputView) -> N:
        value: N = source.unpack(self.row.packing)[0]
        return value

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[N]:
        if not isinstance(snapshot, NumberSnapshot):
            return unrelated(self, snapshot)
        if snapshot.serializer.row == self.row:
            return CompatibilityResult.compatible()
        old, new = snapshot.describe(), self.describe()
        widening = widening_of(snapshot.serializer.row, self.row)
        if widening is None:
            ways = (converter_that("what a number that does not fit becomes"), KEEP_OLD_TYPE)
            return incompatible(self, snapshot, "PRIM-3", f"a stored {old} may not fit {one(new)}", *ways)
        conversion, lossy = widening
        reason = f"every {old} fits {one(new)}, in other bytes"
        if lossy:
            reason = f"a large {old} loses its lowest digits as {new}"
        finding = Finding(
            "$", "PRIM-2", Verdict.REQUIRES_MIGRATION, old, new, reason,
            (by_migration("values are widened"), KEEP_OLD_TYPE), (Flag.LOSSY,) if lossy else (),
        )  # fmt: skip
        return CompatibilityResult.requires_migration(finding, conversion=conversion)


@attrs.frozen
class FloatingSerializer(NumberSerializer[float]):
    """Base of the serializers of floating-point numbers."""

    is_rounded: ClassVar[bool] = True


class ByteSerializer(NumberSerializer[int]):
    """Flink's Byte: -128 to 127."""

    row = Scalar("byte", "Byte", "java.lang.Byte", ">b", "Int8", arrow="int8", array="B")


class ShortSerializer(NumberSerializer[int]):
    """Flink's Short: 16 bits."""

    row = Scalar("short", "Short", "java.lang.Short", ">h", "Int16", arrow="int16", array="S")


class IntSerializer(NumberSerializer[int]):
    """Flink's Integer: 32 bits."""

    row = Scalar("int", "Int", "java.lang.Integer", ">i", "Int32", arrow="int32", array="I")


class LongSerializer(NumberSerializer[int]):
    """Flink's Long: 64 bits, the serializer for the hint `int`."""

    row = Scalar("long", "Long", "java.lang.Long", ">q", "int", arrow="int64", array="J")


class FloatSerializer(FloatingSerializer):
    """Flink's Float: 32 bits. A Python float is rounded to single precision; an int is written only if it is exact."""

    row = Scalar("float", "Float", "java.lang.Float", ">f", "Float32", arrow="float", array="F", stays=rewrite.Float(4))


class DoubleSerializer(FloatingSerializer):
    """Flink's Double: 64 bits, the serializer for the hint `float`; an int is written only if it is exact."""

    row = Scalar(
        "double", "Double", "java.lang.Double", ">d", "float", arrow="double", array="D", stays=rewrite.Float(8)
    )


_BIG_CONSTANTS = {0: 1, 1: 2, 10: 3}
_BIG_VALUES = {code: value for value, code in _BIG_CONSTANTS.items()}
_BIG_NULL, _BIG_OFFSET = 0, 4


def write_big_integer(value: int | None, target: DataOutputView) -> None:
    """Write a big integer, or its null form."""
    if value is None or value in _BIG_CONSTANTS:
        target.write_int(_BIG_NULL if value is None else _BIG_CONSTANTS[value])
        return
    size = (value if value >= 0 else ~value).bit_length() // 8 + 1
    target.write_int(size + _BIG_OFFSET)
    target.write(value.to_bytes(size, "big", signed=True))


def read_big_integer(source: DataInputView) -> int | None:
    """Read a big integer; None is its null form."""
    code = source.read_int()
    if code == _BIG_NULL:
        return None
    if code in _BIG_VALUES:
        return _BIG_VALUES[code]
    if code <= _BIG_OFFSET:
        raise CorruptSavepoint(f"{code} is not the size of a big integer", offset=source.position - 4)
    return int.from_bytes(source.read_fully(code - _BIG_OFFSET), "big", signed=True)


@attrs.frozen
class BigIntSerializer(NumberSerializer[int]):
    """Flink's BigInteger: any int.

    Attributes:
        allow_null: Whether None is read and written, in the format's null form; otherwise None is an error.
    """

    row = Scalar("bigint", "BigInt", "java.math.BigInteger", "", "BigInt", stays=rewrite.BigInteger())
    restored: ClassVar[dict[str, bool]] = {"allow_null": True}

    allow_null: bool = attrs.field(default=False, eq=False)

    def serialize(self, value: int, target: DataOutputView) -> None:
        if not isinstance(value, int) and not (value is None and self.allow_null):
            raise ValueNotConvertible(f"{shown(value)} is not an integer")
        write_big_integer(value, target)

    def deserialize(self, source: DataInputView) -> int:
        value = read_big_integer(source)
        if value is None and not self.allow_null:
            raise ValueNotConvertible("a null is stored where an integer is declared")
        return value  # type: ignore[return-value]  # None only with allow_null


class BooleanSerializer(ScalarSerializer[bool]):
    """Flink's Boolean: one byte, 0 or 1."""

    row = Scalar(
        "boolean", "Boolean", "java.lang.Boolean", ">?", "bool", arrow="bool", array="Z", stays=rewrite.Boolean()
    )

    def serialize(self, value: bool, target: DataOutputView) -> None:  # noqa: FBT001 - the value to write
        if not isinstance(value, bool):
            raise ValueNotConvertible(f"{shown(value)} is not a boolean")
        target.write_boolean(value)

    def deserialize(self, source: DataInputView) -> bool:
        return source.read_boolean()


BooleanSerializerSnapshot = snapshot_of(BooleanSerializer)
ByteSerializerSnapshot = snapshot_of(ByteSerializer, NumberSnapshot)
ShortSerializerSnapshot = snapshot_of(ShortSerializer, NumberSnapshot)
IntSerializerSnapshot = snapshot_of(IntSerializer, NumberSnapshot)
LongSerializerSnapshot = snapshot_of(LongSerializer, NumberSnapshot)
FloatSerializerSnapshot = snapshot_of(FloatSerializer, NumberSnapshot)
DoubleSerializerSnapshot = snapshot_of(DoubleSerializer, NumberSnapshot)
BigIntSerializerSnapshot = snapshot_of(BigIntSerializer, NumberSnapshot)


@attrs.frozen
class _Decimal(rewrite.Sequence):
    """The unscaled value as a big integer, and an i32 scale; a null has none, and is odd."""

    def skip(self, source: DataInputView) -> None:
        if source.peek(4) == b"\0\0\0\0":
            source.skip_bytes(4)
        else:
            super().skip(source)


_DECIMAL = _Decimal((rewrite.BigInteger(), rewrite.Fixed(4)))

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

    row = Scalar(
        "decimal",
        "BigDec",
        "java.math.BigDecimal",
        "",
        "Decimal",
        stays=_Decimal((rewrite.BigInteger(), rewrite.Fixed(4))),
    )
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


BigDecSerializerSnapshot = snapshot_of(DecimalSerializer)
