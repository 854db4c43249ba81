"""Record batches as an Avro object container file.

bool boolean, int8 to int32 int, int64 long, float32 float, float64 double, text string, binary bytes, date32 date,
timestamp timestamp-micros or local-timestamp-micros, decimal decimal, list array, struct record, a map with texts as
keys map, any other map an array of records of key and value; each but a map's key is a union with null

Source: Avro 1.12 specification, "Object Container Files".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, BinaryIO

import attrs
import pyarrow as pa

from ...serializers.errors import UnsupportedFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Convert = Callable[[Any], Any]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MICROS = {"type": "long", "logicalType": "timestamp-micros"}
_LOCAL_MICROS = {"type": "long", "logicalType": "local-timestamp-micros"}
_SINGLE: tuple[tuple[Callable[[pa.DataType], bool], Any], ...] = (
    (pa.types.is_null, "null"),
    (pa.types.is_boolean, "boolean"),
    (lambda kind: kind in {pa.int8(), pa.int16(), pa.int32()}, "int"),
    (lambda kind: kind == pa.int64(), "long"),
    (lambda kind: kind == pa.float32(), "float"),
    (lambda kind: kind == pa.float64(), "double"),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), "string"),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind), "bytes"),
    (pa.types.is_date32, {"type": "int", "logicalType": "date"}),
    (lambda kind: pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz == "UTC", _MICROS),
    (lambda kind: pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz is None, _LOCAL_MICROS),
)


@attrs.frozen
class _Column:
    """How values of an Arrow type are written.

    Attributes:
        schema: The schema in Avro.
        branch: The name of its branch in a union.
        convert: Converts a value that is not null, as Arrow gives it, to what fastavro writes.
    """

    schema: Any
    branch: str
    convert: Convert

    @property
    def optional(self) -> Any:
        return "null" if self.branch == "null" else ["null", self.schema]

    def take(self, value: Any) -> Any:
        """Return a value of the union: its branch is named, so that fastavro need not look for it."""
        return None if value is None else (self.branch, self.convert(value))


def write_avro(
    stream: BinaryIO, schema: pa.Schema, batches: Iterable[pa.RecordBatch], metadata: Mapping[str, str]
) -> int:
    """Write record batches to a file, one batch in memory at a time; return the number of rows.

    Args:
        stream: The file.
        schema: The columns to write; others of the batches are left out.
        batches: The rows.
        metadata: What the header of the file says beside the schema.

    Raises:
        UnsupportedFormat: A column has a type that Avro has not, or a name; nothing is written.
    """
    from fastavro.write import Writer

    row = _struct(schema, "entry")
    writer = Writer(stream, row.schema, codec="deflate", metadata=dict(metadata))
    count = 0
    for batch in batches:
        for found in batch.select(schema.names).to_pylist():
            writer.write(row.convert(found))
        count += batch.num_rows
    writer.flush()
    return count


def _column(kind: pa.DataType, path: str) -> _Column:
    """Return how values of a type are written.

    Args:
        kind: The type.
        path: Its place, which is the name of its record.
    """
    if pa.types.is_struct(kind):
        return _struct(kind, path)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = _column(kind.value_type, f"{path}.element")
        schema = {"type": "array", "items": element.optional}
        return _Column(schema, "array", lambda values: list(map(element.take, values)))
    if pa.types.is_map(kind):
        return _map(kind, path)
    if pa.types.is_decimal(kind) and 0 <= kind.scale <= kind.precision:
        digits = {"logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        return _Column({"type": "bytes", **digits}, "bytes", _same)
    for is_one, schema in _SINGLE:
        if is_one(kind):
            return _Column(schema, schema if isinstance(schema, str) else schema["type"], _same)
    raise UnsupportedFormat(
        f"values of the type {kind} have no type in Avro", path=_shown(path), advice="export it as lines of JSON"
    )


def _struct(fields: Iterable[pa.Field], path: str) -> _Column:
    columns = {field.name: _column(field.type, f"{path}.{field.name}") for field in _named(list(fields), path)}
    parts = [{"name": name, "type": column.optional} for name, column in columns.items()]

    def convert(value: Any) -> Any:
        return {name: column.take(value[name]) for name, column in columns.items()}

    return _Column({"type": "record", "name": path, "fields": parts}, path, convert)


def _named(fields: list[pa.Field], path: str) -> list[pa.Field]:
    names = [field.name for field in fields]
    for name in names:
        if not _NAME.fullmatch(name) or names.count(name) > 1:
            why = "is there twice" if _NAME.fullmatch(name) else "is not of letters, digits and _"
            raise UnsupportedFormat(
                f"the field {name!r} has no name in Avro: it {why}",
                path=_shown(path), advice="export it as lines of JSON",
            )  # fmt: skip
    return fields


def _map(kind: pa.MapType, path: str) -> _Column:
    value = _column(kind.item_type, f"{path}.value")
    if pa.types.is_string(kind.key_type) or pa.types.is_large_string(kind.key_type):
        schema = {"type": "map", "values": value.optional}
        return _Column(schema, "map", lambda pairs: {key: value.take(item) for key, item in pairs})
    key = _column(kind.key_type, f"{path}.key")
    fields = [{"name": "key", "type": key.schema}, {"name": "value", "type": value.optional}]
    entry = {"type": "record", "name": f"{path}.item", "fields": fields}
    return _Column(
        {"type": "array", "items": entry},
        "array",
        lambda pairs: [{"key": key.convert(one), "value": value.take(item)} for one, item in pairs],
    )


def _shown(path: str) -> str:
    return "$" + path.removeprefix("entry")


def _same(value: Any) -> Any:
    return value
