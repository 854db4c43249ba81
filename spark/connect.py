"""Work on a Spark Connect session: without a SparkContext, bundles travel as numbers in rows, and answers as rows.

    numbers of bundles -> mapInArrow -> answers, pickled

Source: Spark Connect's Python client, `DataFrame.mapInArrow`, `SparkSession.addTag` and `interruptTag`.
"""

from __future__ import annotations

import threading
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.errors import DeclarationError
from .jobs import attempts_with, run_aside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

SLOTS = 32
"""Bundles of a run, where the cores of a cluster are not told."""


def is_connect(session: Any) -> bool:
    """Whether a session belongs to Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def refuse_connect(session: Any, what: str) -> None:
    """Refuse a session of Spark Connect for work that needs the driver.

    Raises:
        DeclarationError: The session belongs to Spark Connect.
    """
    if is_connect(session):
        raise DeclarationError.before_writing(
            f"{what} needs Spark's driver, which a Spark Connect session does not have in this process",
            advice="run it with spark-submit, or pass a session whose driver is this process",
        )


def attempts_of_remote(session: Any) -> int:
    """Return the number of attempts per task on the master behind a session."""
    given = {}
    for name in ("spark.master", "spark.task.maxFailures"):
        with suppress(Exception):  # a server may hide its settings
            given[name] = session.conf.get(name)
    return attempts_with(given.get("spark.master") or "", given.get("spark.task.maxFailures"))


@attrs.frozen
class _Rows:
    """The work on the numbers of bundles in a worker."""

    work: Callable[[Iterable[list[int]]], Iterator[bytes]]
    bundles: tuple[list[int], ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        for answer in self.work(self.bundles[number] for number in numbers):
            yield pa.RecordBatch.from_pydict({"answer": pa.array([answer], pa.binary())})


def collect_answers(
    session: Any,
    work: Callable[[Iterable[list[int]]], Iterator[bytes]],
    bundles: Sequence[list[int]],
    look: Callable[[], None],
) -> list[bytes]:
    """Run bundles while monitoring their progress.

    Args:
        session: A session of Spark Connect.
        work: A function that runs bundles in a worker.
        bundles: The bundles to run.
        look: A function that is called regularly in the meantime.
    """
    tag = f"stateshift-{uuid.uuid4().hex[:8]}"

    def collect() -> list[bytes]:
        session.addTag(tag)
        try:
            return [row.answer for row in _answers(session, _Rows(work, tuple(bundles))).collect()]
        finally:
            session.removeTag(tag)

    def stop(thread: threading.Thread) -> None:
        if thread.is_alive():
            session.interruptTag(tag)
            thread.join()

    return run_aside(threading.Thread, collect, look, stop)


def _answers(session: Any, rows: _Rows) -> Any:
    count = len(rows.bundles)
    return session.range(0, count, 1, count).mapInArrow(rows, "answer binary")
