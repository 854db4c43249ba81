"""Columns of values of Flink SQL, which are read, and not yet written.

    BOOLEAN, TINYINT … BIGINT, FLOAT, DOUBLE  the same       DATE           date
    CHAR, VARCHAR                             string         TIME           time
    BINARY, VARBINARY, RAW                    binary         TIMESTAMP      timestamp_ntz
    DECIMAL(p, s)                             decimal(p,s)   TIMESTAMP_LTZ  timestamp
    ROW, STRUCTURED   struct f0, f1, …; named where names are stored   INTERVAL  int: months; bigint: milliseconds
    ARRAY, MAP, MULTISET                      array, map

Spark stores microseconds: a time stamp that is finer is an error. The exact codec returns time stamps as text in ISO
8601, to the nanosecond, and rows with `row_kind` at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from ..columns.codec import EXACT, ColumnCodec, not_in_column, told_at
from ..columns.scalars import NothingCodec
from ..containers.columns import map_codec
from ..temporal.values import Instant
from .binary_rows import TIMESTAMPS, map_types
from .containers import LinkedListSerializer, SortedMapSerializer
from .serializers import (
    ArrayDataSerializer,
    DecimalDataSerializer,
    ExternalSerializer,
    MapDataSerializer,
    NullSerializer,
    RawValueDataSerializer,
    RowDataSerializer,
    StringDataSerializer,
    TimestampDataSerializer,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..columns.codec import Codecs, ColumnTable
    from ..serializer import TypeSerializer
    from .logical_types import LogicalType
    from .values import TimestampData

_MICROS, _NANOS_OF_A_MILLI, _MILLIS = 1000, 1_000_000, 1000
_MOST_MICROS = 1 << 63
_DAY_MILLIS = 86_400_000
_KINDS = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INTEGER": pa.int32(), "BIGINT": pa.int64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "DATE": pa.date32(), "TIME_WITHOUT_TIME_ZONE": pa.time64("ns"),
    "INTERVAL_YEAR_MONTH": pa.int32(), "INTERVAL_DAY_TIME": pa.int64(), "CHAR": pa.utf8(), "VARCHAR": pa.utf8(),
    "BINARY": pa.binary(), "VARBINARY": pa.binary(), "RAW": pa.binary(),
}  # fmt: skip


@attrs.frozen
class SqlCodec(ColumnCodec):
    """Values of a type of SQL.

    Attributes:
        type: The type.
        exact: Whether time stamps become text, and rows have their kind.
    """

    type: LogicalType
    exact: bool

    @property
    def kind(self) -> pa.DataType:
        return _kind(self.type, exact=self.exact)

    def _arrow_value(self, value: Any) -> Any:
        return _told(value, self.type, exact=self.exact)

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        yield path, f"is {kind}, and values of {self.serializer.describe()} are not written from columns"


def _kind(of: LogicalType, *, exact: bool) -> pa.DataType:
    if of.root == "DECIMAL":
        return pa.decimal128(of.parameter("precision"), of.parameter("scale"))
    if of.root in TIMESTAMPS:
        return pa.utf8() if exact else pa.timestamp("us", _zone(of))
    if of.root == "ARRAY":
        return pa.list_(_kind(of.types[0], exact=exact))
    if of.root in {"MAP", "MULTISET"}:
        return pa.map_(*(_kind(part, exact=exact) for part in map_types(of)))
    if of.root in _KINDS:
        return _KINDS[of.root]
    fields = [pa.field(name, _kind(part, exact=exact)) for name, part in _columns(of)]
    return pa.struct([*fields, pa.field("row_kind", pa.string())] if exact else fields)


def _zone(of: LogicalType) -> str | None:
    return "UTC" if of.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE" else None


def _columns(of: LogicalType) -> list[tuple[str, LogicalType]]:
    return [(field.name or f"f{index}", field.type) for index, field in enumerate(of.fields)]


def _told(value: Any, of: LogicalType, *, exact: bool) -> Any:
    """Return a value as `pa.array` takes it."""
    if value is None:
        return None
    if of.root in TIMESTAMPS:
        return _text(value, of) if exact else _micros(value)
    if of.root == "TIME_WITHOUT_TIME_ZONE":
        return _nanos(value)
    if of.root == "ARRAY":
        return [_told(item, of.types[0], exact=exact) for item in value]
    if of.root in {"MAP", "MULTISET"}:
        key, item = map_types(of)
        return [(_told(one, key, exact=exact), _told(other, item, exact=exact)) for one, other in value.items()]
    if not of.fields:
        return value
    told = {name: _told(item, part, exact=exact) for item, (name, part) in zip(value, _columns(of), strict=True)}
    kind = value._kind.name  # noqa: SLF001 - public despite the underscore
    if exact:
        told["row_kind"] = kind
    elif kind != "INSERT":
        raise not_in_column(value, f"is a row of kind {kind}, but a struct has no kind", EXACT)
    return told


def _text(value: TimestampData, of: LogicalType) -> str:
    seconds, millis = divmod(value.millisecond, _MILLIS)
    text = str(Instant(seconds, millis * _NANOS_OF_A_MILLI + value.nano_of_millisecond))
    return text if _zone(of) else text.removesuffix("Z")


def _micros(value: TimestampData) -> int:
    micros, finer = divmod(value.nano_of_millisecond, _MICROS)
    if finer:
        raise not_in_column(value, "has nanoseconds, but a column has only microseconds", EXACT)
    found = value.millisecond * _MICROS + micros
    if not -_MOST_MICROS <= found < _MOST_MICROS:
        raise not_in_column(value, "is outside the years that Spark supports", EXACT)
    return found


def _nanos(value: int) -> int:
    if not 0 <= value < _DAY_MILLIS:
        raise not_in_column(value, "is no time of a day, in milliseconds", "read the state with Savepoint.open")
    return value * _NANOS_OF_A_MILLI


def _row(codecs: Codecs, serializer: RowDataSerializer) -> ColumnCodec:
    codec = SqlCodec(serializer, serializer.stored.row_type, codecs.exact)
    return codec if serializer.stored.types else codecs.other(serializer, codec)


def _of_type(codecs: Codecs, serializer: TypeSerializer[Any], of: LogicalType) -> ColumnCodec:
    return SqlCodec(serializer, of, codecs.exact)


@attrs.frozen
class InnerCodec(ColumnCodec):
    """Values in the bytes of another serializer.

    Attributes:
        inner: The codec of its values.
    """

    inner: ColumnCodec

    @property
    def kind(self) -> pa.DataType:
        return self.inner.kind

    def _arrow_value(self, value: Any) -> Any:
        return told_at(self.inner, value, "")


def _inner(codecs: Codecs, serializer: RawValueDataSerializer | ExternalSerializer) -> ColumnCodec:
    return InnerCodec(serializer, codecs.of(serializer.inner))


@attrs.frozen
class LinkedListCodec(ColumnCodec):
    """Lists, whose elements may be null.

    Attributes:
        element: The codec of the elements.
    """

    element: ColumnCodec

    @property
    def kind(self) -> pa.DataType:
        return pa.list_(pa.field("element", self.element.kind))

    def _arrow_value(self, value: Any) -> Any:
        return [None if item is None else told_at(self.element, item, "[]") for item in value]


COLUMNS: ColumnTable = {
    RowDataSerializer: _row,
    ArrayDataSerializer: lambda codecs, one: _of_type(codecs, one, one.stored.type),
    MapDataSerializer: lambda codecs, one: _of_type(codecs, one, one.stored.type),
    DecimalDataSerializer: lambda codecs, one: _of_type(codecs, one, one.type),
    TimestampDataSerializer: lambda codecs, one: _of_type(codecs, one, one.type),
    StringDataSerializer: lambda codecs, one: _of_type(codecs, one, one.type),
    RawValueDataSerializer: _inner,
    ExternalSerializer: _inner,
    NullSerializer: lambda _, one: NothingCodec(one),
    LinkedListSerializer: lambda codecs, one: LinkedListCodec(one, codecs.of(one.element)),
    SortedMapSerializer: map_codec,
}
