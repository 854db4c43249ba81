"""The progress of queries, printed: a line for each batch and operator."""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener
from rich.console import Console

from ...state.progress import size_text

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession
    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )


def print_progress(session: SparkSession, *, file: IO[str] | None = None) -> StreamingQueryListener:
    """Print a line for each batch and operator of the session's queries, from now on.

    Args:
        session: The session.
        file: Where to; by default standard error.

    Returns:
        The listener: `session.streams.removeListener(listener)` ends it.
    """
    listener = _Printer(Console(file=file or sys.stderr, soft_wrap=True, highlight=True))
    session.streams.addListener(listener)
    return listener


class _Printer(StreamingQueryListener):
    def __init__(self, console: Console) -> None:
        self._console = console

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's
        for line in progress_lines(event.progress):
            self._console.print(line, markup=False)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's
        pass


def progress_lines(progress: StreamingQueryProgress) -> list[str]:
    """Return a line for each operator that ran in a batch."""
    whole_s = progress.batchDuration / 1000
    return [
        f"batch {progress.batchId} in {whole_s:.1f} s  {uid}: {_operator_line(row)}"
        for uid, row in sorted(progress.observedMetrics.items())
        if {"slots", "state_bytes"} <= set(row.asDict()) and row["process_ms"]  # a batch in which no slot ran has none
    ]


def _operator_line(row: Row) -> str:
    late = f" ({row['late_rows']:,} late)" if row["late_rows"] else ""
    timers = f" and {row['timers']:,} timers" if row["timers"] else ""
    errors = f", {row['errors']:,} errors passed over" if row["errors"] else ""
    times = " + ".join(f"{name} {row[f'{name}_ms']:.0f}" for name in ("open", "process", "snapshot"))
    own = "".join(f", {name} {value:,}" for name, value in sorted(row["metrics"].items()))
    return (
        f"{row['rows']:,} rows{late}{timers} -> {row['results']:,} results{errors}"
        f", {row['slots']} slots ({row['opened_slots']} opened)"
        f", {times} ms"
        f", wrote {size_text(row['checkpoint_bytes'])} of {size_text(row['state_bytes'])}{own}"
    )
