"""The functions of windows, as in `pyflink.datastream.functions`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, TypeAlias

from ..functions import Function
from . import contexts

if TYPE_CHECKING:
    from collections.abc import Iterable


class WindowFunction(Function):
    """Makes any number of results of the contents of a window."""

    @abstractmethod
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        """Yield the results for a window that fires.

        Args:
            key: The key.
            window: The window.
            inputs: The elements of the window; after a reduce or aggregate function, its one result.
        """


class ProcessWindowFunction(Function):
    """Makes any number of results of the contents of a window, and knows its times and states."""

    Context: TypeAlias = contexts.ProcessWindowContext

    @abstractmethod
    def process(
        self, key: Any, context: contexts.ProcessWindowContext, elements: Iterable[Any]
    ) -> Iterable[Any] | None:
        """Yield the results for a window that fires.

        Args:
            key: The key.
            context: The window, the times and the states.
            elements: The elements of the window; after a reduce or aggregate function, its one result.
        """

    def clear(self, context: contexts.ProcessWindowContext) -> None:
        """Remove the states of `context.window_state()`; it is called when the window is gone."""
