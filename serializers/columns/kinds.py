"""Types of columns: what they are called, and what an error says of one that does not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..wording import one

if TYPE_CHECKING:
    from ..serializer import TypeSerializer

_SPARK_NAMES = {
    "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean",
    "large_string": "string", "large_binary": "binary", "date32[day]": "date",
    "time64[ns]": "time",
}  # fmt: skip


def wrong(serializer: TypeSerializer[Any], kind: pa.DataType, wanted: str = "") -> str:
    """Return what is wrong with a column of a type that does not fit a serializer; it may say which type is wanted."""
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


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Whether a column holds byte strings of any length."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def names_of(kind: pa.DataType) -> tuple[str, ...]:
    """Return the names of the fields of a struct; none for other types."""
    return tuple(field.name for field in kind) if pa.types.is_struct(kind) else ()
