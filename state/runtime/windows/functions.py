"""The functions of windows, as in `pyflink.datastream.functions`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from ..functions import Function
from . import contexts

if TYPE_CHECKING:
    from collections.abc import Iterable


IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W")
W2 = TypeVar("W2")


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Makes any number of results of the contents of a window."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """Yield the results for a window that fires.

        Args:
            key: The key.
            window: The window.
            inputs: The elements of the window; after a reduce or aggregate function, its one result.
        """


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Makes any number of results of the contents of a window, and knows its times and states."""

    class Context(contexts.ProcessWindowContext[W2]):
        """What the function learns; a class of its own, so that it takes the type of the windows, as in PyFlink."""

        __slots__ = ()

    @abstractmethod
    def process(self, key: KEY, context: Context[W], elements: Iterable[IN]) -> Iterable[OUT] | None:
        """Yield the results for a window that fires.

        Args:
            key: The key.
            context: The window, the times and the states.
            elements: The elements of the window; after a reduce or aggregate function, its one result.
        """

    def clear(self, context: Context[W]) -> None:
        """Remove the states of `context.window_state()`; it is called when the window is gone."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Makes any number of results of the contents of a window of a stream without keys."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """Yield the results for a window that fires; arguments as for `WindowFunction`."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """The same, with the states of the window."""

    Context: TypeAlias = ProcessWindowFunction.Context

    @abstractmethod
    def process(self, context: ProcessWindowFunction.Context[W], elements: Iterable[IN]) -> Iterable[OUT] | None:
        """Yield the results for a window that fires; arguments as for `ProcessWindowFunction`."""

    def clear(self, context: ProcessWindowFunction.Context[W]) -> None:
        """Remove the states of `context.window_state()`; it is called when the window is gone."""


class AllWindowApply(WindowFunction[IN, OUT, Any, W]):
    """An `AllWindowFunction` in the windows of a key that stands for no key."""

    def __init__(self, function: AllWindowFunction[IN, OUT, W]) -> None:
        self._function = function
        self.open, self.close = function.open, function.close  # type: ignore[method-assign]

    def apply(self, key: Any, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        return self._function.apply(window, inputs)


class AllWindowProcess(ProcessWindowFunction[IN, OUT, Any, W]):
    """A `ProcessAllWindowFunction` in the windows of a key that stands for no key."""

    def __init__(self, function: ProcessAllWindowFunction[IN, OUT, W]) -> None:
        self._function = function
        self.open, self.close = function.open, function.close  # type: ignore[method-assign]

    def process(
        self, key: Any, context: ProcessWindowFunction.Context[W], elements: Iterable[IN]
    ) -> Iterable[OUT] | None:
        return self._function.process(context, elements)

    def clear(self, context: ProcessWindowFunction.Context[W]) -> None:
        self._function.clear(context)
