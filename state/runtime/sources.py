"""Sources with state: a source emits and moves its offset under a lock, which a snapshot takes, too.

So a snapshot that is taken at any moment sees both or neither. Source: Flink's documentation, "Stateful Source
Functions".
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from .functions import Function

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from .output_tag import Output


class SourceContext:
    """What a source emits with.

    Args:
        output: Takes the elements.
        watermark: Takes the watermarks, in milliseconds.
        lock: The lock; a thread may take it several times.
    """

    def __init__(
        self, output: Output, watermark: Callable[[int], None], lock: AbstractContextManager[Any] | None = None
    ) -> None:
        self._output, self._watermark = output, watermark
        self._lock = lock or threading.RLock()

    def get_checkpoint_lock(self) -> AbstractContextManager[Any]:
        """Return the lock under which the source emits an element and changes its state."""
        return self._lock

    def collect(self, element: Any) -> None:
        """Emit an element without a time stamp."""
        with self._lock:
            self._output.emit((element,), None)

    def collect_with_timestamp(self, element: Any, timestamp: int) -> None:
        """Emit an element with its time stamp in milliseconds."""
        with self._lock:
            self._output.emit((element,), timestamp)

    def emit_watermark(self, timestamp: int) -> None:
        """Emit a watermark: no element with this or an earlier time stamp follows."""
        with self._lock:
            self._watermark(timestamp)


class SourceFunction(Function):
    """Emits elements, on a thread of its own, until it ends or is cancelled."""

    @abstractmethod
    def run(self, ctx: SourceContext) -> None:
        """Emit elements, each together with the change of the state under `ctx.get_checkpoint_lock()`."""

    @abstractmethod
    def cancel(self) -> None:
        """Ask `run` to return soon; it is called from another thread."""
