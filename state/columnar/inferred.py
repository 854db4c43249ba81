"""Inference of the types of undeclared state from the types of columns: each maps to Flink's type for it.

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
from ...serializers.rows.serializers import RowSerializer
from ...serializers.temporal.serializers import TIMES, InstantSerializer, LocalDateTimeSerializer, LocalTimeSerializer

if TYPE_CHECKING:
    from ...serializers.scalars import ScalarSerializer
    from ...serializers.serializer import TypeSerializer

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
