"""Runs works on Spark, which only schedules and sorts; what a work is, and a runner, says `state/runner.py`.

Independent     tasks -> bundles, each of which is one task of Spark -> answers
Shuffled        see `shuffles`
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self, TypeVar

import attrs

from ..state.progress import Progress
from ..state.runner import Shuffled
from ..state.transcode.executor_choice import ExecutorName, choose_executor

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from ..state.runner import AnyWork, Tell
    from .sessions import Driver

R = TypeVar("R")


@attrs.define
class SparkRunner:
    """Runs works in a session that is given, or in one that ends with the `with` block.

    Attributes:
        session: The session to use.
        master: The master of Spark.
        py_files: Files for the workers.
    """

    session: SparkSession | None
    master: str | None
    py_files: tuple[str | Path, ...]
    _driver: Driver | None = attrs.field(default=None, init=False)
    _until_end: ExitStack = attrs.field(factory=ExitStack, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._until_end.close()

    @property
    def is_asked(self) -> bool:
        """Whether a session, a master or files for workers were given."""
        return self.session is not None or self.master is not None or bool(self.py_files)

    @property
    def cores(self) -> int:
        """The number of tasks that run at a time; for a cluster not yet contacted, the number of local cores."""
        if self.session is not None:
            from .connect import is_connect

            if not is_connect(self.session):
                return int(self.session.sparkContext.defaultParallelism)
        given = re.match(r"local\[(\d+)", self.master or "")
        return int(given[1]) if given else 1 if self.master == "local" else os.cpu_count() or 1

    def started(self, size_bytes: int, tell: Tell, *, shuffles: bool = False) -> Driver:
        """Return the driver, and start it if it does not run; if machine code does the work, workers fork with it.

        Args:
            size_bytes: About how many bytes the work has.
            tell: Called with the progress.
            shuffles: Whether Java does more than scheduling.
        """
        if self._driver is None:
            from .sessions import DEFAULT_MASTER, FORKS_LOADED, JAVA_SCHEDULES, own_driver

            tell(Progress("starting Spark", 0, 1))
            executor = choose_executor(size_bytes // max(self.cores, 1), compiles=True)
            forked = FORKS_LOADED if executor is ExecutorName.NUMBA else {}
            own = own_driver(self.master or DEFAULT_MASTER, forked | ({} if shuffles else JAVA_SCHEDULES))
            self._driver = self.session or self._until_end.enter_context(own)
        return self._driver

    def slots(self, size_bytes: int, tell: Tell) -> int:
        """Return the number of tasks that the session runs at a time."""
        from .bundles import slots_of

        return slots_of(self.started(size_bytes, tell))

    def run(self, works: Sequence[AnyWork[R]], tell: Tell) -> list[R]:
        """Run works; see `Runner`.

        Raises:
            MigrationFailed: Spark gave up: a worker died more often than the master allows.
        """
        from .bundles import run_bundles
        from .interrupts import interrupts_kept

        results: list[R] = []
        with interrupts_kept():
            size, shuffles = sum(work.size_bytes for work in works), any(isinstance(work, Shuffled) for work in works)
            spark = self.started(size, tell, shuffles=shuffles)
            for work in works:
                if isinstance(work, Shuffled):
                    from .shuffles import run_shuffled  # has pyarrow, which little state does without

                    results += run_shuffled(spark, work, tell, self.py_files)
                else:
                    results += run_bundles(spark, work, tell, self.py_files)
        return results
