"""The harnesses of functions: by their inputs, and of sources."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ...serializers.errors import DeclarationError
from ..task.subtask import FunctionSubtask, SourceSubtask
from .subtask import SubtaskHarness

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from ..runtime.functions import Function
    from ..runtime.sources import SourceFunction


class FunctionHarness(SubtaskHarness, FunctionSubtask):
    """Runs an operator that calls a function for elements and timers; the base class of those by inputs.

    Args:
        function: The function.
        selectors: Returns the key of an element, for each input; None for an input without keys.
        key_type: The type hint or serializer of the keys; None: the operator is not keyed.
        options: As for `SubtaskHarness`.
    """

    def __init__(
        self,
        function: Function,
        selectors: Sequence[Callable[[Any], Any] | None],
        key_type: Any = None,
        **options: Any,
    ) -> None:
        self._selectors, self._inputs = selectors, len(selectors)
        super().__init__(function, key_type, **options)

    def _process(self, value: Any, timestamp: int | None, index: int) -> None:
        self.open()
        selector = self._selectors[index]
        if selector is not None:
            self._backend.set_current_key(selector(value))
        elif self._backend is not None:
            self._backend.unset_current_key()
        self._running.process_element(value, timestamp, index)

    def advance_processing_time(self, now_ms: int) -> None:
        """Turn the clock to a time, and fire the timers that it reaches.

        Raises:
            DeclarationError: The clock would go back.
        """
        if now_ms < self._now_ms:
            raise DeclarationError(f"the clock cannot go back from {self._now_ms} to {now_ms} ms")
        self.open()
        self._now_ms = now_ms
        self._running.process_time()


class _OneInput(FunctionHarness):
    def process_element(self, value: Any, timestamp: int | None = None) -> None:
        """Process an element.

        Args:
            value: The element.
            timestamp: Its time stamp in milliseconds; None: it has none.
        """
        self._process(value, timestamp, 0)

    def process_elements(self, *values: Any) -> list[Any]:
        """Process elements without time stamps, and return the results since the last `take`."""
        for value in values:
            self._process(value, None, 0)
        return self.take()

    def process_watermark(self, timestamp: int) -> None:
        """Process a watermark: the timers of event time up to this time fire."""
        self._watermark(timestamp, 0)


class ProcessHarness(_OneInput):
    """Runs a function of one input without keys.

    Args:
        function: A `ProcessFunction`, `MapFunction`, `FlatMapFunction` or `FilterFunction`.
        options: As for `SubtaskHarness`.
    """

    def __init__(self, function: Function, **options: Any) -> None:
        super().__init__(function, (None,), None, **options)


class KeyedProcessHarness(_OneInput):
    """Runs a function of one keyed input.

    Args:
        function: A `KeyedProcessFunction`; a `MapFunction`, `FlatMapFunction` or `FilterFunction` with keyed state; or
            a `WindowOperation`.
        key_selector: Returns the key of an element.
        key_type: The type hint or serializer of the keys.
        options: As for `SubtaskHarness`.
    """

    def __init__(self, function: Function, key_selector: Callable[[Any], Any], key_type: Any, **options: Any) -> None:
        super().__init__(function, (key_selector,), key_type, **options)


class _TwoInputs(FunctionHarness):
    def process_watermark1(self, timestamp: int) -> None:
        """Process a watermark of the first input; the operator follows the slower one."""
        self._watermark(timestamp, 0)

    def process_watermark2(self, timestamp: int) -> None:
        """Process a watermark of the second input; the operator follows the slower one."""
        self._watermark(timestamp, 1)


class TwoInputHarness(_TwoInputs):
    """Runs a function of two inputs, keyed or not.

    Args:
        function: A `KeyedCoProcessFunction`, `CoProcessFunction`, `CoMapFunction` or `CoFlatMapFunction`.
        key_selector1: Returns the key of an element of the first input; None: the operator is not keyed.
        key_selector2: Returns the key of an element of the second input.
        key_type: The type hint or serializer of the keys.
        options: As for `SubtaskHarness`.
    """

    def __init__(
        self,
        function: Function,
        key_selector1: Callable[[Any], Any] | None = None,
        key_selector2: Callable[[Any], Any] | None = None,
        key_type: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(function, (key_selector1, key_selector2), key_type, **options)

    def process_element1(self, value: Any, timestamp: int | None = None) -> None:
        """Process an element of the first input."""
        self._process(value, timestamp, 0)

    def process_element2(self, value: Any, timestamp: int | None = None) -> None:
        """Process an element of the second input."""
        self._process(value, timestamp, 1)


class BroadcastHarness(_TwoInputs):
    """Runs a function of an input, keyed or not, and a broadcast input.

    Args:
        function: A `KeyedBroadcastProcessFunction` or `BroadcastProcessFunction`.
        key_selector: Returns the key of an element that is not broadcast; None: the operator is not keyed.
        key_type: The type hint or serializer of the keys.
        options: As for `SubtaskHarness`.
    """

    def __init__(
        self,
        function: Function,
        key_selector: Callable[[Any], Any] | None = None,
        key_type: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(function, (key_selector, None), key_type, **options)

    def process_element(self, value: Any, timestamp: int | None = None) -> None:
        """Process an element that is not broadcast."""
        self._process(value, timestamp, 0)

    def process_broadcast_element(self, value: Any, timestamp: int | None = None) -> None:
        """Process a broadcast element."""
        self._process(value, timestamp, 1)


class SourceHarness(SubtaskHarness, SourceSubtask):
    """Runs a source on a thread of its own, from `start` to `stop`.

    Args:
        function: The source.
        options: As for `SubtaskHarness`.

    Attributes:
        lock: The checkpoint lock; `snapshot` takes it, too.
        watermarks: The watermarks that were emitted, in milliseconds.
    """

    def __init__(self, function: SourceFunction, **options: Any) -> None:
        self.lock: AbstractContextManager[Any] = threading.RLock()
        self.watermarks: list[int] = []
        super().__init__(function, None, **options)

    def _watermark(self, timestamp: int) -> None:
        self.watermarks.append(timestamp)
