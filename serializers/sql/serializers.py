"""Serializers and snapshots of Flink's table runtime.

    RowData          i32 size, binary row         snapshot: i32 n, n types; nested: the fields' serializers
    ArrayData        i32 size, binary array       the type of the elements, their serializer
    MapData          i32 size, binary map         the types of keys and values, their serializers
    DecimalData      i64, or i32 size and bytes   i32 precision, i32 scale
    TimestampData    i64, with i32 above p = 3    i32 precision
    StringData       i32 size, UTF-8              nothing
    RawValueData     i32 size, a value            composite; nested: the serializer of the value
    External         as its nested serializer     composite; a data type, bool; nested: the serializer
    Null             a byte 0                     nothing

Types and serializers within snapshots are in Java serialization. They are parsed as structure, and written again as the
bytes that were read. Source: native snapshot notes, 6 and 7.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Self

import attrs

from ..compatibility import CompatibilityResult, Finding, Flag, Verdict
from ..containers.arrays import BytesSerializer
from ..errors import (
    CorruptSavepoint,
    DeclarationError,
    OldReaderUnavailable,
    UnsupportedFormat,
    ValueNotConvertible,
    shown,
)
from ..primitives.numeric import (
    BooleanSerializer,
    ByteSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
)
from ..registry import register_snapshot
from ..rewrite import Blob, ByteRewrite, Fixed
from ..serializer import KEEP_OLD_TYPE, TypeSerializer, incompatible, unrelated
from ..snapshot import (
    NESTED,
    NESTED_MAGIC,
    NESTED_VERSION,
    CompositeTypeSerializerSnapshot,
    FlinkSnapshot,
    TypeSerializerConfigSnapshot,
    read_versioned_snapshot,
)
from ..views import DataOutputView
from ..ways_out import Option, Told, WayOut
from .binary_rows import (
    TIMESTAMPS,
    big_endian,
    decimal_of,
    decode_row,
    decode_value,
    encode_row,
    encode_value,
    is_fine_timestamp,
    is_wide_decimal,
    map_types,
    require_timestamp,
    text_of,
    unscaled_of,
)
from .java_objects import read_java_object
from .logical_types import LogicalField, LogicalType, read_logical_type, write_logical_type, write_serializer_of
from .row_changes import RowColumn, resolve_columns
from .values import RowData, TimestampData

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..views import DataInputView

_MOST_DIGITS, _MOST_DIGITS_OF_A_SECOND = 38, 9
_FEWEST_THAT_CAN_SWAP = 2
_COMPARE_PLANS = WayOut(
    "give the compiled plans of both queries, which say what each column is:", (Told(Option.OLD_PLAN),)
)
_RUNTIME = "org.apache.flink.table.runtime.typeutils."


def _sized(source: DataInputView, what: str) -> bytes:
    return source.read_fully(source.read_size(f"bytes of {what}"))


def _put_sized(data: bytes, target: DataOutputView) -> None:
    target.write_int(len(data))
    target.write(data)


@attrs.define
class TypedSnapshot(TypeSerializerConfigSnapshot[Any]):
    """Base of the snapshots that hold types of SQL in Java serialization.

    Attributes:
        types: The types.
        written: The bytes that were read as the types, and as serializers beside them; they are written again.
    """

    version: ClassVar[int] = 3

    types: tuple[LogicalType, ...] = ()
    written: bytes = attrs.field(default=b"", eq=False, repr=False)

    def describe(self) -> str:
        return f"{self.kind}<{', '.join(of.describe() for of in self.types)}>"

    def write(self, target: DataOutputView) -> None:
        if not self.written:
            raise DeclarationError(
                f"the snapshot of {self.describe()} was not read from a savepoint, and this release writes no other",
                advice="take the type from a savepoint of a job that has it",
            )
        target.write(self.written)

    def require_types(self, count: int) -> None:
        """Refuse a snapshot that has no types; raises `OldReaderUnavailable`."""
        if len(self.types) != count:
            raise OldReaderUnavailable(f"a snapshot of {self.kind} that was not read has no types")


@attrs.frozen
class RowDataSerializer(TypeSerializer[RowData]):
    """Rows of Flink SQL.

    Attributes:
        stored: The snapshot.
        columns: Where compiled plans say it: which stored column each of them takes.
        stored_columns: The names of the stored columns then, in their order.
        counted: Whether they are the keys of a map that says how often each row is there.
    """

    stored: RowDataSerializerSnapshot
    columns: tuple[RowColumn, ...] = ()
    stored_columns: tuple[str, ...] = ()
    counted: bool = False

    @property
    def is_counted(self) -> bool:
        return self.counted

    layout = Blob()

    def serialize(self, value: RowData, target: DataOutputView) -> None:
        stored = value._stored if isinstance(value, RowData) else b""  # noqa: SLF001 - of this package
        _put_sized(stored or encode_row(value, self.stored.types), target)

    def deserialize(self, source: DataInputView) -> RowData:
        data = _sized(source, "a row")
        row = decode_row(data, self.stored.types)
        if encode_row(row, self.stored.types) != data:
            row._stored = data  # noqa: SLF001 - of this package
        return row

    def snapshot_configuration(self) -> RowDataSerializerSnapshot:
        return self.stored

    def ensure_compatibility(self, snapshot: TypeSerializerConfigSnapshot[Any]) -> CompatibilityResult[RowData]:
        if not isinstance(snapshot, RowDataSerializerSnapshot):
            return unrelated(self, snapshot)
        if self.columns and len(self.stored_columns) == len(snapshot.types):
            return resolve_columns(self, snapshot)
        if snapshot != self.stored:
            reason = "Flink refuses rows with other columns, and which column becomes which is not stored"
            return incompatible(self, snapshot, "SQL-2", reason, _COMPARE_PLANS, KEEP_OLD_TYPE)
        if len(self.stored.types) < _FEWEST_THAT_CAN_SWAP:
            return CompatibilityResult.compatible()
        name = self.describe()
        reason = "the types are the same, but what each column is computed from is not stored"
        finding = Finding("$", "SQL-1", Verdict.COMPATIBLE, name, name, reason, (_COMPARE_PLANS,), (Flag.UNVERIFIED,))
        return CompatibilityResult.compatible(finding)


def _with_span(source: DataInputView) -> tuple[LogicalType, bytes]:
    start = source.position
    return read_logical_type(source), source.span(start)


@attrs.frozen
class RowField:
    """A field of rows, in the snapshot of their serializer.

    Attributes:
        type: The type.
        snapshot: The snapshot of its serializer.
        piece: The type as it is written.
    """

    type: LogicalType
    snapshot: TypeSerializerConfigSnapshot[Any]
    piece: bytes = attrs.field(repr=False)

    @classmethod
    def of(cls, of: LogicalType) -> RowField:
        """Return a field of a type as Flink would write it; raises `UnsupportedFormat` if this release cannot."""
        target = DataOutputView()
        write_logical_type(of, target)
        return cls(of, snapshot_of_type(of), target.getvalue())


@register_snapshot
@attrs.define
class RowDataSerializerSnapshot(TypedSnapshot):
    """Snapshot of `RowDataSerializer`: the types of the fields, and snapshots of their serializers.

    Attributes:
        nested: The snapshots of the fields' serializers, which follow from the types.
        pieces: The types as they are written, one by one.
        names: What the fields are called, where a compiled plan says it; no savepoint does.
    """

    snapshot_id: ClassVar[str] = f"{_RUNTIME}RowDataSerializer$RowDataSerializerSnapshot"
    kind: ClassVar[str] = "RowData"
    java_class: ClassVar[str] = "org.apache.flink.table.data.RowData"
    tells_all: ClassVar[bool] = False

    nested: tuple[TypeSerializerConfigSnapshot[Any], ...] = ()
    pieces: tuple[bytes, ...] = attrs.field(default=(), eq=False, repr=False)
    names: tuple[str, ...] = attrs.field(default=(), eq=False)

    @property
    def row_type(self) -> LogicalType:
        """The type of the rows; most often their fields have no names here."""
        names = self.names or [""] * len(self.types)
        return LogicalType("ROW", fields=tuple(map(LogicalField, names, self.types)))

    def describe(self) -> str:
        if not self.names:
            return TypedSnapshot.describe(self)
        fields = (f"{name} {of.describe()}" for name, of in zip(self.names, self.types, strict=True))
        return f"{self.kind}<{', '.join(fields)}>"

    def children(self) -> tuple[TypeSerializerConfigSnapshot[Any], ...]:
        return self.nested

    @classmethod
    def of(cls, types: Iterable[LogicalType]) -> RowDataSerializerSnapshot:
        """Return the snapshot of rows of types, as Flink would write it.

        Raises:
            UnsupportedFormat: This release cannot write one of the types, or the snapshot of its serializer.
        """
        return cls.of_fields(map(RowField.of, types))

    @classmethod
    def of_fields(cls, fields: Iterable[RowField]) -> RowDataSerializerSnapshot:
        """Return the snapshot of rows of fields, some of which may be of another snapshot."""
        given, target = tuple(fields), DataOutputView()
        target.write_int(len(given))
        for one in given:
            target.write(one.piece)
        types, nested, pieces = (tuple(getattr(one, name) for one in given) for name in ("type", "snapshot", "piece"))
        return cls(types, target.getvalue(), nested, pieces)

    def field(self, index: int) -> RowField:
        """Return a field, with its type as it was read."""
        return RowField(self.types[index], self.nested[index], self.pieces[index])

    def restore_serializer(self) -> RowDataSerializer:
        return RowDataSerializer(self)

    def read(self, source: DataInputView) -> None:
        start = source.position
        count = source.read_size("types of fields")
        read = [_with_span(source) for _ in range(count)]
        self.types, self.pieces = tuple(of for of, _ in read), tuple(piece for _, piece in read)
        self.written = source.span(start)
        source.expect(NESTED_MAGIC, "the magic number before nested snapshots")
        source.expect(NESTED_VERSION, "the version of nested snapshots")
        source.expect(count, "the number of nested snapshots")
        self.nested = tuple(read_versioned_snapshot(source) for _ in range(count))

    def write(self, target: DataOutputView) -> None:
        TypedSnapshot.write(self, target)
        NESTED.write(target, self.nested)


@attrs.frozen
class _CollectionSerializer(TypeSerializer[Any]):
    """Base of the serializers of arrays and maps, which stand behind their size.

    Attributes:
        stored: The snapshot.
    """

    stored: _CollectionSnapshot

    layout = Blob()

    def serialize(self, value: Any, target: DataOutputView) -> None:
        _put_sized(encode_value(value, self.stored.type), target)

    def deserialize(self, source: DataInputView) -> Any:
        return decode_value(_sized(source, "an array or a map"), self.stored.type)

    def snapshot_configuration(self) -> _CollectionSnapshot:
        return self.stored


class ArrayDataSerializer(_CollectionSerializer):
    """Arrays of Flink SQL."""


class MapDataSerializer(_CollectionSerializer):
    """Maps of Flink SQL."""


@attrs.define
class _CollectionSnapshot(TypedSnapshot):
    """Base of the snapshots of arrays and maps: the types of their parts, then the serializers of these."""

    serializer: ClassVar[type[_CollectionSerializer]]
    root: ClassVar[str]
    parts: ClassVar[tuple[str, ...]]

    @property
    def type(self) -> LogicalType:
        """The type of the values."""
        fields = (LogicalField(name, of) for name, of in zip(self.parts, self.types, strict=True))
        return LogicalType(self.root, fields=tuple(fields))

    @classmethod
    def of(cls, *types: LogicalType) -> Self:
        """Return the snapshot for parts of these types, as Flink would write it; raises `UnsupportedFormat`."""
        target = DataOutputView()
        for write in (write_logical_type, write_serializer_of):
            for one in types:
                write(one, target)
        return cls(types, target.getvalue())

    def read(self, source: DataInputView) -> None:
        start = source.position
        self.types = tuple(read_logical_type(source) for _ in self.parts)
        for _ in self.parts:
            read_java_object(source)
        self.written = source.span(start)

    def restore_serializer(self) -> _CollectionSerializer:
        self.require_types(len(self.parts))
        return self.serializer(self)


@register_snapshot
@attrs.define
class ArrayDataSerializerSnapshot(_CollectionSnapshot):
    """Snapshot of `ArrayDataSerializer`."""

    snapshot_id: ClassVar[str] = f"{_RUNTIME}ArrayDataSerializer$ArrayDataSerializerSnapshot"
    kind: ClassVar[str] = "ArrayData"
    java_class: ClassVar[str] = "org.apache.flink.table.data.ArrayData"
    serializer = ArrayDataSerializer
    root: ClassVar[str] = "ARRAY"
    parts: ClassVar[tuple[str, ...]] = ("elementType",)


@register_snapshot
@attrs.define
class MapDataSerializerSnapshot(_CollectionSnapshot):
    """Snapshot of `MapDataSerializer`."""

    snapshot_id: ClassVar[str] = f"{_RUNTIME}MapDataSerializer$MapDataSerializerSnapshot"
    kind: ClassVar[str] = "MapData"
    java_class: ClassVar[str] = "org.apache.flink.table.data.MapData"
    serializer = MapDataSerializer
    root: ClassVar[str] = "MAP"
    parts: ClassVar[tuple[str, ...]] = ("keyType", "valueType")


@attrs.frozen
class DecimalDataSerializer(TypeSerializer[Decimal]):
    """Decimals of Flink SQL: their digits as a number, of 8 bytes or of as many as it needs.

    Attributes:
        precision: The most digits.
        scale: Those behind the point.
    """

    precision: int
    scale: int

    @property
    def type(self) -> LogicalType:
        """The type of the values."""
        return LogicalType("DECIMAL", parameters=(("precision", self.precision), ("scale", self.scale)))

    is_immutable_type = True

    @property
    def layout(self) -> ByteRewrite:
        return Blob() if is_wide_decimal(self.type) else Fixed(8)

    def serialize(self, value: Decimal, target: DataOutputView) -> None:
        unscaled = unscaled_of(value, self.type)
        if is_wide_decimal(self.type):
            _put_sized(big_endian(unscaled), target)
        else:
            target.write_long(unscaled)

    def deserialize(self, source: DataInputView) -> Decimal:
        if is_wide_decimal(self.type):
            unscaled = int.from_bytes(_sized(source, "a decimal"), "big", signed=True)
        else:
            unscaled = source.read_long()
        if abs(unscaled) >= 10**self.precision:
            raise CorruptSavepoint(f"a decimal has more digits than {self.type.describe()} holds")
        return decimal_of(unscaled, self.scale)

    def snapshot_configuration(self) -> DecimalDataSerializerSnapshot:
        return DecimalDataSerializerSnapshot(self.precision, self.scale)


@register_snapshot
@attrs.define
class DecimalDataSerializerSnapshot(TypeSerializerConfigSnapshot[Decimal]):
    """Snapshot of `DecimalDataSerializer`.

    Attributes:
        precision: The most digits, 1 to 38.
        scale: Those behind the point.
    """

    snapshot_id: ClassVar[str] = f"{_RUNTIME}DecimalDataSerializer$DecimalSerializerSnapshot"
    version: ClassVar[int] = 3
    kind: ClassVar[str] = "DecimalData"
    java_class: ClassVar[str] = "org.apache.flink.table.data.DecimalData"

    precision: int = 10
    scale: int = 0

    def describe(self) -> str:
        return f"{self.kind}({self.precision}, {self.scale})"

    def write(self, target: DataOutputView) -> None:
        target.write_int(self.precision)
        target.write_int(self.scale)

    def read(self, source: DataInputView) -> None:
        start = source.position
        self.precision, self.scale = source.read_int(), source.read_int()
        if not (1 <= self.precision <= _MOST_DIGITS and 0 <= self.scale <= self.precision):
            raise CorruptSavepoint(
                f"a decimal has {self.precision} digits, {self.scale} of them a fraction", offset=start
            )

    def restore_serializer(self) -> DecimalDataSerializer:
        return DecimalDataSerializer(self.precision, self.scale)


@attrs.frozen
class TimestampDataSerializer(TypeSerializer[TimestampData]):
    """Time stamps of Flink SQL: milliseconds, and nanoseconds where the type has more than three digits.

    Attributes:
        precision: The digits of a second.
    """

    precision: int

    @property
    def type(self) -> LogicalType:
        """The type of the values."""
        return LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", parameters=(("precision", self.precision),))

    is_immutable_type = True

    @property
    def length(self) -> int:
        return 12 if is_fine_timestamp(self.type) else 8

    def serialize(self, value: TimestampData, target: DataOutputView) -> None:
        require_timestamp(value, self.type)
        target.write_long(value.millisecond)
        if is_fine_timestamp(self.type):
            target.write_int(value.nano_of_millisecond)

    def deserialize(self, source: DataInputView) -> TimestampData:
        return TimestampData(source.read_long(), source.read_int() if is_fine_timestamp(self.type) else 0)

    def snapshot_configuration(self) -> TimestampDataSerializerSnapshot:
        return TimestampDataSerializerSnapshot(self.precision)


@register_snapshot
@attrs.define
class TimestampDataSerializerSnapshot(TypeSerializerConfigSnapshot[TimestampData]):
    """Snapshot of `TimestampDataSerializer`.

    Attributes:
        precision: The digits of a second, 0 to 9.
    """

    snapshot_id: ClassVar[str] = f"{_RUNTIME}TimestampDataSerializer$TimestampDataSerializerSnapshot"
    version: ClassVar[int] = 1
    kind: ClassVar[str] = "TimestampData"
    java_class: ClassVar[str] = "org.apache.flink.table.data.TimestampData"

    precision: int = 3

    def describe(self) -> str:
        return f"{self.kind}({self.precision})"

    def write(self, target: DataOutputView) -> None:
        target.write_int(self.precision)

    def read(self, source: DataInputView) -> None:
        start = source.position
        self.precision = source.read_int()
        if not 0 <= self.precision <= _MOST_DIGITS_OF_A_SECOND:
            raise CorruptSavepoint(f"a time stamp has {self.precision} digits of a second", offset=start)

    def restore_serializer(self) -> TimestampDataSerializer:
        return TimestampDataSerializer(self.precision)


@attrs.frozen
class StringDataSerializer(TypeSerializer[str]):
    """Texts of Flink SQL."""

    type: ClassVar[LogicalType] = LogicalType("VARCHAR")

    is_immutable_type = True

    layout = Blob()

    def serialize(self, value: str, target: DataOutputView) -> None:
        _put_sized(encode_value(value, self.type), target)

    def deserialize(self, source: DataInputView) -> str:
        return text_of(_sized(source, "a text"))

    def snapshot_configuration(self) -> StringDataSerializerSnapshot:
        return StringDataSerializerSnapshot()


@register_snapshot
class StringDataSerializerSnapshot(FlinkSnapshot[str]):
    """Snapshot of `StringDataSerializer`."""

    snapshot_id: ClassVar[str] = f"{_RUNTIME}StringDataSerializer$StringDataSerializerSnapshot"
    kind: ClassVar[str] = "StringData"
    java_class: ClassVar[str] = "org.apache.flink.table.data.StringData"

    def describe(self) -> str:
        return self.kind

    def restore_serializer(self) -> StringDataSerializer:
        return StringDataSerializer()


@attrs.frozen
class RawValueDataSerializer(TypeSerializer[Any]):
    """Values of a type of Java within SQL, behind their size.

    Attributes:
        inner: The serializer of the values.
    """

    inner: TypeSerializer[Any]

    layout = Blob()

    def serialize(self, value: Any, target: DataOutputView) -> None:
        within = DataOutputView()
        self.inner.serialize(value, within)
        _put_sized(within.getvalue(), target)

    def deserialize(self, source: DataInputView) -> Any:
        size = source.read_size("bytes of a value")
        part = source.part(source.position, size)
        value = self.inner.deserialize(part)
        if part.remaining():
            raise CorruptSavepoint(
                f"{part.remaining()} bytes follow a value of {self.describe()}", offset=part.position
            )
        source.skip_bytes(size)
        return value

    def snapshot_configuration(self) -> RawValueDataSerializerSnapshot:
        return RawValueDataSerializerSnapshot((self.inner.snapshot_configuration(),))


@register_snapshot
@attrs.define
class RawValueDataSerializerSnapshot(CompositeTypeSerializerSnapshot[Any]):
    """Snapshot of `RawValueDataSerializer`."""

    snapshot_id: ClassVar[str] = f"{_RUNTIME}RawValueDataSerializer$RawValueDataSerializerSnapshot"
    kind: ClassVar[str] = "RawValueData"
    java_class: ClassVar[str] = "org.apache.flink.table.data.RawValueData"
    outer_version: ClassVar[int] = 0
    nested_count: ClassVar[int] = 1
    steps: ClassVar[tuple[str, ...]] = ("",)

    nested: tuple[TypeSerializerConfigSnapshot[Any], ...] = ()

    def restore_serializer(self) -> RawValueDataSerializer:
        return RawValueDataSerializer(self.restore_nested(0))


@attrs.frozen
class ExternalSerializer(TypeSerializer[Any]):
    """Values of a data type, in the bytes of another serializer.

    Attributes:
        inner: That serializer.
        stored: The snapshot.
    """

    inner: TypeSerializer[Any]
    stored: ExternalSerializerSnapshot

    @property
    def length(self) -> int:
        return self.inner.length

    @property
    def is_immutable_type(self) -> bool:
        return self.inner.is_immutable_type

    @property
    def layout(self) -> ByteRewrite:
        return self.inner.layout

    def serialize(self, value: Any, target: DataOutputView) -> None:
        self.inner.serialize(value, target)

    def deserialize(self, source: DataInputView) -> Any:
        return self.inner.deserialize(source)

    def snapshot_configuration(self) -> ExternalSerializerSnapshot:
        return self.stored


@register_snapshot
@attrs.define
class ExternalSerializerSnapshot(CompositeTypeSerializerSnapshot[Any]):
    """Snapshot of `ExternalSerializer`.

    Attributes:
        data_type: The data type in Java serialization, and whether inputs are internal; written as it was read.
        nested: The snapshot of the serializer whose bytes the values have.
    """

    snapshot_id: ClassVar[str] = f"{_RUNTIME}ExternalSerializer$ExternalSerializerSnapshot"
    kind: ClassVar[str] = "External"
    nested_count: ClassVar[int] = 1
    steps: ClassVar[tuple[str, ...]] = ("",)

    nested: tuple[TypeSerializerConfigSnapshot[Any], ...] = ()
    data_type: bytes = attrs.field(default=b"", repr=False)

    def read_outer_snapshot(self, read_outer_version: int, source: DataInputView) -> None:
        start = source.position
        read_java_object(source)
        source.read_boolean()
        self.data_type = source.span(start)

    def write_outer_snapshot(self, target: DataOutputView) -> None:
        target.write(self.data_type)

    def restore_serializer(self) -> ExternalSerializer:
        return ExternalSerializer(self.restore_nested(0), self)


@attrs.frozen
class NullSerializer(TypeSerializer[None]):
    """What stands in an accumulator for a view, whose values are in a state of their own: one byte 0."""

    length = 1

    is_immutable_type = True

    def serialize(self, value: None, target: DataOutputView) -> None:
        if value is not None:
            raise ValueNotConvertible(f"{shown(value)} is not None, as which a view is stored in its accumulator")
        target.write_byte(0)

    def deserialize(self, source: DataInputView) -> None:
        source.skip_bytes(1)

    def snapshot_configuration(self) -> NullSerializerSnapshot:
        return NullSerializerSnapshot()


@register_snapshot
class NullSerializerSnapshot(FlinkSnapshot[None]):
    """Snapshot of `NullSerializer`."""

    snapshot_id: ClassVar[str] = "org.apache.flink.table.dataview.NullSerializer$NullSerializerSnapshot"
    kind: ClassVar[str] = "view"

    def describe(self) -> str:
        return self.kind

    def restore_serializer(self) -> NullSerializer:
        return NullSerializer()


def snapshot_of_type(of: LogicalType) -> TypeSerializerConfigSnapshot[Any]:
    """Return the snapshot of the serializer that Flink has for values of a type.

    Raises:
        UnsupportedFormat: This release cannot write it; see `write_serializer_of`.
    """
    if of.root == "DECIMAL":
        return DecimalDataSerializerSnapshot(of.parameter("precision"), of.parameter("scale"))
    if of.root in TIMESTAMPS:
        return TimestampDataSerializerSnapshot(of.parameter("precision"))
    if of.root == "ROW":
        return RowDataSerializerSnapshot.of(of.types)
    if of.root == "ARRAY":
        return ArrayDataSerializerSnapshot.of(*of.types)
    if of.root in {"MAP", "MULTISET"}:
        return MapDataSerializerSnapshot.of(*map_types(of))
    serializer = _SERIALIZERS.get(of.root)
    if serializer is None:
        raise UnsupportedFormat(
            f"the snapshot of {of.describe()} is only written as it was read",
            advice="take it from a savepoint that has it",
        )
    return serializer.snapshot_configuration()


_SERIALIZERS: dict[str, TypeSerializer[Any]] = {
    "BOOLEAN": BooleanSerializer(), "TINYINT": ByteSerializer(), "SMALLINT": ShortSerializer(),
    "INTEGER": IntSerializer(), "BIGINT": LongSerializer(), "FLOAT": FloatSerializer(), "DOUBLE": DoubleSerializer(),
    "DATE": IntSerializer(), "TIME_WITHOUT_TIME_ZONE": IntSerializer(),
    "INTERVAL_YEAR_MONTH": IntSerializer(), "INTERVAL_DAY_TIME": LongSerializer(),
    "CHAR": StringDataSerializer(), "VARCHAR": StringDataSerializer(),
    "BINARY": BytesSerializer(), "VARBINARY": BytesSerializer(),
}  # fmt: skip
