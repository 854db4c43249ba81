"""A source of a streaming query: it runs beside the query, and each batch takes what it has emitted since the last.

What a batch takes is written to a file before the batch is planned, so a planned batch is read again exactly, whatever
the source is. The engine's log alone says which offset holds (`source_offsets`).
"""

from __future__ import annotations

import pickle
import threading
import time
import uuid
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self

import attrs

from ...serializers.errors import DeclarationError
from ..directory.manifest import Manifest
from ..publication.commit import Commit
from ..runtime.runtime_context import TaskInfo
from ..task.subtask import SourceSubtask, stored_subtasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..directory.source_offsets import SourceOffset
    from ..runtime.output_tag import OutputTag
    from ..storage.files import Folder
    from ..task.subtask import StoredOperator

ROWS = "rows"
"""What files with the rows of a batch are called, after the operator and before the number of the offset."""

_PATIENCE_S = 10.0


@attrs.frozen
class SourceSpec:
    """A source of a streaming query, as its process gets it.

    Attributes:
        uid: The uid.
        function: The source function, pickled.
        max_parallelism: The number of key groups of the job.
        max_rows: How many elements the source may be ahead of the query.
        has_times: Whether elements have time stamps.
    """

    uid: str
    function: bytes = attrs.field(repr=False)
    max_parallelism: int
    max_rows: int
    has_times: bool


class Gate(AbstractContextManager["Gate"]):
    """The checkpoint lock of a source: it blocks the source while too many elements wait to be taken.

    Args:
        has_room: Whether there is room.

    Attributes:
        changed: The lock without that condition, and what waits for changes.
    """

    def __init__(self, has_room: Callable[[], bool]) -> None:
        self.changed = threading.Condition()
        self._has_room, self._depth = has_room, 0

    def __enter__(self) -> Self:
        self.changed.acquire()
        if not self._depth:
            self.changed.wait_for(self._has_room)
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        self.changed.notify_all()
        self.changed.release()


class SourceTask(SourceSubtask):
    """A running source.

    Args:
        spec: The source.
        function: The function; by default the pickled one.
    """

    def __init__(self, spec: SourceSpec, *, function: Any = None) -> None:
        self._spec = spec
        self._elements: list[Any] = []
        self._times: list[int | None] = []
        self._is_ending = self._has_ended = False
        self.lock = self._gate = Gate(lambda: self._is_ending or len(self._elements) < spec.max_rows)
        super().__init__(
            function or pickle.loads(spec.function),  # noqa: S301 - pickled by the driver of the query
            task=TaskInfo(max_parallelism=spec.max_parallelism, name=spec.uid),
            uid=spec.uid,
        )

    def current_processing_time(self) -> int:
        return time.time_ns() // 1_000_000

    def _collect(self, value: Any, timestamp: int | None) -> None:
        if timestamp is not None and not self._spec.has_times:
            raise DeclarationError(
                f"the source {self._spec.uid!r} emits time stamps, and has no column for them",
                advice="name one: source(…, timestamp=…)",
            )
        if not self._is_ending:
            self._elements.append(value)
            self._times.append(timestamp)

    def _collect_side(self, tag: OutputTag, value: Any, timestamp: int | None) -> None:
        raise DeclarationError(f"the source {self._spec.uid!r} emits to a side output, and sources have none")

    def _watermark(self, timestamp: int) -> None:
        raise DeclarationError(
            f"the source {self._spec.uid!r} emits a watermark, which cannot travel between rows of Spark",
            advice="emit time stamps, and pass stream(…, timestamp=…, max_out_of_orderness=…)",
        )

    def begin(self, stored: StoredOperator | None) -> None:
        """Run the source from its state; None: from its beginning."""
        self._begin(() if stored is None else (stored,))
        self.start()

    def take(
        self, after: SourceOffset, *, wait_s: float, folder: Folder, directory: str, epoch: int, run: int
    ) -> tuple[Manifest, list[Any], list[int | None]] | None:
        """Return what was emitted since the last call, with the state after it; None: nothing was.

        Args:
            after: The offset of the last call, or of the start.
            wait_s: How long to wait for an element.
            folder: The folder for large state.
            directory: The id of the state directory.
            epoch: The epoch of the query.
            run: The number of its start.

        Raises:
            Exception: What the source raised.
        """
        gate, number = self._gate, after.number + 1
        with gate.changed:
            gate.changed.wait_for(lambda: bool(self._elements) or self._has_ended, wait_s)
            if self._error is not None:
                self._error.add_note(f"in source {self._spec.uid!r}")
                raise self._error
            if not self._elements:
                return None
            elements, times = self._elements, self._times
            self._elements, self._times = [], []  # there is room again, when this lock is left
            attempt = uuid.uuid4().hex
            commit = Commit(folder, attempt)
            written = self.write(number, commit, is_checkpoint=True)
            gate.changed.notify_all()
        stored = stored_subtasks([self], [written])
        of = directory, epoch, run, number, 0, attempt, after.attempt
        manifest = Manifest(*of, 0, (), (), stored, digests=commit.digests)
        return manifest, elements, times

    def _run(self) -> None:
        super()._run()
        with self._gate.changed:
            self._has_ended = True
            self._gate.changed.notify_all()

    def stop(self) -> None:
        """Cancel the source; what it emits from now on is dropped, since no batch contains it."""
        with self._gate.changed:
            self._is_ending = True
            self._gate.changed.notify_all()
        thread, self._thread = self._thread, None
        if thread is not None:
            self._function.cancel()
            thread.join(_PATIENCE_S)  # its process ends after the query, with a source that does not listen
