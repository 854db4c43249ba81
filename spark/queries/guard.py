"""`start`: start a streaming query if it can go on from its checkpoint, and keep beside that what it computes."""

from __future__ import annotations

import atexit
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...compat.explain import obstacles
from ...compat.policy import ACCEPT_ALL, Policy
from ...serializers.compatibility import Decision
from ...serializers.errors import DeclarationError, IncompatibleState, StateShiftError
from ...serializers.ways_out import WayOut
from ...serializers.wording import shell_word
from ...state.formats.spark.reader import SparkCheckpoint
from ...state.formats.spark.recording import Recorder
from ...state.storage.files import Folder
from .check import compare
from .description import describe_under
from .planning import UnstartedQuery

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ...compat.report import CheckReport


def start(
    writer: DataStreamWriter,
    *,
    was: Any = None,
    accept: tuple[str, ...] = (),
    policy: Policy = ACCEPT_ALL,
    require_recording: bool = False,
) -> StreamingQuery:
    """Start a streaming query, unless it cannot go on from the state in its checkpoint.

    The check is that of `check_query`. While the query runs, a description of it is kept beside the checkpoint, in the
    folder `_stateshift`, which Spark ignores: the next check then knows what is computed, too.

    Args:
        writer: The writer of the query, with the option checkpointLocation.
        was: The query that wrote the checkpoint, from the old code, as a DataFrame or its writer.
        accept: Rules whose findings are accepted: SPK-10, SPK-12, SPK-13, SPK-15; `SPK-21:NAME` for a function.
        policy: Flags that are refused.
        require_recording: Whether a checkpoint without a recording, or with one that does not reach to the last batch,
            is refused.

    Returns:
        The running query, as the writer's own `start` returns it.

    Raises:
        IncompatibleState: The verdict is not `start`; nothing was started.
        DeclarationError: The writer has no checkpoint.
    """
    query = UnstartedQuery.of(writer)
    if not query.checkpoint:
        raise DeclarationError(
            "the query has no checkpoint, so that there is nothing to compare it with",
            advice='set writer.option("checkpointLocation", …)',
            written="Nothing was started.",
        )
    folder = Folder.at(query.checkpoint)
    exists = folder.exists("metadata") and folder.exists("offsets")
    opened = SparkCheckpoint.open(query.checkpoint) if exists else None
    description = describe_under(query, None if opened is None else opened.log.last)
    committed = None if opened is None else opened.log.committed
    if opened is not None:
        report = compare(opened, description, was=was, accept=accept, policy=policy)
        _require_start(report, opened.place, needs_recording=require_recording and committed is not None)
    started = writer.start()
    recorder = Recorder(folder, description, str(started.id), 0 if committed is None else committed + 1)
    _keep_recording(started, recorder)
    return started


def _require_start(report: CheckReport, place: str, *, needs_recording: bool) -> None:
    """Refuse to start.

    Raises:
        IncompatibleState: The verdict is not `start`, or a recording is missing.
    """
    if report.decision is not Decision.START:
        raise IncompatibleState(
            f"the query cannot go on from its checkpoint: {report.decision}",
            details=[f"  {obstacle}" for obstacle in obstacles(report)],
            advice=WayOut(
                "see the ways out:",
                command=f"stateshift check {shell_word(f'spark:{place}')} --query MODULE:FUNCTION",
            ),
            savepoint=place,
            checkpoint=place,
            written="Nothing was started.",
        )
    if needs_recording and not report.is_whole:
        raise IncompatibleState(
            "the checkpoint has no recording of the query that wrote it",
            advice="name the old code (was=…), or start once without require_recording",
            savepoint=place,
            checkpoint=place,
            written="Nothing was started.",
        )


def _keep_recording(query: StreamingQuery, recorder: Recorder) -> None:
    """Record a query until it ends. What cannot be recorded is missing in the next check, which says so."""

    def record() -> None:
        with suppress(StateShiftError, OSError):
            recorder.record()

    def run() -> None:
        with suppress(Exception):  # Java is gone, or the query failed, which its user learns from the query
            while not query.awaitTermination(1):
                record()
        record()
        atexit.unregister(record)

    atexit.register(record)  # the process may end with the query, before the thread looks again
    threading.Thread(target=run, name="stateshift recording", daemon=True).start()
