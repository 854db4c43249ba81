"""The sources of a bootstrap, checked against the job and the columns before any work starts.

The columns to order by are encoded to one binary column that sorts as they do, so all states can be sorted together.
Nulls sort first, as in Spark; NaN last; text by its UTF-8 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...compat.description import StateDescription, StateKind
from ...serializers.columns.codec import (
    fixed_width,
    is_array,
    is_text,
    join_pieces,
    nulls_of,
    number_bytes,
    numbers_of,
    spark_name,
)
from ...serializers.containers.tuples import TupleSerializer
from ...serializers.errors import DeclarationError, StateNotFound, located
from ...serializers.flink.namespaces import GlobalWindowSerializer, VoidNamespaceSerializer
from ...serializers.records.columns import column_of_field
from ...serializers.records.serializers import DescribedRecordSerializer
from ...serializers.wording import meant
from .column_types import fields_by_default, mismatches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ...serializers.serializer import TypeSerializer
    from ..job import Job, Operator
    from .bootstrap import StateColumns, Value

_SIGN = np.uint64(1 << 63)


def can_order(kind: pa.DataType) -> bool:
    """Whether rows can be ordered by columns of this type."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
    )


def order_bytes(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the bytes to sort by; `can_order` must be true for each column's type."""
    pieces: list[Any] = []
    for column in columns:
        pieces.append((~nulls_of(column)).astype(np.uint8).reshape(-1, 1))
        pieces.append(_text(column) if is_text(column.type) else number_bytes(_ordered(column), ">u8"))
    joined: pa.Array = join_pieces(pieces)
    return joined


def _ordered(column: pa.Array) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Map numbers to unsigned numbers of the same order."""
    if pa.types.is_date32(column.type):
        column = pc.cast(column, pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.int64())
    values = numbers_of(column)
    if not pa.types.is_floating(column.type):
        return np.asarray(values.astype(np.int64).view(np.uint64) ^ _SIGN)
    bits = np.where(np.isnan(values), np.nan, values + 0.0).astype(np.float64).view(np.uint64)  # -0.0 becomes 0.0
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _text(column: pa.Array) -> pa.Array:
    """Return text with an end mark that sorts before any further character; a zero in the text is escaped."""
    data = pc.cast(pc.fill_null(column, ""), pa.large_binary())
    if any(b"\0" in text for text in data.to_pylist()):
        data = pa.array([text.replace(b"\0", b"\0\xff") for text in data.to_pylist()], pa.large_binary())
    return join_pieces([data, fixed_width(np.zeros((len(column), 2), dtype=np.uint8))])


_NO_COLUMN = "there is no column"
_CAST = "cast the column, or change the type in the job"


@attrs.frozen
class ResolvedSource:
    """One state to be written, and the columns that it is written from.

    Attributes:
        operator: The index of the operator in the job.
        title: The name of the operator in messages.
        state_id: The index of the state among the operator's keyed states.
        description: The description of the state.
        key: The serializer of the key.
        key_columns: The key column, or several columns that make a tuple.
        namespace_column: The column of the namespace; "" if the state has only one namespace.
        user_key_columns: The columns of the user key of map state, as `key_columns`.
        value_column: The column of the value, or "".
        value_fields: For a record from several columns, pairs of the name in the struct and the column.
        order_columns: The columns that order the rows of a key.
        function: A function of a row that returns the value, instead of value columns.
        aggregate: A function of all rows of a key that returns the value, instead of value columns.
        defaults: The fields without a column.
    """

    operator: int
    title: str
    state_id: int
    description: StateDescription
    key: TypeSerializer[Any]
    key_columns: tuple[str, ...] = ()
    namespace_column: str = ""
    user_key_columns: tuple[str, ...] = ()
    value_column: str = ""
    value_fields: tuple[tuple[str, str], ...] = ()
    order_columns: tuple[str, ...] = ()
    function: Callable[[Any], Any] | None = None
    aggregate: Callable[[Iterable[Any]], Any] | None = None
    defaults: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """The name of the state."""
        return self.description.name

    @property
    def item(self) -> TypeSerializer[Any]:
        """The serializer of the value of a row: the value, an element of the list, or a value of the map."""
        return item_serializer(self.description)

    @property
    def has_whole_lists(self) -> bool:
        """Whether each row has all elements of a list state's key, as an array."""
        is_list = self.description.kind.has_elements and self.aggregate is None
        return is_list and not self.order_columns

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The columns of key and namespace: rows that are equal in them belong to one value, list or map."""
        return (*self.key_columns, *([self.namespace_column] if self.namespace_column else []))

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns that are needed; None if a function gets all columns."""
        if self.function is not None or self.aggregate is not None:
            return None
        values = (self.value_column,) if self.value_column else tuple(column for _, column in self.value_fields)
        wanted = (*self.group_columns, *self.user_key_columns, *self.order_columns, *values)
        return tuple(dict.fromkeys(wanted))


def item_serializer(description: StateDescription) -> TypeSerializer[Any]:
    """Return the serializer of the value of a row: the value, an element of the list, or a value of the map."""
    item: TypeSerializer[Any] = description.kind.item_of(description.value.new_side())
    return item


def resolve(job: Job, sources: Sequence[tuple[StateColumns, pa.Schema]]) -> tuple[ResolvedSource, ...]:
    """Find the state of each source in the job, and its columns in the schema.

    Raises:
        StateNotFound: The job has no such operator or keyed state.
        DeclarationError: A column is missing or of the wrong type, or arguments of a source are missing or superfluous.
    """
    resolved: list[ResolvedSource] = []
    for source, schema in sources:
        with located(operator=source.operator, state=source.state):
            found = _resolve(job, source, schema)
            if any((one.operator, one.state_id) == (found.operator, found.state_id) for one in resolved):
                raise DeclarationError("two sources are for the same state", advice="union their DataFrames")
            resolved.append(found)
    return tuple(resolved)


def _resolve(job: Job, source: StateColumns, schema: pa.Schema) -> ResolvedSource:
    place, operator = find_operator(job, source.operator)
    state_id, description = find_keyed_state(operator, source.state)
    assert operator.key is not None  # noqa: S101 - an operator with keyed states has a key
    base = ResolvedSource(place, operator.uid or operator.id, state_id, description, operator.key)
    return resolve_columns(base, source, schema)


def resolve_columns(base: ResolvedSource, source: StateColumns, schema: pa.Schema) -> ResolvedSource:
    """Find the columns of a source whose state and key are known.

    Raises:
        DeclarationError: As `resolve`.
    """
    description = base.description
    if description.kind is StateKind.TIMERS:
        raise DeclarationError(
            f"{source.state!r} holds timers, which cannot be made from rows",
            advice="let it start empty, or write it with SavepointWriter",
        )
    _check_namespace(description, source, schema)
    twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if twice is not None:
        raise DeclarationError(f"the DataFrame has two columns {twice!r}", advice="rename one of them")
    if not source.key_by:
        raise DeclarationError("no key column was given", advice="pass it: key_by=…")
    _check_shape(source, description.kind, schema)
    _check_type(base.key, _column_type(source.key_by, schema, base.key), source.key_by, "key")
    for name in source.order_by:
        if not can_order(_field(schema, name).type):
            raise DeclarationError(
                f"rows cannot be ordered by the column {name!r}, a {spark_name(_field(schema, name).type)}",
                advice="order by numbers, text, dates or timestamps: cast the column",
            )
    serializer: Any = description.value.new_side()
    if source.user_key:
        _check_type(serializer.key, _column_type(source.user_key, schema, serializer.key), source.user_key, "user key")
    base = attrs.evolve(
        base,
        key_columns=source.key_by,
        namespace_column=source.namespace,
        user_key_columns=source.user_key,
        order_columns=source.order_by,
        aggregate=source.aggregate,
    )
    if source.aggregate is not None:
        return base
    if callable(source.value):
        return attrs.evolve(base, function=source.value)
    return _with_value(base, source.value, schema)


def _check_namespace(description: StateDescription, source: StateColumns, schema: pa.Schema) -> None:
    if description.namespace is None:
        return
    serializer, told = description.namespace.new_side(), description.namespace.snapshot.describe()
    if isinstance(serializer, VoidNamespaceSerializer | GlobalWindowSerializer):
        if source.namespace:
            raise DeclarationError(
                f"the state has only one namespace, {told}, so it cannot come from the column {source.namespace!r}",
                advice="leave it out",
            )
        return
    if not source.namespace:
        raise DeclarationError(
            f"the state has the namespace {told}, but no column was given for it", advice="pass it: namespace=…"
        )
    _check_type(serializer, _field(schema, source.namespace).type, (source.namespace,), "namespace")


def _with_value(base: ResolvedSource, value: Value | None, schema: pa.Schema) -> ResolvedSource:
    serializer: Any = base.description.value.new_side() if base.has_whole_lists else base.item
    if isinstance(value, str):
        kind = _field(schema, value).type
        _check_type(serializer, kind, (value,), "value")
        return attrs.evolve(base, value_column=value, defaults=tuple(fields_by_default(serializer, kind)))
    if not isinstance(serializer, DescribedRecordSerializer):
        raise DeclarationError(
            f"a value of type {serializer.describe()} comes from one column, but none was given",
            advice=f"pass it: value=…; the columns are {_listed(schema.names)}",
        )
    fields = tuple(_field_columns(serializer, value or {}, schema))
    kind = pa.struct([pa.field(name, _field(schema, column).type) for name, column in fields])
    _check_type(serializer, kind, dict(fields), "value", schema.names)
    return attrs.evolve(base, value_fields=fields, defaults=tuple(fields_by_default(serializer, kind)))


def _field_columns(
    serializer: DescribedRecordSerializer[Any], given: Mapping[str, str], schema: pa.Schema
) -> Iterator[tuple[str, str]]:
    left = dict(given)
    for field in serializer.fields:
        name = field.attribute or field.name
        column = left.pop(name, "") or left.pop(field.name, "") or column_of_field(field, schema.names)
        if column:
            yield name, column
    if left:
        fields = [field.attribute or field.name for field in serializer.fields]
        raise DeclarationError(
            f"{serializer.describe()} has no field {next(iter(left))!r}", advice=f"its fields are {_listed(fields)}"
        )


def _check_shape(source: StateColumns, kind: StateKind, schema: pa.Schema) -> None:
    """Raise if arguments do not go together."""
    if source.aggregate is not None:
        if source.value is not None or source.user_key:
            raise DeclarationError(
                "aggregate makes the whole value of a key, so value and user_key cannot be used with it",
                advice="pass one of them",
            )
        return
    if kind.has_user_keys and not source.user_key:
        raise DeclarationError("no column was given for the keys of the map", advice="pass it: user_key=…")
    if not kind.has_user_keys and source.user_key:
        raise DeclarationError(f"a {kind} state has no keys within a map", advice="leave user_key out")
    has_whole_list = isinstance(source.value, str) and is_array(_field(schema, source.value).type)
    if kind.has_elements and not source.order_by and not has_whole_list:
        raise DeclarationError(
            "the elements of a list are ordered, but the rows of a DataFrame are not",
            advice="pass the column to order by: order_by=…; or pass a column of arrays, each a whole list",
        )
    if not kind.has_elements and source.order_by:
        raise DeclarationError(f"a {kind} state has one row for each key, and no order", advice="leave order_by out")


def _column_type(columns: tuple[str, ...], schema: pa.Schema, serializer: TypeSerializer[Any]) -> pa.DataType:
    """Return the type of a key: that of the one column, or a struct of several columns."""
    fields = [_field(schema, name) for name in columns]
    if len(fields) == 1 and not (isinstance(serializer, TupleSerializer) and not pa.types.is_struct(fields[0].type)):
        return fields[0].type
    if not isinstance(serializer, TupleSerializer) or len(serializer.fields) != len(fields):
        raise DeclarationError(
            f"{len(fields)} columns make a tuple of as many items, but {serializer.describe()} is declared",
            advice="give as many columns as the key has items",
        )
    return pa.struct([pa.field(str(index), field.type) for index, field in enumerate(fields)])


def _check_type(
    serializer: TypeSerializer[Any],
    kind: pa.DataType,
    columns: tuple[str, ...] | dict[str, str],
    role: str,
    names: Sequence[str] = (),
) -> None:
    found = list(mismatches(serializer, kind))
    if not found:
        return
    lines = [_column_problem(what, path, columns, names) for path, what in found]
    absent = [path for path, what in found if what.startswith(_NO_COLUMN)]
    advice = [_CAST] if len(absent) < len(found) else []
    if absent:
        field = absent[0].removeprefix(".")
        at_the_top = isinstance(columns, dict) and field.isidentifier()
        named = f"give its column, such as value={{{field!r}: …}}" if at_the_top else "add it to the struct"
        advice.append(f"{named}; or give the field a default")
    raise DeclarationError(
        lines[0] if len(lines) == 1 else f"columns do not fit {', '.join('$' + path for path, _ in found)}:",
        details=[f"  - {line}" for line in lines] if len(lines) > 1 else (),
        advice="; ".join(advice),
        path="$" + found[0][0] if role == "value" else role,
    )


def _column_problem(what: str, path: str, columns: tuple[str, ...] | dict[str, str], names: Sequence[str]) -> str:
    if what.startswith(_NO_COLUMN):
        return f"{what}; the columns are {_listed(names)}" if names else what
    if isinstance(columns, dict):
        field = path[1:].partition(".")[0].partition("[")[0].partition("{")[0].partition("(")[0]
        return f"the column {columns.get(field, field)!r} {what}"
    if len(columns) > 1 and path.startswith("("):
        return f"the column {columns[int(path[1 : path.index(')')])]!r} {what}"
    return f"the column {columns[0]!r} {what}"


def _field(schema: pa.Schema, name: str) -> pa.Field:
    if name not in schema.names:
        raise DeclarationError(
            f"the DataFrame has no column {name!r}{meant(name, schema.names)}",
            advice=f"the columns are {_listed(schema.names)}",
        )
    return schema.field(name)


def find_operator(job: Job, name: str) -> tuple[int, Operator]:
    """Return the index of an operator in a job, and the operator, by uid or id.

    Raises:
        StateNotFound: There is none.
    """
    for place, operator in enumerate(job.operators):
        if name in {operator.uid, operator.id}:
            return place, operator
    names = [operator.uid or operator.id for operator in job.operators]
    raise StateNotFound(
        f"the job has no operator {name!r}{meant(name, names)}", advice=f"its operators are {_listed(names)}"
    )


def find_keyed_state(operator: Operator, name: str) -> tuple[int, StateDescription]:
    """Return the index of a keyed state among those of an operator, and its description.

    Raises:
        StateNotFound: There is none.
    """
    keyed = [state for state in operator.describe().states if state.kind.is_keyed]
    for state_id, state in enumerate(keyed):
        if state.name == name:
            return state_id, state
    names = [state.name for state in keyed]
    if any(state.name == name for state in operator.describe().states):
        raise StateNotFound(
            f"{name!r} is operator state, which has no keys; it starts empty",
            advice=f"the keyed states are {_listed(names)}",
        )
    raise StateNotFound(
        f"the operator has no state {name!r}{meant(name, names)}", advice=f"its keyed states are {_listed(names)}"
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
