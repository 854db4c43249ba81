"""A subtask that runs a source, on a thread of its own."""

from __future__ import annotations

import threading
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from ..runtime.sources import SourceContext
from .subtask import Subtask

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ..backends.keyed_backend import KeyedStateBackend
    from ..backends.publishing import SubtaskSnapshot
    from ..publication.commit import Commit
    from ..runtime.output_tag import Output
    from ..runtime.runtime_context import RuntimeContext
    from ..storage.files import Folder


class SourceSubtask(Subtask):
    """Runs a source from `start` to `stop`. Subclasses set `lock` before anything else.

    Attributes:
        lock: The checkpoint lock; `write` takes it, too.
    """

    lock: AbstractContextManager[Any]
    _thread: threading.Thread | None = None
    _error: BaseException | None = None

    @abstractmethod
    def _watermark(self, timestamp: int) -> None:
        """Take a watermark, in milliseconds."""

    def _create(self, context: RuntimeContext, _: KeyedStateBackend | None, output: Output) -> None:
        self._context = context
        self._source_context = SourceContext(output, self._watermark, self.lock)

    def _start(self) -> None:
        self._function.open(self._context)

    def _end(self) -> None:
        self.stop()
        self._function.close()

    def start(self) -> None:
        """Run the source."""
        self.open()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._function.run(self._source_context)
        except BaseException as error:  # noqa: BLE001 - `stop` raises it
            self._error = error

    def stop(self) -> None:
        """Cancel the source and wait for its end; raise what it raised. Without a start, nothing happens."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._function.cancel()
            thread.join()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def write(
        self, checkpoint_id: int, commit: Commit, *, is_checkpoint: bool, shared: Folder | None = None
    ) -> SubtaskSnapshot:
        with self.lock:
            return super().write(checkpoint_id, commit, is_checkpoint=is_checkpoint, shared=shared)
