"""The two ways in which Spark calls an operator for its slots, and keeps the manifest of each.

    apply_in_pandas_with_state      where Spark allows it: once in a query, not after an aggregation
    transform_with_state            elsewhere; Spark starts a further process for it in the driver

Both are as fast, since Spark has one row of state for each slot. A query may have both: the first of its operators on
the one, all others on the other. In update mode Spark has the first nowhere near an aggregation, which may follow
later, so there all operators are on the second. Source: notes on Spark, 2.1, rule 7.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from ..sessions import require_libraries
from .blobs import Blob
from .results import handed_rows
from .runs import local_property

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.errors import AnalysisException
    from pyspark.sql import DataFrame, SparkSession

    from .slot_runs import SlotRunner

APPLY_IN_PANDAS, TRANSFORM = "apply_in_pandas_with_state", "transform_with_state"

CARRIERS = (APPLY_IN_PANDAS, TRANSFORM)

_POOL = "STATESHIFT_WORKERS"
"""An environment variable that nothing reads: it tells Spark's pools of workers apart."""
_ROWS = "rows binary, file string, metrics string"
_STATE = "manifest binary"


def chosen(blobs: DataFrame, runner: SlotRunner, output_mode: str, *, is_first: bool) -> tuple[str, DataFrame]:
    """Return the carrier that Spark allows for an operator, and the packed results.

    Args:
        blobs: Packed rows.
        runner: Processes them.
        output_mode: The output mode of the query.
        is_first: Whether the query has no operator of ours yet.
    """
    if is_first and output_mode == "append":
        packed_results = carried(blobs, runner, APPLY_IN_PANDAS, output_mode)
        if refusal(packed_results, output_mode) is None:
            return APPLY_IN_PANDAS, packed_results
    return TRANSFORM, carried(blobs, runner, TRANSFORM, output_mode)


def refusal(results: DataFrame, output_mode: str) -> AnalysisException | None:
    """Return why Spark refuses a query with these results; None: it allows it."""
    from pyspark.errors import AnalysisException

    plan = results._jdf.queryExecution().analyzed()  # noqa: SLF001 - only Java has the check
    jvm: Any = results.sparkSession._jvm  # noqa: SLF001 - as above
    mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, output_mode.capitalize())()
    try:
        jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, mode)
    except AnalysisException as error:
        return error
    return None


def carried(blobs: DataFrame, runner: SlotRunner, carrier: str, output_mode: str) -> DataFrame:
    """Return the packed results of an operator.

    Args:
        blobs: Packed rows.
        runner: Processes them.
        carrier: How Spark calls it.
        output_mode: The output mode of the query.
    """
    grouped, mode = blobs.groupBy("slot_group"), output_mode.capitalize()
    if carrier == APPLY_IN_PANDAS:
        with _workers_of_slots(blobs.sparkSession):
            return grouped.applyInPandasWithState(_in_pandas(runner), _ROWS, _STATE, mode, "ProcessingTimeTimeout")
    require_libraries("an operator with transformWithState", "google.protobuf")
    from .processor import SlotProcessor

    with _workers_of_slots(blobs.sparkSession):
        return grouped.transformWithState(SlotProcessor(runner), _ROWS, mode, "ProcessingTime")


@contextmanager
def _workers_of_slots(spark: SparkSession) -> Iterator[None]:
    """Run the functions made in the `with` block in workers of their own.

    Spark has a pool of workers for each environment, and a task gets any one of it. So a slot comes more often to the
    process that has its state open, and workers that pack rows hold no state.
    """
    environment = spark.sparkContext.environment
    environment[_POOL] = "slots"
    try:
        yield
    finally:
        environment.pop(_POOL, None)


def _in_pandas(runner: SlotRunner) -> Callable[..., Iterator[Any]]:
    def process(key: tuple[int], frames: Iterable[Any], state: Any) -> Iterator[Any]:
        import pandas as pd  # type: ignore[import-untyped]

        stored = bytes(state.get[0]) if state.exists else None
        now_ms = state.getCurrentProcessingTimeMs()
        answer = runner(int(key[0]), stored, blobs_of(frames), now_ms, batch_number())
        if answer.manifest is not None:
            state.update((answer.manifest,))
        if answer.is_current:
            state.setTimeoutDuration(1)
        for row in answer.rows():
            yield pd.DataFrame([row])

    return process


def blobs_of(frames: Iterable[Any]) -> Iterator[Blob]:
    """Yield the packed rows that Spark has in DataFrames of pandas."""
    import pandas as pd

    for frame in frames:
        columns = (frame[name] for name in ("input", "origin", "highest_ms", "rows"))
        for index, origin, highest, rows in zip(*columns, strict=True):
            yield Blob(int(index), int(origin), None if pd.isna(highest) else int(highest), bytes(rows))


def batch_number() -> int:
    """Return the number of this task's batch."""
    return int(local_property("streaming.sql.batchId"))


@attrs.frozen
class Unpacking:
    """Unpacks results; used with `mapInArrow`."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield from handed_rows(row["rows"] if row["file"] is None else Path(row["file"]))
