"""Functions of a value and its key's state, which return a result and the new state.

They are an extension: PyFlink has none. Flink's Scala API had them, with a value state "state", as here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...serializers.errors import DeclarationError, shown
from .descriptors import ValueStateDescriptor
from .functions import KeyedProcessFunction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .contexts import KeyedContext
    from .runtime_context import RuntimeContext


class FlatMapWithState(KeyedProcessFunction):
    """Calls a function with each element and the state of its key.

    Args:
        function: (element, state or None) -> (results or None, new state or None). None removes the state.
        state_type: The type hint or serializer of the state.
    """

    def __init__(self, function: Callable[[Any, Any], tuple[Any, Any]], state_type: Any) -> None:
        self._function = function
        self.descriptor = ValueStateDescriptor("state", state_type)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_state(self.descriptor)

    def process_element(self, value: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        returned = self._function(value, self._state.value())
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise DeclarationError(
                f"a function with state returned {shown(returned)}", advice="return a pair: the result, the new state"
            )
        self._state.update(returned[1])
        return self._results(returned[0])

    def _results(self, returned: Any) -> Iterable[Any] | None:
        results: Iterable[Any] | None = returned
        return results


class MapWithState(FlatMapWithState):
    """The same with one result for each element: (element, state or None) -> (result, new state or None)."""

    def _results(self, returned: Any) -> Iterable[Any]:
        return (returned,)


def map_with_state(function: Callable[[Any, Any], tuple[Any, Any]], state_type: Any) -> MapWithState:
    """Return the function for `key_by(…).process(…)` that makes one result of each element and the state of its key.

    Args:
        function: (element, state or None) -> (result, new state or None). None removes the state.
        state_type: The type hint or serializer of the state, whose name is "state".
    """
    return MapWithState(function, state_type)


def flat_map_with_state(function: Callable[[Any, Any], tuple[Any, Any]], state_type: Any) -> FlatMapWithState:
    """Return the same for any number of results.

    Args:
        function: (element, state or None) -> (results or None, new state or None). None removes the state.
        state_type: As for `map_with_state`.
    """
    return FlatMapWithState(function, state_type)
