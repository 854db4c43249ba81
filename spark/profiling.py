"""The profile of a savepoint, in this process or on Spark.

Machine code reads some 100 MB a second, so Spark makes the pass where it is asked to, and where there is no machine
code and the entries are so many that Spark is done sooner, its start included.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from ..serializers.errors import DeclarationError, LibraryNotFound
from ..state.migration.engine import seconds_on_spark
from ..state.profiles.savepoint_profile import profile as profile_by
from ..state.runner import InProcess
from ..state.storage.prefetch import cores
from ..state.transcode.executor_choice import ExecutorName, choose_executor
from .java import JavaNotFound
from .runner import SparkRunner
from .verify import PYTHON_BYTES_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from ..compat.profiles import Profile
    from ..state.formats.spark.reader import SparkCheckpoint
    from ..state.runner import AnyWork, Runner, Tell
    from ..state.savepoint.reader import Savepoint

R = TypeVar("R")


def profile(
    opened: Savepoint | SparkCheckpoint,
    *,
    session: SparkSession | None = None,
    master: str | None = None,
    py_files: Iterable[str | Path] = (),
    **how: Any,
) -> Profile:
    """Return the profile of a savepoint, which is the same wherever it is made.

    Args:
        opened: The savepoint, or the checkpoint of a Spark query, which is read in this process.
        session: The Spark session to use. It may belong to Spark Connect.
        master: The master of Spark, used by a session that already runs in this process, else by one that ends with the
            call.
        py_files: Further `.py`, `.zip`, `.egg` or `.whl` files for Spark's workers. Without session, master and
            py_files, Spark is used only if it is installed, and done sooner than this process.
        how: The other arguments of `Savepoint.profile`.

    Raises:
        MigrationFailed: Spark gave up: a worker died more often than the master allows.
        LibraryNotFound: Spark was asked for, and is not installed.
        DeclarationError: Spark was asked for, and a checkpoint is given.
        StateNotFound, CorruptSavepoint: As `Savepoint.profile`.
    """
    with SparkRunner(session, master, tuple(py_files)) as spark:
        if not opened.is_of_spark:
            return profile_by(opened, runner=spark if spark.is_asked else _Sooner(spark), **how)
        if spark.is_asked:
            raise DeclarationError("the checkpoint of a Spark query is read in this process: name no Spark")
        return profile_by(opened, **how)


@attrs.frozen
class _Sooner:
    """Runs the pass in this process, or on Spark where that is sooner done.

    Attributes:
        spark: The runner on Spark, which is started when it is needed.
    """

    spark: SparkRunner

    def slots(self, size_bytes: int, tell: Tell) -> int:
        """Return the number of threads: one, whose memory is bounded."""
        return 1

    def run(self, works: Sequence[AnyWork[R]], tell: Tell) -> list[R]:
        """Run the pass."""
        runner: Runner = InProcess()
        size = sum(work.size_bytes for work in works)
        seconds = size / PYTHON_BYTES_PER_S
        is_slow = choose_executor(size, compiles=True) is not ExecutorName.NUMBA
        if is_slow and seconds_on_spark(seconds, cores()) < seconds:
            with suppress(JavaNotFound, LibraryNotFound):
                self.spark.started(size, tell)
                runner = self.spark
        return runner.run(works, tell)
