"""The mapping from column types to types.

To declared types: a record or a row with names comes from a struct whose fields have those names, a tuple or a row
without names from a struct by position, an array from an array, an enum from the names of its members, an instant from
a timestamp, a local datetime from a timestamp without a time zone, a value with the time of its last access from a
struct of both (`last_access_ms`, `value`), a time window from a struct of `start` and `end`, and other types from the
Arrow type of the same name. Types of undeclared state are inferred, as Flink's type for each:

    tinyint, smallint, int, bigint   byte, short, int, long        date           LocalDate
    float, double                    float, double                 timestamp      Instant
    boolean, string, binary          boolean, string, byte array   timestamp_ntz  LocalDateTime
    decimal                          BigDecimal                    time           LocalTime
    array, map                       list, map
    struct                           in a key a tuple of its fields; elsewhere a Row with their names
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...serializers.columns.codec import is_array, spark_name
from ...serializers.containers.arrays import BytesSerializer
from ...serializers.containers.lists import ListSerializer, MapSerializer
from ...serializers.containers.tuples import TupleSerializer
from ...serializers.errors import DeclarationError
from ...serializers.primitives.numeric import DecimalSerializer
from ...serializers.primitives.table import PRIMITIVES
from ...serializers.primitives.text import StringSerializer
from ...serializers.records.columns import column_of_field
from ...serializers.records.serializers import DescribedRecordSerializer
from ...serializers.rows.serializers import RowSerializer
from ...serializers.temporal.serializers import TIMES, InstantSerializer, LocalDateTimeSerializer, LocalTimeSerializer
from .column_values import all_codecs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...serializers.columns.codec import ColumnCodec
    from ...serializers.scalars import ScalarSerializer
    from ...serializers.serializer import TypeSerializer


def mismatches(serializer: TypeSerializer[Any], kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
    """Find the parts of a column's type that do not fit a serializer, as `ColumnCodec.mismatches`."""
    return all_codecs().of(serializer).mismatches(kind, path)


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


def structs_in(serializer: TypeSerializer[Any], kind: pa.DataType, path: str) -> Iterator[tuple[str, Any, pa.DataType]]:
    """Yield path, serializer and type of each struct of a column that becomes a record or a row with names.

    Args:
        serializer: The serializer of the values; `mismatches` has accepted the column.
        kind: The type of the column.
        path: The path to the column.
    """
    for one_path, one_serializer, one_kind in _parts_in(all_codecs().of(serializer), kind, path):
        is_record = isinstance(one_serializer, DescribedRecordSerializer)
        is_named = is_record or bool(getattr(one_serializer, "names", ()))
        if is_named and pa.types.is_struct(one_kind):
            yield one_path, one_serializer, one_kind


def unscaled_in(serializer: TypeSerializer[Any], kind: pa.DataType, path: str) -> Iterator[str]:
    """Yield the paths of decimals that lose their scale in a column; arguments as in `structs_in`."""
    for one_path, one_serializer, one_kind in _parts_in(all_codecs().of(serializer), kind, path):
        if isinstance(one_serializer, DecimalSerializer) and pa.types.is_decimal(one_kind):
            yield one_path


def _parts_in(codec: ColumnCodec, kind: pa.DataType, path: str) -> Iterator[tuple[str, Any, pa.DataType]]:
    """Yield path, serializer and type of a column, and of each part of it."""
    yield path, codec.serializer, kind
    for part in codec.within(kind, path):
        yield from _parts_in(*part)


_SCALARS: tuple[type[ScalarSerializer[Any]], ...] = (*PRIMITIVES, *TIMES, BytesSerializer)
_PLAIN: dict[pa.DataType, TypeSerializer[Any]] = {
    **{pa.type_for_alias(scalar.row.arrow): scalar() for scalar in _SCALARS if scalar.row.arrow},
    pa.large_string(): StringSerializer(),
    pa.large_binary(): BytesSerializer(),
}


def inferred_serializer(kind: pa.DataType, column: str, *, is_key: bool = False) -> TypeSerializer[Any]:
    """Return the serializer of the Flink type that matches a column's type.

    Args:
        kind: The type of the column.
        column: The name of the column, for errors.
        is_key: Whether the column holds keys, whose structs become tuples.

    Raises:
        DeclarationError: Flink has no matching type.
    """
    if kind in _PLAIN:
        return _PLAIN[kind]
    if pa.types.is_decimal(kind):
        return DecimalSerializer()
    if pa.types.is_timestamp(kind):
        return LocalDateTimeSerializer() if kind.tz is None else InstantSerializer()
    if pa.types.is_time(kind):
        return LocalTimeSerializer()
    if is_array(kind):
        return ListSerializer(inferred_serializer(kind.value_type, column))
    if pa.types.is_map(kind):
        return MapSerializer(inferred_serializer(kind.key_type, column), inferred_serializer(kind.item_type, column))
    if pa.types.is_struct(kind) and kind.num_fields:
        fields = [kind.field(index) for index in range(kind.num_fields)]
        parts = [inferred_serializer(field.type, column, is_key=is_key) for field in fields]
        return TupleSerializer(tuple(parts)) if is_key else RowSerializer.of(parts, [field.name for field in fields])
    raise DeclarationError(
        f"the column {column!r} is of the type {spark_name(kind)}, which has no counterpart in Flink",
        advice="cast it; or declare the state in a job, with the option job, such as shop:job",
    )
