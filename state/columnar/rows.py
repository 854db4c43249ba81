"""Encoding of the rows of a table for one state: key group, state, key bytes, bytes to order by, value bytes.

An error ends the encoding and is itself yielded as a row, with all its facts: the driver finds it before anything is
written. Source: DESIGN, section 4; performance notes.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...serializers.columns.codec import is_array, join_pieces, number_bytes
from ...serializers.containers.wrappers import OptionalSerializer
from ...serializers.errors import StateShiftError, ValueNotConvertible, cause_text, located, shown
from ..entry_keys import encode, is_ambiguous, length_bytes
from ..key_groups import prefix_size
from ..transcode.entry_layout import entry_values, map_value
from ..user_code import called
from .column_values import python_values
from .key_columns import encode_lists, encoded_keys, key_column, refuse_null, required
from .row_sources import order_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ...serializers.serializer import TypeSerializer
    from .row_sources import ResolvedSource

ENCODED_ROWS = pa.schema(
    {
        "operator": pa.int32(),
        "key_group": pa.int32(),
        "state": pa.int32(),
        "key": pa.large_binary(),
        "place": pa.large_binary(),
        "value": pa.large_binary(),
        "error": pa.binary(),
    }
)
_VOID_NAMESPACE = b"\0"
_BLOCK_ROWS = 4096

T = TypeVar("T")


class RowMaker(Protocol):
    """A factory that returns, for column names, a function that makes a row of their values."""

    def __call__(self, names: Sequence[str], /) -> Callable[..., Any]: ...


@attrs.frozen
class _Keys:
    """The keys of a block of rows.

    Attributes:
        groups: The key group of each row.
        data: The entry key of each row without the user key: key group, key, namespace.
        column: The keys themselves; a struct if there are several key columns.
    """

    groups: np.ndarray[Any, np.dtype[np.int32]]
    data: pa.Array
    column: pa.Array


@attrs.frozen
class RowEncoder:
    """An encoder of the rows of one source.

    Attributes:
        source: The state to write, and the columns that it is written from.
        max_parallelism: The number of key groups.
        make_row: The factory of the rows that are passed to functions for rows.
    """

    source: ResolvedSource
    max_parallelism: int
    make_row: RowMaker = attrs.field(repr=False)

    def encode(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Encode batches of rows; for an aggregate, the rows of a key must be adjacent."""
        source = self.source
        try:
            with located(operator=source.title, state=source.state):
                if source.aggregate is not None:
                    yield from self._groups(batches, source.aggregate)
                    return
                for batch in batches:
                    if batch.num_rows:
                        yield self._batch(batch)
        except StateShiftError as error:
            error.__dict__.pop("row", None)
            yield self._rows([0], [b""], [b""], error=pickle.dumps(error))

    def _batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        source = self.source
        keys = self._keys(batch)
        try:
            data = keys.data
            if source.user_key_columns:
                serializer: Any = source.description.value.new_side()
                data = join_pieces(
                    [data, required(serializer.key, _tuple_column(batch, source.user_key_columns, serializer.key))]
                )
            place = order_bytes([batch.column(name) for name in source.order_columns]) if source.order_columns else None
            values = self._called(batch, keys) if source.function is not None else self._values(batch)
        except StateShiftError as error:
            row = getattr(error, "row", None)
            if row is not None:
                error.where.setdefault("key", shown(self._key_of(keys.column, row)))
            error.advice = error.advice or "remove such rows, or declare a type that can hold them"
            raise
        rows = self._rows(pa.array(keys.groups, pa.int32()), data, values, place)
        return rows.filter(pc.is_valid(values)) if values.null_count else rows

    def _rows(
        self, groups: Any, data: Any, values: Any, place: Any = None, error: bytes | None = None
    ) -> pa.RecordBatch:
        count = len(groups)
        numbers = (self.source.operator, self.source.state_id)
        operator, state = (pa.array(np.full(count, number, dtype=np.int32)) for number in numbers)
        if place is None:
            place = pa.repeat(pa.scalar(b"", pa.large_binary()), count)
        columns = [operator, groups, state, data, place, values, pa.repeat(pa.scalar(error, pa.binary()), count)]
        return pa.RecordBatch.from_arrays(
            [
                pc.cast(column, field.type) if isinstance(column, pa.Array) else pa.array(column, field.type)
                for column, field in zip(columns, ENCODED_ROWS, strict=True)
            ],
            schema=ENCODED_ROWS,
        )

    # Keys

    def _keys(self, batch: pa.RecordBatch) -> _Keys:
        serializer = self.source.key
        column = _tuple_column(batch, self.source.key_columns, serializer)
        for name in self.source.key_columns:
            if batch.column(name).null_count:
                raise ValueNotConvertible(
                    f"there is a null in the key column {name!r}, but a key cannot be null",
                    advice=f'remove such rows: .dropna(subset=["{name}"])',
                )
        data, groups = encoded_keys(serializer, column, self.max_parallelism)
        prefix = number_bytes(groups, ">u1" if prefix_size(self.max_parallelism) == 1 else ">u2")
        return _Keys(groups, join_pieces([prefix, data, *self._namespaces(batch, data)]), column)

    def _namespaces(self, batch: pa.RecordBatch, keys: pa.Array) -> list[Any]:
        """Return the pieces that follow the bytes of the keys."""
        name, declared = self.source.namespace_column, self.source.description.namespace
        if not name or declared is None:
            return [np.zeros((len(keys), len(_VOID_NAMESPACE)), dtype=np.uint8)]
        serializer = declared.new_side()
        data = required(serializer, batch.column(name), name)
        if is_ambiguous(self.source.description.kind, self.source.key, serializer):
            return [_length_bytes(keys), data, _length_bytes(data)]
        return [data]

    def _key_of(self, column: pa.Array, row: int) -> Any:
        return python_values(self.source.key, column.slice(row, 1))[0]

    # Values from columns

    def _values(self, batch: pa.RecordBatch) -> pa.Array:
        source = self.source
        if source.value_fields:
            columns = [batch.column(column) for _, column in source.value_fields]
            column = pa.StructArray.from_arrays(columns, names=[name for name, _ in source.value_fields])
        else:
            column = batch.column(source.value_column)
        serializer = source.item
        if source.has_whole_lists:
            return encode_lists(serializer, column, source.value_column)
        if not source.description.kind.has_user_keys:
            return required(serializer, column, source.value_column)
        is_map: Any = source.description.value.new_side()
        if not is_map.nullable_values:
            refuse_null(column, source.value_column)
        try:
            return required(OptionalSerializer(serializer), column)
        except StateShiftError as error:  # the null flag of a map's value is not a step of the path
            error.where["path"] = "${}" + str(error.where.get("path", "")).removeprefix("$?")
            raise

    # Values from functions

    def _called(self, batch: pa.RecordBatch, keys: _Keys) -> pa.Array:
        """Return the encoded result of the function for each row; null if the result is None."""
        source = self.source
        assert source.function is not None  # noqa: S101 - the caller has checked
        found: list[bytes | None] = []
        for row in self._python_rows(batch):
            try:
                value = _call(source.function, row)
                with _given_by(source.function, source.item):
                    found.append(None if value is None else self._item(value))
            except StateShiftError as error:
                error.where.setdefault("key", shown(self._key_of(keys.column, len(found))))
                raise
        return pa.array(found, pa.large_binary())

    def _item(self, value: Any) -> bytes:
        description = self.source.description
        if description.kind.has_user_keys:
            return map_value(description.value.new_side(), value)
        return _written(lambda: encode(self.source.item, value), value)

    def _python_rows(self, batch: pa.RecordBatch) -> Iterator[Any]:
        make = self.make_row(batch.schema.names)
        columns = [_row_values(column, self.make_row) for column in batch.columns]
        return (make(*values) for values in zip(*columns, strict=True))

    # Aggregates

    def _groups(
        self, batches: Iterable[pa.RecordBatch], aggregate: Callable[[Iterable[Any]], Any]
    ) -> Iterator[pa.RecordBatch]:
        groups: list[int] = []
        keys: list[bytes] = []
        values: list[bytes] = []
        for (group, data, key), rows in groupby(self._keyed_rows(batches), key=itemgetter(0)):
            with located(key=shown(key)):
                value = _call(aggregate, (row for _, row in rows))
                with _given_by(aggregate, self.source.description.value.new_side()):
                    entries = self._entries(value)
                for user_key, item in entries:
                    groups.append(group)
                    keys.append(data + user_key)
                    values.append(item)
            if len(keys) >= _BLOCK_ROWS:
                yield self._rows(groups, keys, values)
                groups, keys, values = [], [], []
        if keys:
            yield self._rows(groups, keys, values)

    def _keyed_rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, Any]]:
        for batch in batches:
            if not batch.num_rows:
                continue
            keys = self._keys(batch)
            shown_keys = python_values(self.source.key, keys.column)
            marks = map(_Mark, zip(keys.groups.tolist(), keys.data.to_pylist(), shown_keys, strict=True))
            yield from zip(marks, self._python_rows(batch), strict=True)

    def _entries(self, value: Any) -> list[tuple[bytes, bytes]]:
        kind = self.source.description.kind
        if value is not None and kind.has_elements and not isinstance(value, list | tuple):
            raise ValueNotConvertible(
                f"the function returned {shown(value)}, but the value of a list state must be a list"
            )
        if value is not None and kind.has_user_keys and not isinstance(value, Mapping):
            raise ValueNotConvertible(
                f"the function returned {shown(value)}, but the value of a map state must be a dict"
            )
        serializer = self.source.description.value.new_side()
        return _written(lambda: entry_values(kind, serializer, value), value)


def _length_bytes(data: pa.Array) -> pa.Array:
    lengths = pc.binary_length(data).to_pylist()
    return pa.array(map(length_bytes, lengths), pa.large_binary())


class _Mark(tuple[int, bytes, Any]):
    """Key group, entry key and key of a row; equal by the entry key."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Mark) and self[1] == other[1]

    def __hash__(self) -> int:
        return hash(self[1])


def _tuple_column(batch: pa.RecordBatch, names: tuple[str, ...], serializer: TypeSerializer[Any]) -> pa.Array:
    return key_column(serializer, [batch.column(name) for name in names])


def _call(function: Callable[[Any], Any], argument: Any) -> Any:
    try:
        return function(argument)
    except StateShiftError:
        raise
    except Exception as error:
        raise ValueNotConvertible(
            f"{_name_of(function)} failed with {cause_text(error)}",
            advice="fix the function, or remove such rows",
        ) from error


def _name_of(function: Callable[[Any], Any]) -> str:
    name: str = getattr(function, "__qualname__", "") or repr(function)
    return name


@contextmanager
def _given_by(function: Callable[[Any], Any], serializer: TypeSerializer[Any]) -> Iterator[None]:
    """Add advice about the expected result of a function for rows to errors that have none."""
    try:
        yield
    except StateShiftError as error:
        wanted = f"let {_name_of(function)} return a value of {serializer.describe()}, or None for no value"
        error.advice = error.advice or wanted
        raise


def _written(write: Callable[[], T], value: Any) -> T:
    """Call a serializer; an exception of another kind (for a value of a wrong type) becomes a `ValueNotConvertible`."""
    return called(write, lambda: f"{shown(value)} cannot be written")


def _row_values(column: pa.Array, make_row: RowMaker) -> list[Any]:
    convert = _row_reader(column.type, make_row)
    values: list[Any] = column.to_pylist()
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _row_reader(kind: pa.DataType, make_row: RowMaker) -> Callable[[Any], Any] | None:
    """Return the function that converts structs in a value to rows, and maps to dicts; None if there are none."""
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        make = make_row([field.name for field in fields])
        readers = [_row_reader(field.type, make_row) for field in fields]
        return lambda value: make(*(_read(r, value[f.name]) for r, f in zip(readers, fields, strict=True)))
    if is_array(kind):
        reader = _row_reader(kind.value_type, make_row)
        return None if reader is None else lambda value: [_read(reader, item) for item in value]
    if pa.types.is_map(kind):
        key, item = _row_reader(kind.key_type, make_row), _row_reader(kind.item_type, make_row)
        return lambda value: {_read(key, name): _read(item, found) for name, found in value}
    return None


def _read(reader: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if reader is None or value is None else reader(value)
