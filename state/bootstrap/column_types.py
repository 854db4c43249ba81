"""The mapping from column types to declared types.

A record or a row with names comes from a struct whose fields have those names, a tuple or a row without names from a
struct by position, an array from an array, an enum from the names of its members, an instant from a timestamp, a local
datetime from a timestamp without a time zone, a value with the time of its last access from a struct of both
(`last_access_ms`, `value`), a time window from a struct of `start` and `end`, and other types from the Arrow type of
the same name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...serializers.containers.arrays import BytesSerializer, PrimitiveArraySerializer
from ...serializers.containers.either import EitherSerializer
from ...serializers.containers.lists import ListSerializer, SetSerializer
from ...serializers.containers.maps import MapSerializer
from ...serializers.containers.object_arrays import GenericArraySerializer, StringArraySerializer
from ...serializers.containers.optional import OptionalSerializer
from ...serializers.containers.ttl import TtlSerializer
from ...serializers.containers.tuples import TupleSerializer
from ...serializers.enums.serializers import EnumSerializer
from ...serializers.flink.windows import TimeWindowSerializer
from ...serializers.primitives.big_numbers import DecimalSerializer
from ...serializers.primitives.numeric import (
    BigIntSerializer,
    BooleanSerializer,
    ByteSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
)
from ...serializers.primitives.text import CharSerializer, StringSerializer
from ...serializers.records.recursive import RecordReference
from ...serializers.records.serializers import DescribedRecordSerializer
from ...serializers.rows.serializers import RowSerializer
from ...serializers.temporal.java_sql import (
    DateSerializer,
    SqlDateSerializer,
    SqlTimeSerializer,
    SqlTimestampSerializer,
)
from ...serializers.temporal.java_time import (
    InstantSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
)
from ...serializers.wording import one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...serializers.records.fields import RecordField
    from ...serializers.serializer import TypeSerializer

SEQUENCES = (ListSerializer, PrimitiveArraySerializer, StringArraySerializer, GenericArraySerializer)
_FOR_FUNCTIONS: dict[type, str] = {
    RecordReference: "is a record that contains itself, which a column cannot hold; use a function that returns the "
    "objects",
}
STAMPED, WINDOW, EITHER = ("last_access_ms", "value"), ("start", "end"), ("is_left", "left", "right")
_NO_ZONE = "is {0}, which lacks the time zone of a {1}; use a function that returns {2}(milliseconds), or a bigint"
_NO_STAMP = (
    "has no time of last access: use a struct of last_access_ms and value, or a function that returns "
    "TtlValue(last_access_ms, value)"
)
_INTEGERS = (ByteSerializer, ShortSerializer, IntSerializer, LongSerializer)
_SPARK_NAMES = {
    "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean",
    "large_string": "string", "large_binary": "binary", "date32[day]": "date",
    "time64[ns]": "time",
}  # fmt: skip


def column_of_field(field: RecordField, names: Sequence[str]) -> str:
    """Return the column of a record's field: the one with its Python name, else its name in the state; "" if none."""
    return next((name for name in (field.attribute, field.name) if name and name in names), "")


def mismatches(serializer: TypeSerializer[Any], kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
    """Find the parts of a column's type that do not fit a serializer.

    Integers wider than declared fit: each value is checked when it is written. Types that stateshift does not know (a
    user's own serializer) always fit.

    Yields:
        Pairs of a path below the column, and what is wrong there.
    """
    if type(serializer) in _FOR_FUNCTIONS:
        yield path, _FOR_FUNCTIONS[type(serializer)]
        return
    find = next((find for family, find in _NESTED if isinstance(serializer, family)), None)
    if find is not None:
        yield from find(serializer, kind, path)
    elif not _fits(serializer, kind):
        yield path, _wrong(serializer, kind, _temporal_column(serializer, kind))


def _tuple_mismatches(serializer: TupleSerializer, kind: pa.DataType, path: str) -> Iterator[tuple[str, str]]:
    if not pa.types.is_struct(kind) or kind.num_fields != len(serializer.fields):
        yield path, _wrong(serializer, kind, f"a struct of {len(serializer.fields)} fields")
        return
    for index, field in enumerate(serializer.fields):
        yield from mismatches(field, kind.field(index).type, f"{path}({index})")


def _item_mismatches(serializer: Any, kind: pa.DataType, path: str) -> Iterator[tuple[str, str]]:
    if not is_array(kind):
        yield path, _wrong(serializer, kind, "an array")
        return
    yield from mismatches(serializer.element, kind.value_type, f"{path}[]")


def _map_mismatches(serializer: MapSerializer[Any, Any], kind: pa.DataType, path: str) -> Iterator[tuple[str, str]]:
    if not pa.types.is_map(kind):
        yield path, _wrong(serializer, kind, "a map")
        return
    yield from mismatches(serializer.key, kind.key_type, f"{path}{{key}}")
    yield from mismatches(serializer.value, kind.item_type, f"{path}{{}}")


def _stamp_mismatches(serializer: TtlSerializer[Any], kind: pa.DataType, path: str) -> Iterator[tuple[str, str]]:
    if _names_of(kind) != STAMPED:
        yield path, _NO_STAMP
        return
    yield from mismatches(LongSerializer(), kind.field(0).type, f"{path}.{STAMPED[0]}")
    yield from mismatches(serializer.value, kind.field(1).type, f"{path}.{STAMPED[1]}")


def _either_mismatches(serializer: EitherSerializer, kind: pa.DataType, path: str) -> Iterator[tuple[str, str]]:
    if _names_of(kind) != EITHER or not pa.types.is_boolean(kind.field(0).type):
        what = "is of one type, but one of two is declared: use a struct of is_left, left and right"
        yield path, f"{what}, or a function that returns Left(value) or Right(value)"
        return
    yield from mismatches(serializer.left, kind.field(1).type, f"{path}.left")
    yield from mismatches(serializer.right, kind.field(2).type, f"{path}.right")


def _zoneless_mismatches(serializer: TypeSerializer[Any], kind: pa.DataType, path: str) -> Iterator[tuple[str, str]]:
    if not pa.types.is_integer(kind):
        given = "SqlDate" if isinstance(serializer, SqlDateSerializer) else "SqlTime"
        yield path, _NO_ZONE.format(one(spark_name(kind)), serializer.describe(), given)


def _window_mismatches(serializer: TimeWindowSerializer, kind: pa.DataType, path: str) -> Iterator[tuple[str, str]]:
    if _names_of(kind) != WINDOW or not all(pa.types.is_integer(field.type) for field in kind):
        yield path, _wrong(serializer, kind, "a struct of start and end, in milliseconds")


def _names_of(kind: pa.DataType) -> tuple[str, ...]:
    return tuple(field.name for field in kind) if pa.types.is_struct(kind) else ()


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


_NESTED: tuple[tuple[Any, Callable[[Any, pa.DataType, str], Iterator[tuple[str, str]]]], ...] = (
    (OptionalSerializer, lambda serializer, kind, path: mismatches(serializer.value, kind, path)),
    (DescribedRecordSerializer, _record_mismatches),
    (RowSerializer, _row_mismatches),
    (TupleSerializer, _tuple_mismatches),
    ((*SEQUENCES, SetSerializer), _item_mismatches),
    (MapSerializer, _map_mismatches),
    (TtlSerializer, _stamp_mismatches),
    (TimeWindowSerializer, _window_mismatches),
    (EitherSerializer, _either_mismatches),
    ((SqlDateSerializer, SqlTimeSerializer), _zoneless_mismatches),
)


def fields_by_default(serializer: TypeSerializer[Any], kind: pa.DataType, path: str = "") -> Iterator[str]:
    """Yield the fields of a record, and of records in it, that have no column and get their default."""
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
    is_text = bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
    if isinstance(serializer, BigIntSerializer):
        return is_text or bool(pa.types.is_integer(kind)) or (bool(pa.types.is_decimal(kind)) and kind.scale == 0)
    if isinstance(serializer, FloatSerializer | DoubleSerializer):
        return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))
    if isinstance(serializer, StringSerializer | CharSerializer | EnumSerializer):
        return is_text
    if isinstance(serializer, BytesSerializer):
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
    if isinstance(serializer, DecimalSerializer):
        return is_text or bool(pa.types.is_decimal(kind))
    return fits_temporal(serializer, kind) is not False


def fits_temporal(serializer: TypeSerializer[Any], kind: pa.DataType) -> bool | None:
    """Return whether a column type fits a temporal serializer; None for other serializers."""
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
    """Return the column type that a temporal serializer needs, and what a cast to it assumes; "" for others."""
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
    return f"is {one(spark_name(kind))}, and {serializer.describe()} is declared{needs}"


def is_array(kind: pa.DataType) -> bool:
    """Whether a column holds arrays; fixed-size arrays do not count, since Spark has none."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def spark_name(kind: pa.DataType) -> str:
    """Return Spark's name of a column type."""
    if pa.types.is_struct(kind):
        return "struct"
    if is_array(kind):
        return f"array<{spark_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_name(kind.key_type)}, {spark_name(kind.item_type)}>"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is not None else "timestamp_ntz"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _SPARK_NAMES.get(str(kind), str(kind))


_Part = tuple[Any, pa.DataType, str]


def structs_in(serializer: TypeSerializer[Any], kind: pa.DataType, path: str) -> Iterator[tuple[str, Any, pa.DataType]]:
    """Yield path, serializer and type of each struct of a column that becomes a record or a row with names.

    Args:
        serializer: The serializer of the values; `mismatches` has accepted the column.
        kind: The type of the column.
        path: The path to the column.
    """
    for one_path, one_serializer, one_kind in _parts_in(serializer, kind, path):
        is_record = isinstance(one_serializer, DescribedRecordSerializer)
        is_named = is_record or bool(getattr(one_serializer, "names", ()))
        if is_named and pa.types.is_struct(one_kind):
            yield one_path, one_serializer, one_kind


def unscaled_in(serializer: TypeSerializer[Any], kind: pa.DataType, path: str) -> Iterator[str]:
    """Yield the paths of decimals that lose their scale in a column; arguments as in `structs_in`."""
    for one_path, one_serializer, one_kind in _parts_in(serializer, kind, path):
        if isinstance(one_serializer, DecimalSerializer) and pa.types.is_decimal(one_kind):
            yield one_path


def _parts_in(serializer: TypeSerializer[Any], kind: pa.DataType, path: str) -> Iterator[tuple[str, Any, pa.DataType]]:
    """Yield path, serializer and type of a column, and of each part of it."""
    yield path, serializer, kind
    for part in (*_fields_of(serializer, kind, path), *_items_of(serializer, kind, path)):
        yield from _parts_in(*part)


def _fields_of(serializer: Any, kind: pa.DataType, path: str) -> Iterator[_Part]:
    """Yield serializer, type and path of each field of a struct."""
    parts: list[tuple[Any, str | int]] = []
    if isinstance(serializer, DescribedRecordSerializer) and pa.types.is_struct(kind):
        named = [(field.serializer, column_of_field(field, _names_of(kind))) for field in serializer.fields]
        parts = [(inner, name) for inner, name in named if name]
    elif isinstance(serializer, RowSerializer):
        parts = [(column.serializer, column.name or index) for index, column in enumerate(serializer.columns)]
    elif isinstance(serializer, TupleSerializer):
        parts = [(inner, index) for index, inner in enumerate(serializer.fields)]
    elif isinstance(serializer, TtlSerializer):
        parts = [(serializer.value, 1)]
    elif isinstance(serializer, EitherSerializer):
        parts = [(serializer.left, 1), (serializer.right, 2)]
    for inner, place in parts:
        field = kind.field(place)
        yield inner, field.type, f"{path}.{field.name}"


def _items_of(serializer: Any, kind: pa.DataType, path: str) -> Iterator[_Part]:
    """Yield serializer, type and path of the values within other columns."""
    if isinstance(serializer, OptionalSerializer):
        yield serializer.value, kind, path
    elif isinstance(serializer, (*SEQUENCES, SetSerializer)):
        yield serializer.element, kind.value_type, f"{path}[]"
    elif isinstance(serializer, MapSerializer):
        yield serializer.key, kind.key_type, f"{path}{{key}}"
        yield serializer.value, kind.item_type, f"{path}{{}}"
