"""Verification of a savepoint, in this process or on Spark.

In this process threads do what machine code proves, on all cores. Values that only Python objects prove are read by one
thread at a time: where they are so many that Spark is done sooner, its start included, Spark proves the streams.
Spark itself is loaded where it is needed.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import attrs

from ..serializers.errors import LibraryNotFound, StateShiftError
from ..state.formats.flink.database_files import databases_released
from ..state.migration.engine import seconds_on_spark
from ..state.runner import InProcess
from ..state.savepoint.proof_tasks import StreamTask
from ..state.savepoint.reader import Savepoint, open_savepoint
from ..state.savepoint.stream_proofs import goes_by_machine_code
from ..state.savepoint.verify import verify as verify_by
from ..state.storage.prefetch import cores
from ..state.transcode.executor_choice import ExecutorName, choose_executor
from .java import JavaNotFound
from .runner import SparkRunner

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from ..state.progress import Progress
    from ..state.runner import AnyWork, Runner, Tell
    from ..state.savepoint.verify import VerifyReport
    from ..state.storage.files import Folder

R = TypeVar("R")
PYTHON_BYTES_PER_S = 5 << 20
"""About how many bytes of entries plain Python proves in a second, on one core."""


def verify(
    savepoint: Savepoint | str | os.PathLike[str],
    *,
    trust_digests: bool = False,
    progress: Callable[[Progress], None] = lambda _: None,
    session: SparkSession | None = None,
    master: str | None = None,
    py_files: Iterable[str | Path] = (),
) -> VerifyReport:
    """Return a report of the checks of a savepoint, which is the same wherever they are made.

    Args:
        savepoint: An open savepoint, or its place.
        trust_digests: Whether to trust digests: if all files of an operator have the right digest, its entries are
            found and counted, but keys and values are not read.
        progress: Called with the progress, one call at a time.
        session: The Spark session to use. It may belong to Spark Connect.
        master: The master of Spark, used by a session that already runs in this process, else by one that ends with the
            call.
        py_files: Further `.py`, `.zip`, `.egg` or `.whl` files for Spark's workers. Without session, master and
            py_files, Spark is used only if it is installed, and done sooner than this process.

    Raises:
        SavepointNotFound, CorruptSavepoint, UntrustedPlace, UnsupportedFormat: `open_savepoint` refuses the given
            place. Damage in an open savepoint is reported as a failed check.
        MigrationFailed: Spark gave up: a worker died more often than the master allows.
        LibraryNotFound: Spark was asked for, and is not installed.
    """
    opened = savepoint if isinstance(savepoint, Savepoint) else open_savepoint(savepoint)
    with databases_released(opened.metadata, opened.folder), SparkRunner(session, master, tuple(py_files)) as spark:
        return verify_by(
            opened, trust_digests=trust_digests, progress=progress, runner=spark if spark.is_asked else _Sooner(spark)
        )


@attrs.frozen
class _Sooner:
    """Runs works in threads of this process, or on Spark where that is sooner done.

    Attributes:
        spark: The runner on Spark, which is started when it is needed.
    """

    spark: SparkRunner

    def slots(self, size_bytes: int, tell: Tell) -> int:
        """Return the number of threads."""
        return cores()

    def run(self, works: Sequence[AnyWork[R]], tell: Tell) -> list[R]:
        """Run the works of a phase."""
        runner: Runner = InProcess(cores())
        if any(_is_sooner_on_spark(work.tasks, work.source) for work in works):
            with suppress(JavaNotFound, LibraryNotFound):
                self.spark.started(sum(work.size_bytes for work in works), tell)
                runner = self.spark
        return runner.run(works, tell)


def _is_sooner_on_spark(tasks: Iterable[object], folder: Folder) -> bool:
    """Whether Spark on this machine ends before one thread has proven by Python what machine code does not prove."""
    streams = [task for task in tasks if isinstance(task, StreamTask)]
    if not _is_long(streams):
        return False
    if choose_executor(sum(task.size_bytes for task in streams), compiles=True) is not ExecutorName.NUMBA:
        return True
    is_fast: dict[tuple[str, bool], bool] = {}
    for task in streams:
        if (task.title, task.is_keyed) not in is_fast:
            is_fast[task.title, task.is_keyed] = task.framing_only or _goes_by_machine_code(task, folder)
    return _is_long([task for task in streams if not is_fast[task.title, task.is_keyed]])


def _is_long(tasks: Iterable[StreamTask]) -> bool:
    seconds = sum(task.size_bytes for task in tasks) / PYTHON_BYTES_PER_S
    return seconds_on_spark(seconds, cores()) < seconds


def _goes_by_machine_code(task: StreamTask, folder: Folder) -> bool:
    with suppress(StateShiftError):  # its proof reports it
        return goes_by_machine_code(task.handle, folder, task.max_parallelism)
    return True
