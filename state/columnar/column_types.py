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

from ...serializers.primitives.numeric import DecimalSerializer
from ...serializers.records.columns import column_of_field
from ...serializers.records.serializers import DescribedRecordSerializer
from .json_codec import all_codecs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...serializers.columns.codec import ColumnCodec
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
