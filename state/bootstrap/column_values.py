"""Columns as values of a declared type: which types of columns fit, and the Python value of a row.

A record or a row with names comes from a struct whose fields have those names, a tuple or a row without from a struct
by position, an array from an array, an enum from the names of its members, a moment from a timestamp, a local datetime
from a timestamp without a time zone, the rest from what Arrow calls by the same word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from ...serializers.arrays import BytesSerializer, PrimitiveArraySerializer
from ...serializers.containers import ListSerializer, SetSerializer
from ...serializers.decimals import DecimalSerializer
from ...serializers.either import EitherSerializer
from ...serializers.enums import EnumSerializer
from ...serializers.errors import ValueNotConvertible, cause_text, shown
from ...serializers.maps import MapSerializer
from ...serializers.numeric import (
    BigIntSerializer,
    BooleanSerializer,
    ByteSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
)
from ...serializers.object_arrays import GenericArraySerializer, StringArraySerializer
from ...serializers.optional import OptionalSerializer
from ...serializers.record_values import Record
from ...serializers.records import DescribedRecordSerializer
from ...serializers.recursive_records import RecordReference
from ...serializers.row_values import Row
from ...serializers.rows import RowSerializer
from ...serializers.sql_temporal import DateSerializer, SqlDateSerializer, SqlTimeSerializer, SqlTimestampSerializer
from ...serializers.symbols import Symbol
from ...serializers.temporal import (
    InstantSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
)
from ...serializers.temporal_values import Instant, LocalDate, LocalDateTime, LocalTime, TemporalValue, civil_date
from ...serializers.text import CharSerializer, StringSerializer
from ...serializers.ttl import TtlSerializer
from ...serializers.tuples import TupleSerializer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...serializers.record_fields import RecordField
    from ...serializers.serializer import TypeSerializer

_SEQUENCES = (ListSerializer, PrimitiveArraySerializer, StringArraySerializer, GenericArraySerializer)
_FOR_FUNCTIONS: dict[type, str] = {
    TtlSerializer: "has no time of last access; a function can give TtlValue(last_access_ms, value)",
    EitherSerializer: "is of one type, and one of two is declared; a function can give Left(value) or Right(value)",
    RecordReference: "is of a record within itself, which no column holds; a function can give the objects",
    SqlDateSerializer: "does not tell the time zone of a java.sql.Date; a function can give SqlDate(milliseconds)",
    SqlTimeSerializer: "does not tell the time zone of a java.sql.Time; a function can give SqlTime(milliseconds)",
}
_INTEGERS = (ByteSerializer, ShortSerializer, IntSerializer, LongSerializer)
_SPARK_NAMES = {
    "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean",
    "large_string": "string", "large_binary": "binary", "date32[day]": "date",
    "time64[ns]": "time",
}  # fmt: skip


def column_of_field(field: RecordField, names: Sequence[str]) -> str:
    """Give the name of the column that a record's field comes from: its name in Python, else in the state; or ""."""
    return next((name for name in (field.attribute, field.name) if name and name in names), "")


def mismatches(serializer: TypeSerializer[Any], kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
    """Find what in the type of a column does not fit a serializer, as far as types can tell.

    Integers wider than declared fit: each value is checked when it is written. Of types that stateshift does not know
    (a serializer of the user's own) nothing can be said.

    Returns:
        Pairs of a path below the column, and what is wrong there.
    """
    if type(serializer) in _FOR_FUNCTIONS:
        yield path, _FOR_FUNCTIONS[type(serializer)]
    elif isinstance(serializer, OptionalSerializer):
        yield from mismatches(serializer.value, kind, path)
    elif isinstance(serializer, DescribedRecordSerializer):
        yield from _record_mismatches(serializer, kind, path)
    elif isinstance(serializer, RowSerializer):
        yield from _row_mismatches(serializer, kind, path)
    elif isinstance(serializer, TupleSerializer):
        if not pa.types.is_struct(kind) or kind.num_fields != len(serializer.fields):
            yield path, _wrong(serializer, kind, f"a struct of {len(serializer.fields)} fields")
            return
        for index, field in enumerate(serializer.fields):
            yield from mismatches(field, kind.field(index).type, f"{path}({index})")
    elif isinstance(serializer, (*_SEQUENCES, SetSerializer)):
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            yield path, _wrong(serializer, kind, "an array")
            return
        yield from mismatches(serializer.element, kind.value_type, f"{path}[]")
    elif isinstance(serializer, MapSerializer):
        if not pa.types.is_map(kind):
            yield path, _wrong(serializer, kind, "a map")
            return
        yield from mismatches(serializer.key, kind.key_type, f"{path}{{key}}")
        yield from mismatches(serializer.value, kind.item_type, f"{path}{{}}")
    elif not _fits(serializer, kind):
        yield path, _wrong(serializer, kind, _temporal_column(serializer, kind))


def _record_mismatches(
    serializer: DescribedRecordSerializer[Any], kind: pa.DataType, path: str
) -> Iterator[tuple[str, str]]:
    if not pa.types.is_struct(kind):
        yield path, _wrong(serializer, kind, "a struct")
        return
    names = [kind.field(index).name for index in range(kind.num_fields)]
    for field in serializer.fields:
        name = column_of_field(field, names)
        if name:
            yield from mismatches(field.serializer, kind.field(name).type, f"{path}.{field.name}")
        elif field.default is None:
            yield f"{path}.{field.name}", f"there is no column for the field {field.name!r}, and it has no default"


def _row_mismatches(serializer: RowSerializer, kind: pa.DataType, path: str) -> Iterator[tuple[str, str]]:
    count = len(serializer.columns)
    if not pa.types.is_struct(kind) or not (serializer.names or kind.num_fields == count):
        yield path, _wrong(serializer, kind, f"a struct of {count} fields")
        return
    names = [kind.field(index).name for index in range(kind.num_fields)]
    for index, column in enumerate(serializer.columns):
        if column.name and column.name not in names:
            yield f"{path}.{column.name}", f"there is no column for the row's {column.name!r}"
            continue
        place = names.index(column.name) if column.name else index
        yield from mismatches(column.serializer, kind.field(place).type, path + serializer.step(index))


def fields_by_default(serializer: TypeSerializer[Any], kind: pa.DataType, path: str = "") -> Iterator[str]:
    """Name the fields of a record, and of records in it, that no column gives and that get their default."""
    if not isinstance(serializer, DescribedRecordSerializer) or not pa.types.is_struct(kind):
        return
    names = [kind.field(index).name for index in range(kind.num_fields)]
    for field in serializer.fields:
        name = column_of_field(field, names)
        if name:
            yield from fields_by_default(field.serializer, kind.field(name).type, f"{path}{field.name}.")
        elif field.default is not None:
            yield path + field.name


def _fits(serializer: TypeSerializer[Any], kind: pa.DataType) -> bool:
    if isinstance(serializer, BooleanSerializer):
        return bool(pa.types.is_boolean(kind))
    if isinstance(serializer, _INTEGERS):
        return bool(pa.types.is_integer(kind))
    if isinstance(serializer, BigIntSerializer):
        return bool(pa.types.is_integer(kind)) or (bool(pa.types.is_decimal(kind)) and kind.scale == 0)
    if isinstance(serializer, FloatSerializer | DoubleSerializer):
        return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))
    if isinstance(serializer, StringSerializer | CharSerializer | EnumSerializer):
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
    if isinstance(serializer, BytesSerializer):
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
    if isinstance(serializer, DecimalSerializer):
        return bool(pa.types.is_decimal(kind))
    return fits_temporal(serializer, kind) is not False


def fits_temporal(serializer: TypeSerializer[Any], kind: pa.DataType) -> bool | None:
    """Tell whether columns of a type give values of a temporal serializer; None for other serializers."""
    if isinstance(serializer, InstantSerializer | DateSerializer | SqlTimestampSerializer):
        return bool(pa.types.is_timestamp(kind)) and kind.tz is not None
    if isinstance(serializer, LocalDateTimeSerializer):
        return bool(pa.types.is_timestamp(kind)) and kind.tz is None
    if isinstance(serializer, LocalDateSerializer):
        return bool(pa.types.is_date(kind))
    if isinstance(serializer, LocalTimeSerializer):
        return bool(pa.types.is_time(kind))
    return None


def _temporal_column(serializer: TypeSerializer[Any], kind: pa.DataType) -> str:
    """Name the type of column that a temporal serializer takes, and what a cast to it assumes; "" for others."""
    zone = "which a cast makes in the session's time zone"
    if isinstance(serializer, InstantSerializer | DateSerializer | SqlTimestampSerializer):
        if pa.types.is_timestamp(kind):
            return f"a timestamp, {zone}; as it is, it is a NaiveDatetime"
        return f"a timestamp, {zone}" if pa.types.is_date(kind) else "a timestamp"
    if isinstance(serializer, LocalDateTimeSerializer):
        return f"a timestamp_ntz, {zone}" if pa.types.is_timestamp(kind) else "a timestamp_ntz"
    if isinstance(serializer, LocalDateSerializer):
        return f"a date, {zone}" if pa.types.is_timestamp(kind) and kind.tz else "a date"
    return "a time" if isinstance(serializer, LocalTimeSerializer) else ""


def _wrong(serializer: TypeSerializer[Any], kind: pa.DataType, wanted: str = "") -> str:
    needs = f" ({wanted})" if wanted else ""
    return f"is {_article(spark_name(kind))}, and {serializer.describe()} is declared{needs}"


def _article(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def spark_name(kind: pa.DataType) -> str:
    """Name a type of a column as Spark does."""
    if pa.types.is_struct(kind):
        return "struct"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{spark_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_name(kind.key_type)}, {spark_name(kind.item_type)}>"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is not None else "timestamp_ntz"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _SPARK_NAMES.get(str(kind), str(kind))


def python_values(serializer: TypeSerializer[Any], column: pa.Array) -> list[Any]:
    """Give the values of a column as their serializer takes them."""
    read = value_reader(serializer)
    return [read(value) for value in listed(column)]


@attrs.frozen
class NotInPython:
    """Stands for a value that Python has no object for: an array with a timestamp past the year 9999."""

    why: str


def listed(column: pa.Array) -> list[Any]:
    """Give the values of a column as Python has them; where it has none, an exact temporal value or a `NotInPython`."""
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError) as error:
        if len(column) == 1:
            return [_exact(column) or NotInPython(cause_text(error))]
        return [value for row in range(len(column)) for value in listed(column.slice(row, 1))]
    return values


_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _exact(column: pa.Array) -> TemporalValue | None:
    """Give the one date or time of a column, to the nanosecond and in any year; None where it is something else."""
    kind = column.type
    if pa.types.is_date32(kind):
        return LocalDate(*civil_date(column.cast(pa.int32())[0].as_py()))
    if not (pa.types.is_timestamp(kind) or pa.types.is_time64(kind)):
        return None
    seconds, rest = divmod(column.cast(pa.int64())[0].as_py(), _PER_SECOND[kind.unit])
    nanos = rest * (10**9 // _PER_SECOND[kind.unit])
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return Instant(seconds, nanos)
    days, second = divmod(seconds, 86_400)
    clock = (second // 3600, second // 60 % 60, second % 60, nanos)
    return LocalDateTime(*civil_date(days), *clock) if pa.types.is_timestamp(kind) else LocalTime(*clock)


def value_reader(serializer: TypeSerializer[Any]) -> Callable[[Any], Any]:
    """Give what turns a value, as Arrow gives it, into one that the serializer takes.

    It raises `ValueNotConvertible` where that cannot be, as for a set with an element that occurs twice.
    """
    reader = _reader(serializer)

    def read(value: Any) -> Any:
        if isinstance(value, NotInPython):
            raise ValueNotConvertible(
                f"Python has no such value: {value.why}",
                advice="leave out arrays and maps with dates that are not in the years 1 to 9999, or with nanoseconds",
            )
        return _read(reader, value)

    return read


def _reader(serializer: TypeSerializer[Any]) -> Callable[[Any], Any] | None:
    """What a value, as Arrow gives it, becomes; None: it stays as it is."""
    if isinstance(serializer, OptionalSerializer):
        return _reader(serializer.value)
    if isinstance(serializer, DescribedRecordSerializer):
        return _record_reader(serializer)
    if isinstance(serializer, TupleSerializer):
        readers = [_reader(field) for field in serializer.fields]
        return lambda value: tuple(_read(read, item) for read, item in zip(readers, value.values(), strict=True))
    if isinstance(serializer, RowSerializer):
        return _row_reader(serializer)
    if isinstance(serializer, _SEQUENCES):
        element = _reader(serializer.element)
        return None if element is None else lambda value: [_read(element, item) for item in value]
    if isinstance(serializer, SetSerializer):
        element = _reader(serializer.element)
        return lambda value: _set_of([_read(element, item) for item in value])
    if isinstance(serializer, MapSerializer):
        key, item = _reader(serializer.key), _reader(serializer.value)
        return lambda value: _map_of([(_read(key, name), _read(item, found)) for name, found in value])
    if isinstance(serializer, EnumSerializer):
        return lambda value: Symbol(value) if isinstance(value, str) else value
    if isinstance(serializer, BigIntSerializer):
        return int
    return None


def _read(read: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if read is None or value is None else read(value)


def _record_reader(serializer: DescribedRecordSerializer[Any]) -> Callable[[Any], Any]:
    readers = {field.name: _reader(field.serializer) for field in serializer.fields}

    def read(value: dict[str, Any]) -> Record:
        fields = {}
        for field in serializer.fields:
            name = column_of_field(field, list(value))
            if name:
                fields[field.name] = _read(readers[field.name], value[name])
            else:
                fields[field.name] = field.default.make() if field.default else None
        return Record(serializer.name, fields)

    return read


def _row_reader(serializer: RowSerializer) -> Callable[[Any], Any]:
    readers = [_reader(column.serializer) for column in serializer.columns]
    names = serializer.names

    def read(value: dict[str, Any]) -> Row[*tuple[Any, ...]]:
        items = [value[name] for name in names] if names else value.values()
        return Row._of([_read(*pair) for pair in zip(readers, items, strict=True)], names)  # noqa: SLF001 - its public way

    return read


def _set_of(items: list[Any]) -> frozenset[Any]:
    try:
        found = frozenset(items)
    except TypeError as error:
        raise ValueNotConvertible(f"{shown(items)} cannot be a set: {cause_text(error)}") from error
    if len(found) != len(items):
        raise ValueNotConvertible(f"{shown(items)} holds an element twice, and a set is declared")
    return found


def _map_of(entries: list[tuple[Any, Any]]) -> dict[Any, Any]:
    try:
        found = dict(entries)
    except TypeError as error:
        raise ValueNotConvertible(f"{shown(entries)} cannot be a map: {cause_text(error)}") from error
    if len(found) != len(entries):
        raise ValueNotConvertible(f"{shown(entries)} holds a key twice")
    return found
