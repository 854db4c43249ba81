"""The two ways in which Spark calls an operator for its slots, and keeps the manifest of each.

    apply_in_pandas_with_state      the default; Spark allows it once in a query
    transform_with_state            where a query has several stateful operators

Both are as fast, since Spark has one row of state for each slot. Source: notes on Spark, 2.1, rule 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from .packing import packed, unpacked
from .runs import local_property
from .slot_runs import Blob, SlotRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

APPLY_IN_PANDAS, TRANSFORM = "apply_in_pandas_with_state", "transform_with_state"
VARIABLE = "stateshift_manifest"
"""The name of the only state that Spark has for an operator with `transformWithState`."""

CARRIERS = (APPLY_IN_PANDAS, TRANSFORM)

_ROWS = "rows binary"
_STATE = "manifest binary"


def carried(blobs: DataFrame, runner: SlotRunner, carrier: str, output_mode: str) -> DataFrame:
    """Return the packed results of an operator.

    Args:
        blobs: Packed rows.
        runner: Processes them.
        carrier: How Spark calls it.
        output_mode: The output mode of the query.
    """
    if carrier == APPLY_IN_PANDAS:
        grouped = blobs.groupBy("slot_group")
        return grouped.applyInPandasWithState(
            _in_pandas(runner), _ROWS, _STATE, output_mode.capitalize(), "ProcessingTimeTimeout"
        )
    from .processor import SlotProcessor

    return blobs.groupBy("slot_group").transformWithState(
        SlotProcessor(runner), _ROWS, output_mode.capitalize(), "ProcessingTime"
    )


def _in_pandas(runner: SlotRunner) -> Callable[..., Iterator[Any]]:
    def process(key: tuple[int], frames: Iterable[Any], state: Any) -> Iterator[Any]:
        import pandas as pd  # type: ignore[import-untyped]

        stored = bytes(state.get[0]) if state.exists else None
        now_ms = state.getCurrentProcessingTimeMs()
        blobs = (
            Blob(int(index), int(origin), None if pd.isna(highest) else int(highest), bytes(rows))
            for frame in frames
            for index, origin, highest, rows in zip(
                frame["input"], frame["origin"], frame["highest_ms"], frame["rows"], strict=True
            )
        )
        answer = runner(int(key[0]), stored, blobs, now_ms, batch_number())
        if answer.manifest is not None:
            state.update((answer.manifest,))
            if answer.wake_ms is not None:
                state.setTimeoutDuration(max(answer.wake_ms - now_ms, 1))
        for rows in answer.rows:
            yield pd.DataFrame({"rows": [packed([rows])]})

    return process


def batch_number() -> int:
    """Return the number of the batch that this task is of."""
    return int(local_property("streaming.sql.batchId"))


@attrs.frozen
class Unpacking:
    """Unpacks results; used with `mapInArrow`."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for rows in batch.column(0):
                yield from unpacked(rows.as_py())
