"""Rows of Spark as the elements of a function, and its results as rows of Spark."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...serializers.containers.tuples import TupleSerializer
from ...serializers.containers.wrappers import OptionalSerializer
from ...serializers.errors import DeclarationError, StateShiftError, ValueNotConvertible, located, shown
from ...serializers.rows.serializers import RowSerializer
from ...state.columnar.column_types import mismatches
from ...state.columnar.key_columns import encoded_keys, key_column
from ...state.columnar.live_values import field_names, live_values, result_columns, result_kind
from ...state.streaming.slot import Elements
from .blobs import milliseconds, stable_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...serializers.serializer import TypeSerializer
    from ...state.runtime.operators import KeyRun
    from ...state.runtime.output_tag import OutputTag
    from ...state.streaming.slot import SlotTask

_TOLD_APART = (pa.types.is_integer, pa.types.is_string, pa.types.is_binary)
"""Whether Arrow tells values of a type apart as keys are; it does not with 0.0 and -0.0, which have other bytes."""
TAG = "side_output"
"""The column with the name of the side output that a row is for; null for the main output."""


@attrs.frozen
class ElementReader:
    """Turns rows into elements.

    Attributes:
        element: The serializer of the elements; a record or row takes the columns of its fields, another type the only
            column.
        columns: The columns of the elements.
        key: The serializer of the keys; None: the input has no keys.
        key_columns: The columns of the keys.
        time_column: The column of the time stamps; "": there is none.
    """

    element: TypeSerializer[Any]
    columns: tuple[str, ...]
    key: TypeSerializer[Any] | None
    key_columns: tuple[str, ...]
    time_column: str

    def check(self, schema: pa.Schema) -> None:
        """Raise `DeclarationError` if the columns do not fit the type of the elements or keys."""
        batch = pa.RecordBatch.from_pylist([], schema=schema)
        parts = [("an element", self.element, self._column(batch))]
        if self.key is not None:
            parts.append(("a key", self.key, self._keys(batch)))
        for what, serializer, column in parts:
            for path, why in mismatches(serializer, column.type):
                place = path.removeprefix(".")
                at = "" if not place or repr(place) in why else f"{place}: "
                raise DeclarationError(
                    f"the columns do not fit the type of {what}: {at}{why}",
                    advice=f"rename or cast columns, or correct the type; the columns are {', '.join(schema.names)}",
                )

    def read(self, index: int, batch: pa.RecordBatch) -> Elements:
        """Return the elements of some rows of an input.

        Args:
            index: The number of the input.
            batch: The rows.
        """
        keys = None if self.key is None else live_values(self.key, self._keys(batch))
        return self._elements(index, batch, keys)

    def read_by_key(
        self, index: int, batch: pa.RecordBatch, stored: TypeSerializer[Any] | None, max_parallelism: int
    ) -> Elements:
        """Return the elements of some rows of an input; those of a key come together, in their order.

        Keys come as they are in a table: by key group and bytes. One access has just read what the next one needs.

        Args:
            index: The number of the input.
            batch: The rows.
            stored: The serializer of the keys in the state, which may write other bytes than the declared one: those of
                an enum whose members have another order now. None: there is no keyed state.
            max_parallelism: The number of key groups.
        """
        if self.key is None or stored is None:
            return self.read(index, batch)
        all_keys = self._keys(batch)
        codes, firsts = _numbered(self._told_apart(all_keys))
        column = all_keys.take(pa.array(firsts))
        data, groups = encoded_keys(stored, column, max_parallelism)
        in_table = pc.sort_indices(_addresses(data, groups))
        ranks = np.empty(len(firsts), np.int64)
        ranks[in_table] = np.arange(len(firsts))
        order, counts = stable_order(ranks[codes], len(firsts)), np.bincount(codes)[in_table].tolist()
        keys = self._live_keys(column.take(in_table))
        runs = list(zip(keys, groups[in_table].tolist(), data.take(in_table).to_pylist(), counts, strict=True))
        return self._elements(index, batch.take(pa.array(order)), runs=runs)

    def _elements(
        self, index: int, batch: pa.RecordBatch, keys: list[Any] | None = None, runs: list[KeyRun] | None = None
    ) -> Elements:
        try:
            values = live_values(self.element, self._column(batch))
        except ValueNotConvertible as error:
            raise self._located(batch, error) from error
        times = milliseconds(batch.column(self.time_column)).to_pylist() if self.time_column else None
        return Elements(index, keys, values, times, runs)

    def _located(self, batch: pa.RecordBatch, error: ValueNotConvertible) -> ValueNotConvertible:
        """Add to an error the first row that raises it."""
        for number in range(batch.num_rows):
            row = batch.slice(number, 1)
            try:
                live_values(self.element, self._column(row))
            except ValueNotConvertible as found:
                if self.key is not None:
                    found.where["key"] = shown(live_values(self.key, self._keys(row))[0])
                found.where["element"] = shown(row.to_pylist()[0])
                return found
        return error

    def _column(self, batch: pa.RecordBatch) -> pa.Array:
        columns = [batch.column(name) for name in self.columns]
        if not field_names(self.element) and self.columns != numbered_columns(self.element):
            return columns[0]
        return pa.StructArray.from_arrays(columns, names=list(self.columns))

    def _live_keys(self, column: pa.Array) -> list[Any]:
        """Return the keys of a column; an error names the first one that cannot be a key."""
        try:
            return live_values(self.key, column)  # type: ignore[arg-type]  # there are keys
        except ValueNotConvertible:
            for number in range(len(column)):
                with located(key=shown(column[number].as_py())):
                    live_values(self.key, column.slice(number, 1))  # type: ignore[arg-type]  # there are keys
            raise

    def _told_apart(self, keys: pa.Array) -> pa.Array:
        """Return a column with equal values for equal keys."""
        if any(is_kind(keys.type) for is_kind in _TOLD_APART):
            return keys
        return encoded_keys(self.key, keys, 1)[0]  # type: ignore[arg-type]  # there are keys

    def _keys(self, batch: pa.RecordBatch) -> pa.Array:
        return key_column(self.key, [batch.column(name) for name in self.key_columns])  # type: ignore[arg-type]


def numbered_columns(serializer: TypeSerializer[Any]) -> tuple[str, ...]:
    """Return the column names of results that have none, a tuple or an unnamed row, for the next operator."""
    if isinstance(serializer, OptionalSerializer):
        return numbered_columns(serializer.value)
    if not isinstance(serializer, TupleSerializer | RowSerializer) or field_names(serializer):
        return ()
    kind = result_kind(serializer)
    return tuple(field.name for field in kind) if pa.types.is_struct(kind) else ()


def _numbered(column: pa.Array) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Number the distinct values; return the number of each row, and the first row of each number."""
    encoded = column.dictionary_encode()
    codes = encoded.indices.to_numpy()
    firsts = np.empty(len(encoded.dictionary), np.int64)
    firsts[codes[::-1]] = np.arange(len(codes))[::-1]
    return codes, firsts


def _addresses(keys: pa.Array, groups: np.ndarray[Any, np.dtype[np.int32]]) -> pa.Array:
    """Return keys, each with its key group in front, as in the tables of state."""
    prefixes = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(2), len(groups), [None, pa.py_buffer(groups.astype(">u2"))]
    )
    return pc.binary_join_element_wise(prefixes.cast(keys.type), keys, pa.scalar(b"", keys.type))


@attrs.frozen
class ResultWriter:
    """Turns results into rows.

    Attributes:
        output: The serializer of the results of the main output.
        side: The serializers of those of side outputs, by the names of their tags.
    """

    output: TypeSerializer[Any]
    side: dict[str, TypeSerializer[Any]] = attrs.field(factory=dict)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows: those of the results, and with side outputs a tag and a column for each output."""
        fields = self._main_fields()
        if self.side:
            fields = [field.with_nullable(nullable=True) for field in fields]
            fields.append(pa.field(TAG, pa.string()))
            fields += [pa.field(name, result_kind(serializer)) for name, serializer in self.side.items()]
        return pa.schema(fields)

    def check(self) -> None:
        """Raise `DeclarationError` if two columns have one name: Spark does not tell upper from lower case."""
        if not self.side:
            return
        main = {field.name.casefold(): field.name for field in self._main_fields()}
        if TAG in main:
            raise DeclarationError(
                f"the results have a field {main[TAG]!r}, the name of the column with the names of side outputs",
                advice="give the field another name, or leave out the side outputs",
            )
        known: dict[str, str] = {}
        for name in self.side:
            if name.casefold() in main:
                raise DeclarationError(
                    f"the side output {name!r} has the name of a column of the main output, and both are columns of one"
                    f" DataFrame; that has the columns {', '.join(main.values())}",
                    advice="give the tag another name",
                )
            if name.casefold() == TAG:
                raise DeclarationError(
                    f"a side output cannot have the name {name!r}: that column says which output a row is for",
                    advice="give the tag another name",
                )
            if (other := known.setdefault(name.casefold(), name)) != name:
                raise DeclarationError(
                    f"the side outputs {other!r} and {name!r} differ in upper and lower case alone, which Spark does"
                    " not tell apart",
                    advice="give one of the tags another name",
                )

    def _main_fields(self) -> list[pa.Field]:
        kind = result_kind(self.output)
        if pa.types.is_struct(kind):
            return [kind.field(index) for index in range(kind.num_fields)]
        return [pa.field("value", kind)]

    def rows_of(self, task: SlotTask) -> pa.RecordBatch:
        """Return the rows of a task's results since the last call.

        Where the task tolerates errors, a result that is not of the declared type is left out; what the task makes of
        that is a further result.

        Raises:
            ValueNotConvertible: A result is not of the declared type; it has the key and the element of the result.
        """
        origins, side_origins = task.origins, task.side_origins
        results, side = task.take()
        try:
            return self.write(results, side)
        except StateShiftError:
            good: tuple[list[Any], list[tuple[OutputTag, Any]]] = [], []
            for of_one, origin in chain(
                zip((([one], []) for one in results), origins, strict=True),
                zip((([], [one]) for one in side), side_origins, strict=True),
            ):
                _, index, key, element = origin
                try:
                    with located(key=shown(key), element="a timer" if index < 0 else shown(element)):
                        self.write(*of_one)
                except ValueNotConvertible as error:
                    if not task.tolerates:
                        raise
                    task.pass_over(error, origin)
                else:
                    good[0].extend(of_one[0])
                    good[1].extend(of_one[1])
            if not task.tolerates:
                raise
            return self.write(*good)

    def write(self, results: Sequence[Any], side: Sequence[tuple[OutputTag, Any]]) -> pa.RecordBatch:
        """Return the rows of some results.

        Raises:
            ValueNotConvertible: A result is not of the declared type.
        """
        with located(path="result"):
            rows = self._main(results)
        if not self.side:
            return pa.RecordBatch.from_arrays(rows, schema=self.schema)
        count, more = len(results), len(side)
        schema = self.schema
        columns = [pa.concat_arrays([column, pa.nulls(more, column.type)]) for column in rows]
        columns.append(
            pa.concat_arrays([pa.nulls(count, pa.string()), pa.array([t.tag_id for t, _ in side], pa.string())])
        )
        for name, serializer in self.side.items():
            with located(path=f"side output {name}"):
                column = result_columns(serializer, [value for tag, value in side if tag.tag_id == name])
            rows_of = iter(range(len(column)))
            places = [None] * count + [next(rows_of) if tag.tag_id == name else None for tag, _ in side]
            columns.append(column.take(pa.array(places, pa.int64())))
        unknown = {tag.tag_id for tag, _ in side} - self.side.keys()
        if unknown:
            raise DeclarationError(
                f"the function wrote to the side output {min(unknown)!r}, which is not declared",
                advice="name its tag in side_outputs=[…]",
            )
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _main(self, results: Sequence[Any]) -> list[pa.Array]:
        if not isinstance(self.output, OptionalSerializer) and any(value is None for value in results):
            raise ValueNotConvertible(
                f"the function returned None where {self.output.describe()} is declared",
                advice="yield nothing, or declare the results optional",
            )
        column = result_columns(self.output, results)
        return column.flatten() if pa.types.is_struct(column.type) else [column]
