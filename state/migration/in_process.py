"""A run in this process, one task after the other.

Tasks, results, journal and publication are the same as in a run on Spark. A task whose failure may be temporary is
tried as often as on Spark's default master, `local[*,4]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...serializers.errors import values_are_redacted
from ..progress import count_bytes
from .progress import RunMeter
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
    """Run tasks, and return their results. Each result is recorded in the journal as soon as it is there.

    Args:
        tasks: The tasks to run.
        source: The folder of the stored streams.
        journal: The journal in the target.
        executor: The name of the executor of op lists.
        tell: A callback that is called with the progress.

    Raises:
        StateShiftError: As `perform`; other exceptions of user code become a `MigrationFailed`.
    """
    phase = "copying" if all(isinstance(task, CopyTask) for task in tasks) else "migrating"
    meter = RunMeter(phase, tasks, journal, tell)
    results: list[TaskResult] = []
    with count_bytes.heard_by(meter.take):
        for together in _pieces(tasks):
            found = _tried(together, source, journal, executor)
            meter.add(found)
            results += found
    return results


def _pieces(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    """Yield the units of work: a single task, or all rekeying tasks of an operator, which is read only once."""
    rekeyed: dict[str, list[Task]] = {}
    for task in tasks:
        if isinstance(task, RekeyTask):
            rekeyed.setdefault(task.plan.operator_id, []).append(task)
        else:
            yield [task]
    yield from rekeyed.values()


def _tried(tasks: list[Task], source: Folder, journal: Journal, executor: ExecutorName) -> list[TaskResult]:
    """Run a unit of work, with retries, and record its results; raise the error if it fails for good."""
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
    rekeyed = [task for task in tasks if isinstance(task, RekeyTask)]
    if rekeyed:
        return rekeyed_here(rekeyed, source, target, executor)
    return [perform(task, source, target, executor) for task in tasks]
