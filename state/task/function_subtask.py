"""A subtask that calls a function, or a declaration of windows, for elements and timers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.operators import FunctionOperator
from ..runtime.timer_service import Times
from ..runtime.windows.window_operator import WindowOperator
from ..runtime.windows.windowed_stream import WindowOperation
from .subtask import Subtask

if TYPE_CHECKING:
    from ..backends.keyed_backend import KeyedStateBackend
    from ..runtime.output_tag import Output
    from ..runtime.runtime_context import RuntimeContext


class FunctionSubtask(Subtask):
    """Calls a function for elements and timers. Subclasses set the number of its inputs."""

    _inputs: int

    def _create(self, context: RuntimeContext, backend: KeyedStateBackend | None, output: Output) -> None:
        given = context, backend, output, Times(self.current_processing_time)
        self._running: FunctionOperator | WindowOperator
        if isinstance(self._function, WindowOperation):
            self._running = WindowOperator(self._function, *given)
        else:
            broadcast = self._operator_states.get_broadcast_state
            self._running = FunctionOperator(self._function, self._inputs, *given, broadcast)

    def _start(self) -> None:
        self._running.open()

    def _end(self) -> None:
        self._running.close()

    def current_watermark(self) -> int:
        """Return the watermark of the operator in milliseconds."""
        return self._running.times.watermark

    def next_processing_time(self) -> int | None:
        """Return the time of the first timer of processing time in milliseconds; None where there is none."""
        return self._running.next_processing_time()

    def _watermark(self, timestamp: int, index: int) -> None:
        self.open()
        self._running.process_watermark(timestamp, index)
