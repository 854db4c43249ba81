"""Numbers and booleans: Flink's bytes, their snapshots, and the rules PRIM-1 to PRIM-4.

    boolean 1 byte; byte, short, int, long: 1, 2, 4, 8 bytes, two's complement; float, double: IEEE 754, 4 and 8 bytes
    bigint  i32 c: 0 null, 1 zero, 2 one, 3 ten, otherwise c - 4 bytes of minimal two's complement

Source: format notes 6.1 and 7.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs

from .. import layout
from ..compatibility import CompatibilityResult, Finding, Flag, Verdict
from ..errors import CorruptSavepoint, ValueNotConvertible, shown
from ..registry import register_snapshot
from ..serializer import KEEP_OLD_TYPE, TypeSerializer, converter_that, incompatible, unrelated
from ..snapshot import FlinkSnapshot, TypeSerializerConfigSnapshot
from ..wording import one

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..views import DataInputView, DataOutputView

N = TypeVar("N", int, float)

BASE = "org.apache.flink.api.common.typeutils.base."

_INTEGERS = ("byte", "short", "int", "long", "bigint")
_MANTISSA_BITS = {"float": 24, "double": 53}
_BITS = {"byte": 7, "short": 15, "int": 31, "long": 63}


def to_single_precision(value: float) -> float:
    """Round to the nearest 32-bit float; raises `ValueNotConvertible` where there is none."""
    try:
        rounded: float = struct.unpack(">f", struct.pack(">f", value))[0]
    except OverflowError as error:
        raise ValueNotConvertible(f"{shown(value)} does not fit a float (32 bits)") from error
    return rounded


def widening_of(old: str, new: str) -> tuple[Callable[[Any], Any] | None, bool] | None:
    """Return how rule PRIM-2 converts one number type to another: (conversion, lossy); None where it does not."""
    if old in _INTEGERS:
        if new in _INTEGERS and _INTEGERS.index(new) > _INTEGERS.index(old):
            return None, False
        if new in _MANTISSA_BITS and old in _BITS:
            return to_single_precision if new == "float" else float, _BITS[old] > _MANTISSA_BITS[new]
    if (old, new) == ("float", "double"):
        return None, False
    return None


class NumberSnapshot(FlinkSnapshot[N]):
    """Snapshot of a number; `number` is the name of its type in rule PRIM-2."""

    kind: ClassVar[str] = "number"
    number: ClassVar[str] = ""

    def describe(self) -> str:
        return self.number


@attrs.frozen
class NumberSerializer(TypeSerializer[N]):
    """Base of the number serializers: the rules PRIM-1 to PRIM-3."""

    number: ClassVar[str] = ""

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[N]:
        if not isinstance(snapshot, NumberSnapshot):
            return unrelated(self, snapshot)
        old, new = snapshot.number, self.number
        if old == new:
            return CompatibilityResult.compatible()
        widening = widening_of(old, new)
        if widening is None:
            ways = (converter_that("what a number that does not fit becomes"), KEEP_OLD_TYPE)
            return incompatible(self, snapshot, "PRIM-3", f"a stored {old} may not fit {one(new)}", *ways)
        conversion, lossy = widening
        reason = f"every {old} fits {one(new)}, in other bytes"
        if lossy:
            reason = f"a large {old} loses its lowest digits as {new}"
        finding = Finding(
            "$", "PRIM-2", Verdict.REQUIRES_MIGRATION, old, new, reason,
            ("migrate the state: values are widened", KEEP_OLD_TYPE), (Flag.LOSSY,) if lossy else (),
        )  # fmt: skip
        return CompatibilityResult.requires_migration(finding, conversion=conversion)


class ByteSerializer(NumberSerializer[int]):
    """Flink's Byte: -128 to 127."""

    number: ClassVar[str] = "byte"

    @property
    def length(self) -> int:
        return 1

    def serialize(self, value: int, target: DataOutputView) -> None:
        if not (isinstance(value, int) and -128 <= value <= 127):
            raise ValueNotConvertible(f"{shown(value)} does not fit a byte (8 bits)")
        target.write_byte(value)

    def deserialize(self, source: DataInputView) -> int:
        return source.read_byte()

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[int]:
        return ByteSerializerSnapshot()


class ShortSerializer(NumberSerializer[int]):
    """Flink's Short: 16 bits."""

    number: ClassVar[str] = "short"

    @property
    def length(self) -> int:
        return 2

    def serialize(self, value: int, target: DataOutputView) -> None:
        target.write_short(value)

    def deserialize(self, source: DataInputView) -> int:
        return source.read_short()

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[int]:
        return ShortSerializerSnapshot()


class IntSerializer(NumberSerializer[int]):
    """Flink's Integer: 32 bits."""

    number: ClassVar[str] = "int"

    @property
    def length(self) -> int:
        return 4

    def serialize(self, value: int, target: DataOutputView) -> None:
        target.write_int(value)

    def deserialize(self, source: DataInputView) -> int:
        return source.read_int()

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[int]:
        return IntSerializerSnapshot()


class LongSerializer(NumberSerializer[int]):
    """Flink's Long: 64 bits, the serializer for the hint `int`."""

    number: ClassVar[str] = "long"

    @property
    def length(self) -> int:
        return 8

    def serialize(self, value: int, target: DataOutputView) -> None:
        target.write_long(value)

    def deserialize(self, source: DataInputView) -> int:
        return source.read_long()

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[int]:
        return LongSerializerSnapshot()


class FloatSerializer(NumberSerializer[float]):
    """Flink's Float: 32 bits. A Python float is rounded to single precision; an int is written only if it is exact."""

    number: ClassVar[str] = "float"

    @property
    def length(self) -> int:
        return 4

    def serialize(self, value: float, target: DataOutputView) -> None:
        target.write_float(value)
        if isinstance(value, int) and to_single_precision(value) != value:
            raise ValueNotConvertible(f"{shown(value)} is not exact as a float (32 bits)")

    def deserialize(self, source: DataInputView) -> float:
        return source.read_float()

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[float]:
        return FloatSerializerSnapshot()


class DoubleSerializer(NumberSerializer[float]):
    """Flink's Double: 64 bits, the serializer for the hint `float`; an int is written only if it is exact."""

    number: ClassVar[str] = "double"

    @property
    def length(self) -> int:
        return 8

    def serialize(self, value: float, target: DataOutputView) -> None:
        target.write_double(value)
        if isinstance(value, int) and float(value) != value:
            raise ValueNotConvertible(f"{shown(value)} is not exact as a double (64 bits)")

    def deserialize(self, source: DataInputView) -> float:
        return source.read_double()

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[float]:
        return DoubleSerializerSnapshot()


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

    number: ClassVar[str] = "bigint"

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

    @property
    def layout(self) -> layout.Layout:
        return layout.BigInteger()

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[int]:
        return BigIntSerializerSnapshot()


@attrs.frozen
class BooleanSerializer(TypeSerializer[bool]):
    """Flink's Boolean: one byte, 0 or 1."""

    @property
    def length(self) -> int:
        return 1

    def serialize(self, value: bool, target: DataOutputView) -> None:  # noqa: FBT001 - the value to write
        if not isinstance(value, bool):
            raise ValueNotConvertible(f"{shown(value)} is not a boolean")
        target.write_boolean(value)

    def deserialize(self, source: DataInputView) -> bool:
        return source.read_boolean()

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot[bool]:
        return BooleanSerializerSnapshot()


@register_snapshot
class BooleanSerializerSnapshot(FlinkSnapshot[bool]):
    """Snapshot of `BooleanSerializer`."""

    snapshot_id: ClassVar[str] = BASE + "BooleanSerializer$BooleanSerializerSnapshot"
    kind: ClassVar[str] = "boolean"
    java_class: ClassVar[str] = "java.lang.Boolean"

    def describe(self) -> str:
        return "boolean"

    def restore_serializer(self) -> TypeSerializer[bool]:
        return BooleanSerializer()


@register_snapshot
class ByteSerializerSnapshot(NumberSnapshot[int]):
    """Snapshot of `ByteSerializer`."""

    snapshot_id: ClassVar[str] = BASE + "ByteSerializer$ByteSerializerSnapshot"
    java_class: ClassVar[str] = "java.lang.Byte"
    number: ClassVar[str] = "byte"

    def restore_serializer(self) -> TypeSerializer[int]:
        return ByteSerializer()


@register_snapshot
class ShortSerializerSnapshot(NumberSnapshot[int]):
    """Snapshot of `ShortSerializer`."""

    snapshot_id: ClassVar[str] = BASE + "ShortSerializer$ShortSerializerSnapshot"
    java_class: ClassVar[str] = "java.lang.Short"
    number: ClassVar[str] = "short"

    def restore_serializer(self) -> TypeSerializer[int]:
        return ShortSerializer()


@register_snapshot
class IntSerializerSnapshot(NumberSnapshot[int]):
    """Snapshot of `IntSerializer`."""

    snapshot_id: ClassVar[str] = BASE + "IntSerializer$IntSerializerSnapshot"
    java_class: ClassVar[str] = "java.lang.Integer"
    number: ClassVar[str] = "int"

    def restore_serializer(self) -> TypeSerializer[int]:
        return IntSerializer()


@register_snapshot
class LongSerializerSnapshot(NumberSnapshot[int]):
    """Snapshot of `LongSerializer`."""

    snapshot_id: ClassVar[str] = BASE + "LongSerializer$LongSerializerSnapshot"
    java_class: ClassVar[str] = "java.lang.Long"
    number: ClassVar[str] = "long"

    def restore_serializer(self) -> TypeSerializer[int]:
        return LongSerializer()


@register_snapshot
class FloatSerializerSnapshot(NumberSnapshot[float]):
    """Snapshot of `FloatSerializer`."""

    snapshot_id: ClassVar[str] = BASE + "FloatSerializer$FloatSerializerSnapshot"
    java_class: ClassVar[str] = "java.lang.Float"
    number: ClassVar[str] = "float"

    def restore_serializer(self) -> TypeSerializer[float]:
        return FloatSerializer()


@register_snapshot
class DoubleSerializerSnapshot(NumberSnapshot[float]):
    """Snapshot of `DoubleSerializer`."""

    snapshot_id: ClassVar[str] = BASE + "DoubleSerializer$DoubleSerializerSnapshot"
    java_class: ClassVar[str] = "java.lang.Double"
    number: ClassVar[str] = "double"

    def restore_serializer(self) -> TypeSerializer[float]:
        return DoubleSerializer()


@register_snapshot
class BigIntSerializerSnapshot(NumberSnapshot[int]):
    """Snapshot of `BigIntSerializer`."""

    snapshot_id: ClassVar[str] = BASE + "BigIntSerializer$BigIntSerializerSnapshot"
    java_class: ClassVar[str] = "java.math.BigInteger"
    number: ClassVar[str] = "bigint"

    def restore_serializer(self) -> TypeSerializer[int]:
        return BigIntSerializer(allow_null=True)
