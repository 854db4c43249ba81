"""Rows in avro, as Spark encodes state of transformWithState on request, decoded by columns to Arrow arrays.

Each field is a union of null and its type; so is a struct, an array or a map within an array or a map, while an element
of another type is never null. Numbers of days, of microseconds and of months are int or long, a decimal is a fixed of
the least size. A value is read by the type that it was written with, and its fields are taken by name: those that it
lacks are null. Source: `SchemaConverters.toAvroTypeWithDefaults` of Spark 4.3.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..avro.codec import read_each
from ..avro.schema import AvroField, Node
from ..errors import CorruptFile, CorruptSavepoint, UnsupportedFormat
from ..primitives.numeric import join_decimal
from .rows import MONTHS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .spark_types import SparkType

_NULL = Node("null")
_NODES = {
    "boolean": "boolean", "tinyint": "int", "smallint": "int", "int": "int", "bigint": "long", "float": "float",
    "double": "double", "string": "string", "binary": "bytes", "date": "int", "timestamp": "long",
    "timestamp_ntz": "long", "void": "null",
}  # fmt: skip
_ARROW: dict[str, tuple[pa.DataType, pa.DataType]] = {
    "boolean": (pa.bool_(), pa.bool_()),
    "tinyint": (pa.int8(), pa.int8()),
    "smallint": (pa.int16(), pa.int16()),
    "int": (pa.int32(), pa.int32()),
    "bigint": (pa.int64(), pa.int64()),
    "float": (pa.float32(), pa.float32()),
    "double": (pa.float64(), pa.float64()),
    "date": (pa.int32(), pa.date32()),
    "timestamp": (pa.int64(), pa.timestamp("us", "UTC")),
    "timestamp_ntz": (pa.int64(), pa.timestamp("us")),
    "void": (pa.null(), pa.null()),
}
"""The Arrow types of the numbers as avro has them, and of the column."""


def decode_avro(rows: Sequence[bytes], writers: Iterable[SparkType], of: SparkType) -> pa.StructArray:
    """Decode rows of a struct.

    Args:
        rows: The rows.
        writers: The struct that each was written with.
        of: The struct to return.

    Raises:
        CorruptFile: A row is damaged.
        UnsupportedFormat: The struct has a type that this release does not read.
    """
    values: list[Any] = []
    try:
        for _, some in groupby(zip(writers, rows, strict=True), key=lambda pair: id(pair[0])):
            written = list(some)
            values += read_each(record_of(written[0][0]), [row for _, row in written])
    except CorruptSavepoint as error:
        raise CorruptFile(f"a row in avro is damaged: {error.what}") from error
    try:
        return _column(values, of)
    except (pa.ArrowException, OverflowError) as error:
        raise CorruptFile(f"a row in avro is damaged: {error}") from error


@lru_cache(maxsize=256)
def record_of(of: SparkType) -> Node:
    """Return the schema of a struct in avro.

    Raises:
        UnsupportedFormat: Spark encodes a type of it otherwise, or not at all.
    """
    fields = tuple(AvroField(field.name, _optional(_node(field.type))) for field in of.fields)
    return Node("record", fields=fields, least_bytes=len(fields))


def _optional(node: Node) -> Node:
    return node if node.type in {"null", "union"} else Node("union", branches=(_NULL, node), least_bytes=1)


def _node(of: SparkType) -> Node:
    if of.word == "struct":
        return _optional(record_of(of))
    if of.word == "array" or (of.word == "map" and of.fields[0].type.word == "string"):
        return _optional(Node(of.word, items=_node(of.fields[-1].type), least_bytes=1))
    if of.word == "decimal":
        size = next(size for size in range(1, 17) if 10**of.precision <= 1 << (8 * size - 1))
        return Node("fixed", size=size, least_bytes=size)
    word = _NODES.get(of.word)
    if word is None and of.word.startswith("interval "):
        word = "int" if of.word in MONTHS else "long"
    if word is None:
        raise UnsupportedFormat(
            f"values of the type {of.describe()} in avro are not read by this release", advice="leave out the state"
        )
    return Node(word, least_bytes=0 if word == "null" else 1)


def _column(values: list[Any], of: SparkType) -> pa.Array:
    if of.word == "struct":
        return _structs(values, of)
    if of.word in {"array", "map"}:
        return _nested(values, of)
    if of.word == "decimal":
        numbers = [None if one is None else _decimal(one, of.scale) for one in values]
        return pa.array(numbers, pa.decimal128(of.precision, of.scale))
    if of.word in MONTHS:
        return pa.array([None if one is None else (one, 0, 0) for one in values], pa.month_day_nano_interval())
    if of.word.startswith("interval "):
        return pa.array(values, pa.int64()).view(pa.duration("us"))
    if of.word in {"string", "binary"}:  # one may have become the other
        data = [one.encode() if isinstance(one, str) else one for one in values]
        return pa.array(data, pa.binary()).view(pa.utf8() if of.word == "string" else pa.binary())
    raw, kind = _ARROW[of.word]
    return pa.array(values, raw).view(kind) if raw != kind else pa.array(values, raw)


def _decimal(data: bytes, scale: int) -> Any:
    return join_decimal(int.from_bytes(data, "big", signed=True), scale)


def _structs(values: list[Any], of: SparkType) -> pa.StructArray:
    columns = [_column([None if one is None else one.get(f.name) for one in values], f.type) for f in of.fields]
    mask = pa.array([one is None for one in values], pa.bool_())
    fields = [pa.field(name, column.type) for name, column in zip(of.names, columns, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)


def _nested(values: list[Any], of: SparkType) -> pa.Array:
    offsets: list[int | None] = []
    end = 0
    for one in values:
        offsets.append(None if one is None else end)  # a list that begins nowhere is null
        end += len(one or ())
    places = pa.array([*offsets, end], pa.int32())
    there = [one for one in values if one is not None]
    if of.word == "array":
        return pa.ListArray.from_arrays(places, _column([item for one in there for item in one], of.fields[0].type))
    keys = _column([key for one in there for key in one], of.fields[0].type)
    return pa.MapArray.from_arrays(places, keys, _column([v for one in there for v in one.values()], of.fields[1].type))
