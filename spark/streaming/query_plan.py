"""The plan of an operator in a query: its rows are packed, carried to its slots, and unpacked there."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import attrs
import pyarrow as pa

from ...serializers.errors import DeclarationError
from ...serializers.hints import serializer_for
from ...serializers.registry import registry
from ...state.columnar.column_types import inferred_serializer
from ...state.columnar.live_values import field_names
from ...state.runtime.output_tag import OutputTag
from ...state.runtime.windows.windowed_stream import WindowOperation
from ...state.streaming.failures import FailedElement, check_policy
from ...state.streaming.slot import OperatorSpec
from ..frames import arrow_schema
from ..user_modules import shipped
from ..worker import Settings, dumped
from .blobs import BLOBS, Packing
from .carriers import Unpacking, carried, chosen
from .elements import ElementReader, ResultWriter, numbered_columns
from .metrics import measured
from .slot_runs import SlotRunner

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    from ...compat.description import Converter
    from ...serializers.serializer import TypeSerializer
    from ...state.streaming.failures import ErrorPolicy
    from ...state.streaming.slot import InputSpec
    from ...state.task.subtask import BackendFactory
    from .runs import RunFacts

DEFAULT_KEY_GROUPS = 128
"""The number of key groups of a new query where nothing is said."""


@attrs.frozen
class Input:
    """One input of an operator.

    Attributes:
        df: Its rows.
        element_type: The type hint of its elements; None: what the function's annotation says, else `Row`.
        timestamp: The column of the time stamps; "": there is none.
        spec: Its event time.
        key: The serializer of its keys; None: it has none.
        key_columns: The columns of its keys.
        to_all: Whether every slot gets every row.
        key_converter: Converts stored keys of another type.
    """

    df: DataFrame
    element_type: Any
    timestamp: str
    spec: InputSpec
    key: TypeSerializer[Any] | None = None
    key_columns: tuple[str, ...] = ()
    to_all: bool = False
    key_converter: Converter | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows."""
        return arrow_schema(self.df.schema)

    def reader(self, function: Any, index: int) -> ElementReader:
        """Return the reader that turns its rows into elements.

        Raises:
            DeclarationError: The columns do not fit the type of the elements or keys.
        """
        element = self._element(function, index)
        reader = ElementReader(element, self._columns(element), self.key, self.key_columns, self.timestamp)
        reader.check(self.schema)
        return reader

    def _columns(self, element: TypeSerializer[Any]) -> tuple[str, ...]:
        """Return the columns of the elements' fields, or the only column beside that of the time stamps.

        The fields of a tuple are columns where its parts are, as results of an operator have them.
        """
        if fields := field_names(element):
            return tuple(name for name in self.schema.names if name in fields)
        numbered = numbered_columns(element)
        if numbered and set(numbered) <= set(self.schema.names):
            return numbered
        others = tuple(name for name in self.schema.names if name != self.timestamp)
        names = others or tuple(self.schema.names)
        if len(names) > 1:
            raise DeclarationError(
                f"the elements are of the type {element.describe()}, and there are {len(names)} columns for them:"
                f" {', '.join(names)}",
                advice="select one column, or annotate the element with a record that has these fields",
            )
        return names

    def _element(self, function: Any, index: int) -> TypeSerializer[Any]:
        hint = self.element_type
        if hint is None:
            method = _method(function, index)
            name = next(iter(method.__code__.co_varnames[1:2]), "") if hasattr(method, "__code__") else ""
            hint = _hint(method, name, "element_type to stream(…)")
        if hint is None or hint is Any:
            return inferred_serializer(pa.struct(list(self.schema)), "the row")
        return serializer_for(hint)


@attrs.frozen
class Work:
    """What the driver sends to the tasks of an operator.

    Attributes:
        spec: The operator.
        readers: Make the elements of each input.
        writer: Makes the rows of results.
        settings: The settings of the workers.
        serializers: The serializers that were registered for classes.
        function: The function as it is in the driver, whose modules are sent to the workers.
    """

    spec: OperatorSpec
    readers: tuple[ElementReader, ...]
    writer: ResultWriter
    settings: Settings
    serializers: tuple[tuple[type, TypeSerializer[Any]], ...]
    function: Any

    def shipped(self, spark: SparkSession) -> AbstractContextManager[None]:
        """Send the modules that the tasks need by value, until the `with` block ends."""
        return shipped(spark, (self.function, self.readers, self.writer, self.settings.additions, self.serializers))


@attrs.frozen
class Plan:
    """What all operators of a job share.

    Attributes:
        run: Where tasks read what holds for a start.
        backend: Creates the backends.
        output_mode: The output mode of the query.
        blob_bytes: The size at which packed rows are cut.
    """

    run: RunFacts
    backend: BackendFactory
    output_mode: str
    blob_bytes: int

    def work(
        self,
        inputs: Sequence[Input],
        function: Any,
        uid: str,
        output_type: Any,
        side_outputs: Sequence[OutputTag],
        *,
        in_order: bool,
        on_error: ErrorPolicy,
    ) -> Work:
        """Return what the tasks of an operator get.

        Raises:
            DeclarationError: The types of elements or results are not known, or do not fit the columns.
        """
        check_policy(on_error)
        spark = inputs[0].df.sparkSession
        settings = Settings.of(spark)
        readers = tuple(one.reader(function, index) for index, one in enumerate(inputs))
        writer = ResultWriter(
            serializer_for(output_hint(function, output_type)),
            _side_serializers(side_outputs, on_error),
        )
        writer.check()
        specs = tuple(attrs.evolve(one.spec, has_keys=one.key is not None) for one in inputs)
        own = tuple((kind, serializer_for(kind)) for kind in registry.python_types())
        with shipped(spark, (function, readers, writer, settings.additions, own)):
            spec = OperatorSpec(uid, dumped(function), inputs[0].key, specs, self.backend, in_order, on_error)
        return Work(spec, readers, writer, settings, own, function)

    def results(
        self, inputs: Sequence[Input], work: Work, carrier: str | None, *, is_first: bool
    ) -> tuple[str, DataFrame]:
        """Return how Spark calls an operator, and its results in the plan of the query.

        Args:
            inputs: Its inputs.
            work: What its tasks get.
            carrier: How Spark is to call it; None: it is chosen.
            is_first: Whether the query has no operator of ours yet.
        """
        from pyspark.sql import DataFrame
        from pyspark.sql.pandas.types import from_arrow_schema

        with work.shipped(inputs[0].df.sparkSession):
            runner = SlotRunner(self.run, work.settings, work.spec, work.readers, work.writer, work.serializers)
            rows = reduce(DataFrame.unionByName, self.packed(inputs, work))
            if carrier is None:
                carrier, packed = chosen(rows, runner, self.output_mode, is_first=is_first)
            else:
                packed = carried(rows, runner, carrier, self.output_mode)
            return carrier, measured(packed, work.spec.uid).mapInArrow(
                Unpacking(), from_arrow_schema(work.writer.schema)
            )

    def packed(self, inputs: Sequence[Input], work: Work) -> list[DataFrame]:
        """Return the packed rows of each input."""
        tolerates = work.spec.tolerates
        return [
            one.df.mapInArrow(self.packing(one, index, work.settings, tolerates=tolerates), BLOBS)
            for index, one in enumerate(inputs)
        ]

    def packing(self, one: Input, index: int, settings: Settings, *, tolerates: bool) -> Packing:
        """Return the packing of the rows of an input.

        Args:
            one: The input.
            index: Its number.
            settings: The settings of the workers.
            tolerates: Whether the operator goes on when an element cannot be processed.
        """
        of_key = one.key, one.key_columns, one.timestamp
        return Packing(self.run, settings, index, *of_key, one.to_all, self.blob_bytes, tolerates)


def key_serializer(schema: pa.Schema, columns: tuple[str, ...], key_type: Any) -> TypeSerializer[Any]:
    """Return the serializer of the key columns; several columns make a tuple.

    Args:
        schema: The columns of the rows.
        columns: Those of the key.
        key_type: The type hint or serializer of the keys; None: that of the columns.

    Raises:
        DeclarationError: A column is missing.
    """
    for name in columns:
        if name not in schema.names:
            raise DeclarationError(
                f"there is no column {name!r} to key by", advice=f"name one of {', '.join(schema.names)}"
            )
    if not columns:
        raise DeclarationError("a key needs at least one column")
    if key_type is not None:
        return serializer_for(key_type)
    kinds = [schema.field(name).type for name in columns]
    kind = kinds[0] if len(kinds) == 1 else pa.struct(list(zip(columns, kinds, strict=True)))
    return inferred_serializer(kind, ", ".join(columns), is_key=True)


def _method(function: Any, index: int) -> Any:
    """Return the method of a function that takes the elements of an input."""
    of_input = [f"{name}{index + 1}" for name in ("process_element", "map", "flat_map")]
    broadcast = ["process_broadcast_element"] if index else []
    names = (*broadcast, *of_input, "process_element", "map", "flat_map", "filter")
    found = next((getattr(function, name) for name in names if hasattr(function, name)), None)
    return getattr(found, "__func__", found)


def _hint(method: Any, name: str, instead: str) -> Any:
    """Return the annotation of a parameter, or of "return"; None: there is none.

    Raises:
        DeclarationError: The annotation names something that is not there at run time.
    """
    annotations = getattr(method, "__annotations__", {})
    if name not in annotations:
        return None
    holder = type("Holder", (), {"__annotations__": {name: annotations[name]}})
    try:
        return get_type_hints(holder, globalns=method.__globals__, include_extras=True)[name]
    except NameError as error:
        raise DeclarationError(
            f"the annotation {annotations[name]!r} of {method.__qualname__} cannot be read: {error}",
            advice=f"import the name at the top of its module, and not for type checkers alone; or pass {instead}",
        ) from error


def output_hint(function: Any, output_type: Any) -> Any:
    """Return the type hint of the results."""
    if output_type is not None:
        return output_type
    method = None if isinstance(function, WindowOperation) else _method(function, 0)
    hint = _hint(method, "return", "output_type to process(…)")
    if hint is not None and getattr(method, "__name__", "").startswith("map"):
        return hint
    if hint is not None and get_origin(hint) is not None and get_args(hint):
        return get_args(hint)[0]
    raise DeclarationError(
        f"the type of the results of {type(function).__name__} is not known",
        advice="annotate what it returns, such as -> Iterator[Balance], or pass output_type",
    )


def _side_serializers(side_outputs: Sequence[OutputTag], on_error: ErrorPolicy) -> dict[str, TypeSerializer[Any]]:
    """Return the serializers of the side outputs, by the names of their tags."""
    hints = [(tag.tag_id, _tag_hint(tag)) for tag in side_outputs]
    if isinstance(on_error, OutputTag):
        hints.append((on_error.tag_id, FailedElement))
    twice = next((name for number, (name, _) in enumerate(hints) if name in dict(hints[:number])), None)
    if twice is not None:
        raise DeclarationError(f"there are two side outputs with the name {twice!r}", advice="use a name for each")
    return {name: serializer_for(hint) for name, hint in hints}


def _tag_hint(tag: OutputTag) -> Any:
    if tag.type_info is None:
        raise DeclarationError(
            f"the side output {tag.tag_id!r} has no type", advice=f'write OutputTag("{tag.tag_id}", …)'
        )
    return tag.type_info
