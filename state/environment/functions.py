"""What stands in a program for plain functions, and for operators that PyFlink makes of functions."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from ...serializers.errors import DeclarationError, shown
from ...serializers.rows.values import Row
from ..runtime.descriptors import ReducingStateDescriptor
from ..runtime.functions import (
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
    SinkFunction,
)
from ..runtime.timer_service import MAX_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..runtime import contexts
    from ..runtime.runtime_context import RuntimeContext

REDUCE_STATE = "_reduce_state"
"""The state of keyed `reduce`, `sum` and the like. PyFlink adds a random part, and never finds the state again."""


class Plain(Function):
    """A plain function as one of a class; all subtasks call the same one.

    Args:
        function: The function.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __deepcopy__(self, _: Any) -> Plain:
        return type(self)(self._function)


class PlainMap(Plain, MapFunction):
    """A plain function as a `MapFunction`."""

    def map(self, value: Any) -> Any:
        return self._function(value)


class PlainFlatMap(Plain, FlatMapFunction):
    """A plain function as a `FlatMapFunction`."""

    def flat_map(self, value: Any) -> Iterable[Any] | None:
        results: Iterable[Any] | None = self._function(value)
        return results


class PlainFilter(Plain, FilterFunction):
    """A plain function as a `FilterFunction`."""

    def filter(self, value: Any) -> bool:
        return bool(self._function(value))


class PlainSink(Plain, SinkFunction):
    """A plain function as a `SinkFunction`."""

    def invoke(self, value: Any) -> None:
        self._function(value)


_PLAIN: dict[type, type] = {
    MapFunction: PlainMap, FlatMapFunction: PlainFlatMap, FilterFunction: PlainFilter, SinkFunction: PlainSink,
}  # fmt: skip


def function_of(kind: type, given: Any) -> Any:
    """Return a function of a kind: the given one, or a plain function as one.

    Raises:
        DeclarationError: It is neither.
    """
    if isinstance(given, kind):
        return given
    is_class = isinstance(given, type) and issubclass(given, Function)
    if not callable(given) or isinstance(given, Function) or is_class:
        raise DeclarationError(
            f"{shown(given)} is no {kind.__name__}", advice=f"pass a function, or an object of a {kind.__name__}"
        )
    return _PLAIN[kind](given)


class KeyedReduce(KeyedProcessFunction):
    """Reduces the elements of a key, and yields the result so far with each of them.

    Args:
        function: The function.
        element_type: The type hint or serializer of the elements.
        at_end: Whether there is one result for a key, at the end of the input.
    """

    def __init__(self, function: Callable[[Any, Any], Any], element_type: Any, *, at_end: bool) -> None:
        self._function, self._element_type, self._at_end = function, element_type, at_end

    def open(self, runtime_context: RuntimeContext) -> None:
        if isinstance(self._function, ReduceFunction):
            self._function.open(runtime_context)
        descriptor = ReducingStateDescriptor(REDUCE_STATE, self._function, self._element_type)
        self._state = runtime_context.get_reducing_state(descriptor)

    def close(self) -> None:
        if isinstance(self._function, ReduceFunction):
            self._function.close()

    def process_element(self, value: Any, ctx: contexts.KeyedContext) -> Iterable[Any] | None:
        self._state.add(value)
        if not self._at_end:
            return (self._state.get(),)
        ctx.timer_service().register_event_time_timer(MAX_WATERMARK)
        return None

    def on_timer(self, timestamp: int, ctx: contexts.OnTimerContext) -> Iterator[Any]:
        yield self._state.get()


class Accumulate(ReduceFunction[Any]):
    """Reduces two elements by one of their fields.

    Args:
        position: The number or the name of the field; of elements without fields 0.
        choose: Returns the value of the field, called with both.
        is_whole: Whether the whole element that has this value is the result, and not the first one with the value.
    """

    def __init__(self, position: int | str, choose: Callable[[Any, Any], Any], *, is_whole: bool = False) -> None:
        if not isinstance(position, int | str):
            raise DeclarationError(f"{shown(position)} is neither the number nor the name of a field")
        self._position, self._choose, self._is_whole = position, choose, is_whole

    def reduce(self, value1: Any, value2: Any) -> Any:
        if not isinstance(value1, tuple | list | Row):
            if self._position != 0:
                raise DeclarationError(f"{shown(value1)} has no field {self._position!r}", advice="leave it out")
            return self._choose(value1, value2)
        first, second = value1[self._position], value2[self._position]  # type: ignore[index]  # a row has names
        chosen = self._choose(first, second)
        if self._is_whole:
            return value1 if chosen is first else value2
        return _with_field(value1, self._position, chosen)


def _with_field(value: Any, position: int | str, field: Any) -> Any:
    """Return an element with another value of a field."""
    fields: Any = copy(value) if isinstance(value, Row) else list(value)
    fields[position] = field
    return tuple(fields) if isinstance(value, tuple) else fields


def text_of(value: Any, *, is_typed: bool) -> str:
    """Return the text of an element, as Flink prints it.

    Args:
        value: The element.
        is_typed: Whether its stream has a type; else it is Python's text.
    """
    if isinstance(value, Row):
        return f"{value.get_row_kind()}[{','.join(map(str, value))}]"
    if not is_typed:
        return str(value)
    if isinstance(value, tuple):
        return f"({','.join(text_of(one, is_typed=True) for one in value)})"
    if isinstance(value, list):
        return f"[{', '.join(text_of(one, is_typed=True) for one in value)}]"
    return _JAVA.get(value, str(value)) if isinstance(value, bool | None) else str(value)


_JAVA = {True: "true", False: "false", None: "null"}


class Print(SinkFunction):
    """Prints each element: before it what identifies the sink, and the number of the subtask where there are several.

    Args:
        identifier: What identifies the sink; "": nothing.
        is_typed: As for `text_of`.
    """

    def __init__(self, identifier: str, *, is_typed: bool) -> None:
        self._identifier, self._is_typed = identifier, is_typed

    def open(self, runtime_context: RuntimeContext) -> None:
        several = runtime_context.get_number_of_parallel_subtasks() > 1
        number = str(runtime_context.get_index_of_this_subtask() + 1) if several else ""
        prefix = ":".join(part for part in (self._identifier, number) if part)
        self._prefix = f"{prefix}> " if prefix else ""

    def invoke(self, value: Any) -> None:
        print(f"{self._prefix}{text_of(value, is_typed=self._is_typed)}")  # noqa: T201 - what it is for
