"""Verification of a savepoint, in this process or on Spark.

In this process threads do what machine code proves, on all cores. Values that only Python objects prove are read by one
thread at a time: where they are so many that Spark is done sooner, its start included, Spark proves the streams.
Spark itself is loaded where it is needed.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

import attrs

from ..serializers.errors import LibraryNotFound, StateShiftError
from ..serializers.wording import many
from ..state.formats.flink.database_files import databases_released
from ..state.migration.engine import seconds_on_spark
from ..state.migration.retry import may_be_mended
from ..state.progress import Progress
from ..state.savepoint.proof_tasks import StreamTask, run_task
from ..state.savepoint.proof_threads import run_in_threads
from ..state.savepoint.reader import Savepoint, open_savepoint
from ..state.savepoint.stream_proofs import goes_by_machine_code
from ..state.savepoint.verify import verify as verify_by
from ..state.storage.prefetch import cores
from ..state.transcode.choice import ExecutorName, choose_executor
from . import daemon
from .bundles import bundled, run_bundles, slots_of
from .java import JavaNotFound
from .jobs import failure_of_engine
from .sessions import JAVA_SCHEDULES
from .user_modules import shipped
from .worker import Settings, dumped, loaded

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from ..state.savepoint.proof_tasks import Answer, ProofTask
    from ..state.savepoint.verify import VerifyReport
    from ..state.storage.files import Folder
    from .sessions import Driver

    Tell = Callable[[Progress], None]

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
    with databases_released(opened.metadata, opened.folder), ExitStack() as until_end:
        runner = _Runner(opened, session, master, tuple(py_files), progress, until_end)
        return verify_by(
            opened, trust_digests=trust_digests, progress=progress, run=runner.run, slots=runner.asked_slots()
        )


@attrs.define
class _Runner:
    """Runs tasks on Spark if it was asked for or is sooner done, else in threads of this process."""

    savepoint: Savepoint
    session: SparkSession | None
    master: str | None
    py_files: tuple[str | Path, ...]
    progress: Tell
    until_end: ExitStack
    _driver: Driver | None = attrs.field(default=None, init=False)

    @property
    def is_asked(self) -> bool:
        """Whether a session, a master or files for workers were given."""
        return self.session is not None or self.master is not None or bool(self.py_files)

    def asked_slots(self) -> int:
        """Return the number of tasks that Spark runs at a time; 0 if it was not asked for."""
        if not self.is_asked:
            return 0
        from .bundles import slots_of

        return slots_of(self.driver())

    def driver(self) -> Driver:
        """Return the session; it is started when it is needed first."""
        if self._driver is None:
            from .sessions import DEFAULT_MASTER, own_driver

            self.progress(Progress("starting Spark", 0, 1))
            self._driver = self.session or self.until_end.enter_context(
                own_driver(self.master or DEFAULT_MASTER, settings_for(self.savepoint))
            )
        return self._driver

    def run(self, phase: str, tasks: Sequence[ProofTask], folder: Folder, tell: Tell) -> list[Answer]:
        """Run the tasks of a phase, and return their answers in order."""
        spark = None
        if self.is_asked:
            spark = self.driver()
        elif _is_sooner_on_spark(tasks, folder):
            with suppress(JavaNotFound, LibraryNotFound):
                spark = self.driver()
        if spark is None:
            return run_in_threads(phase, tasks, folder, tell)
        from .interrupts import interrupts_kept

        with interrupts_kept():
            return run_on_spark(spark, phase, tasks, folder, tell, self.py_files)


def _is_sooner_on_spark(tasks: Iterable[ProofTask], folder: Folder) -> bool:
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


_BUNDLE_BYTES = 64 << 20
_AGAIN = "verify again; nothing was written"


def settings_for(savepoint: Savepoint) -> dict[str, str]:
    """Return the settings of a session of one's own; if machine code does the work, workers are forked with it."""
    size = sum(operator.size_bytes for operator in savepoint.operators)
    goes_by_machine_code = choose_executor(size, compiles=True) is ExecutorName.NUMBA
    return JAVA_SCHEDULES | (daemon.SETTINGS if goes_by_machine_code else {})


def run_on_spark(
    spark: Driver, phase: str, tasks: Sequence[ProofTask], folder: Folder, tell: Tell, py_files: tuple[str | Path, ...]
) -> list[Answer]:
    """Run tasks in a session, and return their answers.

    Args:
        spark: The session.
        phase: The name of the phase, for the progress.
        tasks: The tasks.
        folder: The savepoint.
        tell: Called with the progress.
        py_files: Files for the workers.

    Raises:
        MigrationFailed: Spark gave up.
    """
    if not tasks:
        tell(Progress(phase, 0, 0))
        return []
    slots, size = slots_of(spark), sum(task.size_bytes for task in tasks)
    work = _Work(tuple(tasks), folder, Settings.of(spark), size // slots)
    bundles = bundled(tasks, max(slots, size // _BUNDLE_BYTES))
    began = time.monotonic()

    def look(finished: int) -> None:
        """Report the progress; the bytes are those of as many bundles, which are about equal."""
        done = size * finished // len(bundles)
        tell(Progress(phase, finished, len(bundles), 0, done, size, time.monotonic() - began))

    with shipped(spark, work, py_files):
        look(0)
        description = f"stateshift: verifying {folder}, {phase}, {many(len(tasks), 'task')}"
        told = partial(failure_of_engine, again=_AGAIN)
        found = run_bundles(spark, work, bundles, look, description, told, savepoint=folder.place)
    answers: dict[int, Answer] = dict(map(loaded, found))
    look(len(bundles))
    return [answers[index] for index in range(len(tasks))]


@attrs.frozen
class _Work:
    """The tasks and settings that every worker receives."""

    tasks: tuple[ProofTask, ...]
    folder: Folder
    settings: Settings
    share_bytes: int

    def __call__(self, bundles: Iterable[list[int]]) -> Iterator[bytes]:
        """Run bundles; yield the number of each task with its answer.

        A failure is raised if a retry may succeed, so that Spark retries.
        """
        self.settings.begin()
        executor, may_try_again = choose_executor(self.share_bytes, compiles=True), self.settings.may_try_again()
        for index in (index for bundle in bundles for index in bundle):
            answer = run_task(self.tasks[index], self.folder, executor, lambda _: None, alone=True)
            if isinstance(answer, StateShiftError) and may_try_again and may_be_mended(answer):
                raise answer
            yield dumped((index, answer))
