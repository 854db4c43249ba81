"""The processor of `transformWithState` that calls an operator for its slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from ...state.formats.spark.manifests import VARIABLE
from .blobs import Blob
from .carriers import batch_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .slot_runs import SlotRunner


class SlotProcessor(StatefulProcessor):
    """Processes the blobs of slots.

    Args:
        runner: Processes them.
    """

    def __init__(self, runner: SlotRunner) -> None:
        self._runner = runner

    def init(self, handle: Any) -> None:
        """Declare the state: one manifest for each slot."""
        self._handle = handle
        self._called: set[int] = set()
        self._manifest = handle.getValueState(VARIABLE, "manifest binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's
        """Process the blobs of a slot."""
        self._called.add(int(key[0]))
        blobs = (Blob(row["input"], row["origin"], row["highest_ms"], bytes(row["rows"])) for row in rows)
        return self._process(key, blobs, timerValues.getCurrentProcessingTimeInMs())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's
        """Wake a slot; one that had rows in this batch has done all that was due."""
        if int(key[0]) in self._called:
            return iter(())
        return self._process(key, iter(()), timerValues.getCurrentProcessingTimeInMs())

    def close(self) -> None:
        """Do nothing: slots live on in their process."""

    def _process(self, key: Any, blobs: Iterator[Blob], now_ms: int) -> Iterator[Any]:
        stored = bytes(self._manifest.get()[0]) if self._manifest.exists() else None
        answer = self._runner(int(key[0]), stored, blobs, now_ms, batch_number())
        if answer.manifest is not None:
            self._manifest.update((answer.manifest,))
        if answer.is_current:
            self._handle.registerTimer(now_ms + 1)
        for row in answer.rows():
            yield Row(**row)
