"""Functions of a keyed stream that are made of a plain function and one value state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .descriptors import ValueStateDescriptor
from .functions import FlatMapFunction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .runtime_context import RuntimeContext
    from .states import ValueState


class _WithState(FlatMapFunction):
    """Calls a function with each element and the state of its key."""

    _state: ValueState[Any]

    def __init__(
        self, function: Callable[[Any, Any], tuple[Iterable[Any], Any]], descriptor: ValueStateDescriptor[Any]
    ) -> None:
        self._function = function
        self._descriptor = descriptor

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_state(self._descriptor)

    def flat_map(self, value: Any) -> Iterable[Any]:
        results, state = self._function(value, self._state.value())
        self._state.update(state)
        return results


def flat_map_with_state(
    function: Callable[[Any, Any], tuple[Iterable[Any], Any]], state_type: Any, *, name: str = "state"
) -> FlatMapFunction:
    """Return a function of a keyed stream that keeps one value for each key.

    Args:
        function: (element, state or None) -> (results, new state); None as the new state clears it.
        state_type: The type hint or serializer of the state.
        name: The name of the state.
    """
    return _WithState(function, ValueStateDescriptor(name, state_type))


def map_with_state(
    function: Callable[[Any, Any], tuple[Any, Any]], state_type: Any, *, name: str = "state"
) -> FlatMapFunction:
    """Return a function of a keyed stream that makes one result of each element, and keeps one value for each key.

    Args:
        function: (element, state or None) -> (result, new state); None as the new state clears it.
        state_type: The type hint or serializer of the state.
        name: The name of the state.
    """

    def with_one(value: Any, state: Any) -> tuple[Iterable[Any], Any]:
        result, state = function(value, state)
        return (result,), state

    return flat_map_with_state(with_one, state_type, name=name)


def reduced(function: Callable[[Any, Any], Any], value_type: Any) -> FlatMapFunction:
    """Return a function of a keyed stream that emits, for each element, the reduction of all elements of its key.

    The state has the name that Flink's `reduce` gives it.

    Args:
        function: (value, value) -> value, a plain function or a `ReduceFunction`.
        value_type: The type hint or serializer of the elements.
    """

    def reduce(value: Any, state: Any) -> tuple[Any, Any]:
        result = value if state is None else function(state, value)
        return result, result

    return map_with_state(reduce, value_type, name="_op_state")
