"""The part of a verification that needs Spark: tasks are bundled, shipped, run and monitored.

tasks -> bundles, one a task of Spark -> answers, pickled
"""

from __future__ import annotations

import pickle
import time
from functools import partial
from typing import TYPE_CHECKING

import attrs

from ..serializers.errors import StateShiftError, values_are_redacted
from ..serializers.registry import registry
from ..serializers.wording import many
from ..state.migration.retry import may_be_mended
from ..state.progress import Progress
from ..state.savepoint.proof_tasks import run_task
from ..state.transcode.choice import ExecutorName, choose_executor
from . import daemon
from .connect import SLOTS, attempts_of_remote, collect_answers, is_connect
from .scheduling import bundled
from .session import JAVA_SCHEDULES
from .shipping import shipped
from .watching import attempts_of, failure_of_engine, run_in_group, tasks_of
from .worker import begin_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from ..serializers.registry import Additions
    from ..state.savepoint.proof_tasks import Answer, ProofTask
    from ..state.savepoint.reader import Savepoint
    from ..state.storage.files import Folder
    from .session import Driver

    Tell = Callable[[Progress], None]

_BUNDLE_BYTES = 64 << 20
_AGAIN = "verify again; nothing was written"


def settings_for(savepoint: Savepoint) -> dict[str, str]:
    """Return the settings of a session of one's own; if machine code does the work, workers are forked with it."""
    size = sum(operator.size_bytes for operator in savepoint.operators)
    goes_by_machine_code = choose_executor(size, compiles=True) is ExecutorName.NUMBA
    return JAVA_SCHEDULES | (daemon.SETTINGS if goes_by_machine_code else {})


def slots_of(spark: Driver) -> int:
    """Return the number of tasks that a session runs at a time."""
    return SLOTS if is_connect(spark) else int(spark.sparkContext.defaultParallelism)


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
    remote, slots = is_connect(spark), slots_of(spark)
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
