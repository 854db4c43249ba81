"""Verification of a savepoint, in this process or on Spark.

In this process threads do what machine code proves, on all cores. Values that only Python objects prove are read by one
thread at a time: where they are so many that Spark is done sooner, its start included, Spark proves the streams.

    tasks -> bundles, one a task of Spark -> answers, pickled
"""

from __future__ import annotations

import pickle
import time
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

import attrs

from ..serializers.errors import LibraryNotFound, StateShiftError, values_are_redacted
from ..serializers.registry import registry
from ..serializers.wording import many
from ..state.migration.engine import seconds_on_spark
from ..state.migration.retry import may_be_mended
from ..state.progress import Progress
from ..state.savepoint.proof_tasks import Answer, ProofTask, StreamTask, run_task
from ..state.savepoint.proof_threads import run_in_threads
from ..state.savepoint.reader import Savepoint, open_savepoint
from ..state.savepoint.stream_proofs import goes_by_machine_code
from ..state.savepoint.verify import VerifyReport
from ..state.savepoint.verify import verify as verify_by
from ..state.storage.prefetch import cores
from ..state.transcode.choice import ExecutorName, choose_executor
from . import daemon
from .connect import SLOTS, attempts_of_remote, collect_answers, is_connect
from .interrupts import interrupts_kept
from .java import JavaNotFound
from .scheduling import bundled
from .session import DEFAULT_MASTER, JAVA_SCHEDULES, own_driver
from .shipping import shipped
from .watching import attempts_of, failure_of_engine, run_in_group, tasks_of
from .worker import begin_work

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from ..serializers.registry import Additions
    from ..state.storage.files import Folder
    from .session import Driver

    Tell = Callable[[Progress], None]

PYTHON_BYTES_PER_S = 5 << 20
"""About how many bytes of entries plain Python proves in a second, on one core."""
_BUNDLE_BYTES = 64 << 20
_AGAIN = "verify again; nothing was written"


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
    py_files = tuple(py_files)
    is_asked = session is not None or master is not None or bool(py_files)
    with ExitStack() as until_end:

        def driver() -> Driver:
            progress(Progress("starting Spark", 0, 1))
            return session or until_end.enter_context(own_driver(master or DEFAULT_MASTER, _settings(opened)))

        asked = driver() if is_asked else None

        def run(phase: str, tasks: Sequence[ProofTask], folder: Folder, tell: Tell) -> list[Answer]:
            spark = asked
            if spark is None and _is_sooner_on_spark(tasks, folder):
                with suppress(JavaNotFound, LibraryNotFound):
                    spark = driver()
            if spark is None:
                return run_in_threads(phase, tasks, folder, tell)
            with interrupts_kept():
                return _run_on_spark(spark, phase, tasks, folder, tell, py_files)

        slots = 0 if asked is None else _slots(asked)
        return verify_by(opened, trust_digests=trust_digests, progress=progress, run=run, slots=slots)


def _settings(savepoint: Savepoint) -> dict[str, str]:
    """Return the settings of a session of one's own; if machine code does the work, workers are forked with it."""
    size = sum(operator.size_bytes for operator in savepoint.operators)
    goes_by_machine_code = choose_executor(size, compiles=True) is ExecutorName.NUMBA
    return JAVA_SCHEDULES | (daemon.SETTINGS if goes_by_machine_code else {})


def _slots(spark: Driver) -> int:
    """Return the number of tasks that a session runs at a time."""
    return SLOTS if is_connect(spark) else int(spark.sparkContext.defaultParallelism)


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


def _run_on_spark(
    spark: Driver, phase: str, tasks: Sequence[ProofTask], folder: Folder, tell: Tell, py_files: tuple[str | Path, ...]
) -> list[Answer]:
    """Run tasks in a session, and return their answers."""
    if not tasks:
        tell(Progress(phase, 0, 0))
        return []
    remote, slots = is_connect(spark), _slots(spark)
    size = sum(task.size_bytes for task in tasks)
    work = _Work(
        tuple(tasks),
        folder,
        registry.additions(),
        attempts_of_remote(spark) if remote else attempts_of(spark.sparkContext),
        values_are_redacted(),
        size // slots,
    )
    bundles = bundled(tasks, max(slots, size // _BUNDLE_BYTES))
    began = time.monotonic()

    def look(finished: int) -> None:
        """Report the progress; the bytes are those of as many bundles, which are about equal."""
        done = size * finished // len(bundles)
        tell(Progress(phase, finished, len(bundles), 0, done, size, time.monotonic() - began))

    with shipped(spark, work, py_files):
        look(0)
        collected = _collected_remotely if remote else _collected
        found = collected(spark, work, bundles, phase, look)
    answers: dict[int, Answer] = dict(pickle.loads(answer) for answer in found)  # noqa: S301 - pickled by our own workers
    look(len(bundles))
    return [answers[index] for index in range(len(tasks))]


def _collected(
    spark: Driver, work: _Work, bundles: list[list[int]], phase: str, look: Callable[[int], None]
) -> list[bytes]:
    context = spark.sparkContext
    return run_in_group(
        context,
        lambda: context.parallelize(bundles, len(bundles)).mapPartitions(work).collect(),
        lambda group: look(tasks_of(context, group)[0]),
        f"stateshift: verifying {work.folder}, {phase}, {many(len(work.tasks), 'task')}",
        partial(failure_of_engine, again=_AGAIN),
        savepoint=work.folder.place,
    )


def _collected_remotely(
    spark: Driver, work: _Work, bundles: list[list[int]], _phase: str, _look: Callable[[int], None]
) -> list[bytes]:
    """Run bundles in a session of Spark Connect, which does not report its tasks."""
    try:
        return collect_answers(spark, work, bundles, lambda: None)
    except Exception as error:
        failure = failure_of_engine(error, _AGAIN)
        if failure is error:
            raise
        raise failure from error


@attrs.frozen
class _Work:
    """The tasks and settings that every worker receives."""

    tasks: tuple[ProofTask, ...]
    folder: Folder
    additions: Additions
    attempts: int
    redacted: bool
    share_bytes: int

    def __call__(self, bundles: Iterable[list[int]]) -> Iterator[bytes]:
        """Run bundles; yield the number of each task with its answer.

        A failure is raised if a retry may succeed, so that Spark retries.
        """
        from pyspark import TaskContext, cloudpickle

        begin_work(self.additions, redacted=self.redacted)
        executor, context = choose_executor(self.share_bytes, compiles=True), TaskContext.get()
        may_try_again = context is not None and context.attemptNumber() + 1 < self.attempts
        for index in (index for bundle in bundles for index in bundle):
            answer = run_task(self.tasks[index], self.folder, executor, lambda _: None, alone=True)
            if isinstance(answer, StateShiftError) and may_try_again and may_be_mended(answer):
                raise answer
            # With cloudpickle, since a user's error class is not importable here.
            yield cloudpickle.dumps((index, answer))  # type: ignore[no-untyped-call]
