"""Columns of rows as the values that a running function takes and returns: records are instances of classes.

`column_values` has the values that serializers accept, in which a record is generic. Here records are of their Python
class, as serializers read them.

numpy comes with the extra `spark`; nothing else imports this module.
"""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...serializers.columns.bytes_at import PADDING
from ...serializers.columns.codec import Cells
from ...serializers.containers.tuples import TupleSerializer
from ...serializers.containers.wrappers import OptionalSerializer
from ...serializers.errors import ValueNotConvertible, at_step, shown
from ...serializers.primitives.numeric import BooleanSerializer, DoubleSerializer
from ...serializers.records.classes import builder
from ...serializers.records.columns import column_of_field
from ...serializers.records.serializers import DescribedRecordSerializer
from ...serializers.rows.serializers import RowSerializer
from ...serializers.rows.values import Row
from ...serializers.views import DataInputView
from ..entry_keys import encode
from ..user_code import called
from .column_values import all_codecs, encode_column, encode_values, listed, python_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...serializers.serializer import TypeSerializer

Serializer = Any
_TAKEN = (
    (pa.types.is_integer, int),
    (pa.types.is_floating, float),
    (pa.types.is_string, str),
    (pa.types.is_binary, bytes),
)
"""Arrow types, and the class of those values that become what they are: of others Arrow makes 2 of 2.5, 'x' of b'x'."""


def field_names(serializer: TypeSerializer[Any]) -> tuple[str, ...]:
    """Return the names of the fields of a record, or of the columns of a row with names; else none."""
    if isinstance(serializer, DescribedRecordSerializer):
        return tuple(field.name for field in serializer.fields)
    return serializer.names if isinstance(serializer, RowSerializer) else ()


def live_values(serializer: TypeSerializer[Any], column: pa.Array) -> list[Any]:
    """Return the values of a column as a function takes them; nulls become None.

    Raises:
        ValueNotConvertible: A value does not fit the type.
    """
    if isinstance(serializer, OptionalSerializer):
        return live_values(serializer.value, column)
    if column.null_count:
        found = iter(live_values(serializer, column.drop_null()))
        return [next(found) if valid else None for valid in pc.is_valid(column).to_pylist()]
    if _is_plain_record(serializer):
        return _records(serializer, column)
    if isinstance(serializer, RowSerializer) and serializer.names:
        names = serializer.names
        parts = [live_values(one.serializer, column.field(one.name)) for one in serializer.columns]
        return [Row._of(values, names) for values in zip(*parts, strict=True)]  # noqa: SLF001 - its own package
    if isinstance(serializer, TupleSerializer):
        parts = [live_values(part, column.field(at)) for at, part in enumerate(serializer.fields)]
        return list(zip(*parts, strict=True))
    if not serializer.snapshot_configuration().children():
        if all_codecs().of(serializer).is_plain:
            return listed(column)
        return python_values(serializer, column)
    encoded = encode_column(serializer, column)
    data = encoded.join().to_pylist()
    declined = np.flatnonzero(encoded.declined).tolist()
    for row, item in zip(declined, encode_values(serializer, column, declined), strict=True):
        data[row] = item
    return [serializer.deserialize(DataInputView(item)) for item in data]


def _is_plain_record(serializer: Any) -> bool:
    """Whether all values are of one class whose fields are known."""
    return (
        isinstance(serializer, DescribedRecordSerializer)
        and serializer.python_class is not None
        and not serializer.registered
        and not serializer.unregistered
    )


def _records(serializer: Serializer, column: pa.Array) -> list[Any]:
    there = [column.type.field(index).name for index in range(column.type.num_fields)]
    parts: dict[str, list[Any]] = {}
    for field in serializer.fields:
        argument = field.init_name or field.attribute or field.name
        if name := column_of_field(field, there):
            values = live_values(field.serializer, column.field(name))
            if not field.optional and None in values:
                raise ValueNotConvertible(
                    f"there is a null in the column {name!r}, and the field {field.name!r} may not be null",
                    advice=f"declare it {field.name}: … | None, or remove such rows",
                )
            parts[argument] = values
        else:
            parts[argument] = [field.default.make() for _ in range(len(column))]
    build = builder(serializer.python_class, [*parts])
    return called(
        lambda: list(map(build, *parts.values())) if parts else [build() for _ in range(len(column))],
        lambda: f"{serializer.python_name} cannot be built from a row",
        "let the class accept what the columns have",
    )


def result_kind(serializer: TypeSerializer[Any]) -> pa.DataType:
    """Return the type of the column of results; the fields of a class are in the order in which it declares them."""
    if isinstance(serializer, OptionalSerializer):
        return result_kind(serializer.value)
    if not _is_plain_record(serializer):
        return all_codecs().of(serializer).kind
    return pa.struct([pa.field(field.name, result_kind(field.serializer)) for field in _in_order(serializer)])


def _in_order(serializer: Serializer) -> list[Any]:
    order = list(signature(serializer.python_class).parameters)
    places = {name: place for place, name in enumerate(order)}
    return sorted(
        serializer.fields,
        key=lambda field: places.get(field.init_name or field.attribute or field.name, len(places)),
    )


def result_columns(serializer: TypeSerializer[Any], values: Sequence[Any]) -> pa.Array:
    """Return the column of results, of the type `result_kind`.

    Raises:
        ValueNotConvertible: A value is not of the type.
    """
    if isinstance(serializer, OptionalSerializer):
        return result_columns(serializer.value, values)
    return _records_column(serializer, values) if _is_plain_record(serializer) else _column(serializer, values)


def _records_column(serializer: Serializer, values: Sequence[Any]) -> pa.Array:
    there = [value for value in values if value is not None]
    for value in there:
        if type(value) is not serializer.python_class:
            raise ValueNotConvertible(f"{shown(value)} is not a {serializer.python_name}")
    kind = result_kind(serializer)
    columns = []
    for field in _in_order(serializer):
        with at_step(f".{field.name}"):
            columns.append(_field_column(field, [getattr(value, field.attribute or field.name) for value in there]))
    column = pa.StructArray.from_arrays(columns, fields=list(kind)) if columns else pa.array([{}] * len(there), kind)
    return column if len(there) == len(values) else _spread(column, values)


def _spread(column: pa.Array, values: Sequence[Any]) -> pa.Array:
    """Return a column with nulls where values are None; the given one has the others."""
    rows = iter(range(len(column)))
    return column.take(pa.array([None if value is None else next(rows) for value in values], pa.int64()))


def _field_column(field: Any, values: list[Any]) -> pa.Array:
    if not field.optional and None in values:
        raise ValueNotConvertible(f"found null in the field {field.name!r}, which is not declared optional")
    return result_columns(field.serializer, values)


def _column(serializer: Any, values: Sequence[Any]) -> pa.Array:
    codec = all_codecs().of(serializer)
    if (taken := _taken(serializer, codec)) and {taken, type(None)}.issuperset(map(type, values)):
        try:
            return pa.array(values, codec.kind)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            pass  # below the serializer says what is wrong
    data = [encode(serializer, value) for value in values if value is not None]
    ends = np.cumsum([len(item) for item in data], dtype=np.int64)
    starts = ends - np.fromiter(map(len, data), np.int64, len(data))
    raw = b"".join(data) + bytes(PADDING)
    decoded = codec.decode(Cells(raw, np.frombuffer(raw, np.uint8), starts, ends))
    column = decoded.column
    if decoded.odd.any():
        column = codec.array([codec.tell(serializer.deserialize(DataInputView(item))) for item in data])
    return column if len(data) == len(values) else _spread(column, values)


def _taken(serializer: Any, codec: Any) -> type | None:
    """Return the class of those values that Arrow takes as they are; None: the serializer has to write each."""
    if isinstance(serializer, BooleanSerializer):
        return bool
    if not codec.is_plain and not isinstance(serializer, DoubleSerializer):
        return None
    return next((python_type for is_kind, python_type in _TAKEN if is_kind(codec.kind)), None)
