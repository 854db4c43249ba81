"""Which argument of `AggregateFunction.add` is the accumulator: its name says so.

PyFlink has (value, accumulator), and the first proposal for it had (acc, value). Programs of both are there, and a
function of one that is called like one of the other computes wrong results, or fails far from its cause.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from ...serializers.errors import DeclarationError
from .functions import AggregateFunction

if TYPE_CHECKING:
    from .runtime_context import RuntimeContext

F = TypeVar("F")

_ACCUMULATORS = ("acc", "agg")
_VALUES = ("value", "val", "elem", "item", "record", "event", "input", "row")


class AccumulatorFirst(AggregateFunction[Any, Any, Any]):
    """A function whose `add` is (accumulator, value), as one whose `add` is (value, accumulator).

    Args:
        function: That function.
    """

    def __init__(self, function: AggregateFunction[Any, Any, Any]) -> None:
        self.function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        self.function.open(runtime_context)

    def close(self) -> None:
        self.function.close()

    def create_accumulator(self) -> Any:
        return self.function.create_accumulator()

    def add(self, value: Any, accumulator: Any) -> Any:
        return self.function.add(accumulator, value)

    def get_result(self, accumulator: Any) -> Any:
        return self.function.get_result(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return self.function.merge(acc_a, acc_b)


def in_order(function: F) -> F | AccumulatorFirst:
    """Return an aggregate function as one whose `add` is (value, accumulator); return anything else unchanged.

    Raises:
        DeclarationError: The names of its arguments do not say which of them is the accumulator.
    """
    if not isinstance(function, AggregateFunction):
        return function
    names = [*inspect.signature(function.add).parameters]
    match [_is_accumulator(name) for name in names]:
        case [False, True | None] | [None, True]:
            return function
        case [True, False | None] | [None, False]:
            return AccumulatorFirst(function)
    raise DeclarationError(
        f"{type(function).__qualname__}.add({', '.join(names)}) does not say which argument is the accumulator",
        advice="call them as PyFlink does: add(self, value, accumulator)",
    )


def _is_accumulator(name: str) -> bool | None:
    """Whether the name of an argument is that of an accumulator; False: it is that of a value; None: unknown."""
    return True if name.startswith(_ACCUMULATORS) else False if name.startswith(_VALUES) else None
