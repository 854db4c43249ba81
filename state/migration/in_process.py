"""A run in this process, one task after the other.

Tasks, their results, the journal and what is published are those of a run on Spark. A task that failed in a way that
another attempt may mend is tried as often as on Spark's default master, `local[*,4]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...serializers.errors import values_are_redacted
from .progress import Meter
from .rekey_task import RekeyTask
from .rekeying import rekeyed_here
from .retry import failure_of_task, may_be_mended
from .run_task import perform
from .tasks import CopyTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..progress import Progress
    from ..storage.files import Folder
    from ..transcode.choice import ExecutorName
    from .journal import Journal
    from .tasks import Task, TaskResult

_ATTEMPTS = 4


def carry_out_here(
    tasks: Sequence[Task], source: Folder, journal: Journal, executor: ExecutorName, tell: Callable[[Progress], None]
) -> list[TaskResult]:
    """Carry out tasks, and give their results. Each is kept in the journal as soon as it is there.

    Args:
        tasks: Those that are to be done.
        source: Where the stored streams are.
        journal: Of the target.
        executor: Who goes through the entries.
        tell: Is called with what is done.

    Raises:
        StateShiftError: As of `perform`; what else the user's code raises becomes a `MigrationFailed`.
    """
    phase = "copying" if all(isinstance(task, CopyTask) for task in tasks) else "migrating"
    meter = Meter(phase, tasks, journal, tell)
    results: list[TaskResult] = []
    for together in _pieces(tasks):
        found = _tried(together, source, journal, executor)
        meter.add(found)
        results += found
    return results


def _pieces(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    """Give what is done at a time: a task, or all of an operator whose keys are written anew, which is read once."""
    anew: dict[str, list[Task]] = {}
    for task in tasks:
        if isinstance(task, RekeyTask):
            anew.setdefault(task.plan.operator_id, []).append(task)
        else:
            yield [task]
    yield from anew.values()


def _tried(tasks: list[Task], source: Folder, journal: Journal, executor: ExecutorName) -> list[TaskResult]:
    """Do what is done at a time, again where that may help, and tell why it cannot be done."""
    attempt = 1
    while True:
        try:
            results = _done(tasks, source, journal.folder, executor)
            for result in results:
                journal.record(result)
        except Exception as error:
            if attempt < _ATTEMPTS and may_be_mended(error):
                attempt += 1
                continue
            failure = failure_of_task(error, tasks[0].title, "the run")
            if failure is error:
                raise
            raise failure from None if values_are_redacted() else error
        return results


def _done(tasks: list[Task], source: Folder, target: Folder, executor: ExecutorName) -> list[TaskResult]:
    anew = [task for task in tasks if isinstance(task, RekeyTask)]
    if anew:
        return rekeyed_here(anew, source, target, executor)
    return [perform(task, source, target, executor) for task in tasks]
