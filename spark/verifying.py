"""The part of a verification that needs Spark: tasks are bundled, shipped, run and monitored.

tasks -> bundles, one a task of Spark -> answers, pickled
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import attrs

from ..serializers.errors import StateShiftError
from ..serializers.wording import many
from ..state.migration.retry import may_be_mended
from ..state.progress import Progress
from ..state.savepoint.proof_tasks import run_task
from ..state.transcode.choice import ExecutorName, choose_executor
from . import daemon
from .bundles import bundled, run_bundles, slots_of
from .jobs import failure_of_engine
from .sessions import JAVA_SCHEDULES
from .user_modules import shipped
from .worker import Settings, dumped, loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from ..state.savepoint.proof_tasks import Answer, ProofTask
    from ..state.savepoint.reader import Savepoint
    from ..state.storage.files import Folder
    from .sessions import Driver

    Tell = Callable[[Progress], None]

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
