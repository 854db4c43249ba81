"""The metrics of a slot in a batch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from ..runtime.metrics import Figure


@attrs.frozen(kw_only=True)
class SlotMetrics:
    """The metrics of a slot in a batch; an idle slot has only its size and its event time.

    Attributes:
        opened_slots: 1 if the state was opened for this batch; 0 if it was still open in its process.
        rows: The elements.
        late_rows: Those whose time stamps the watermark had reached before the batch.
        timers: The timers that fired.
        errors: The errors that were passed over.
        results: The results, with those of side outputs.
        checkpoint_bytes: The size of what was written for the state after the batch.
        state_bytes: The size of the whole state.
        open_ms: The time in which the state was opened.
        process_ms: That in which the batch was processed.
        snapshot_ms: That in which the state was written.
        watermark_ms: The event time after the batch; None: there is none.
        own: The figures of the function's metrics.
    """

    opened_slots: int = 0
    rows: int = 0
    late_rows: int = 0
    timers: int = 0
    errors: int = 0
    results: int = 0
    checkpoint_bytes: int = 0
    state_bytes: int
    open_ms: float = 0.0
    process_ms: float = 0.0
    snapshot_ms: float = 0.0
    watermark_ms: int | None
    own: tuple[Figure, ...] = ()

    def to_json(self) -> str:
        """Return the metrics as a JSON object."""
        return json.dumps(attrs.asdict(self), separators=(",", ":"))
