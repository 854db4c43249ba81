"""The work of a migration: the function that runs a task of any kind, and all tasks that need no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, assert_never

import attrs

from ...serializers.errors import CorruptSavepoint, located
from ...serializers.wording import many
from ..formats.flink.sources import open_stream, require_digest
from ..progress import count_bytes
from ..publication.sink import copied_stream
from ..runner import Conditions, Independent, shuffled_here
from ..savepoint.stream_proofs import prove_copied
from ..transcode.executor_choice import choose_executor
from .kept_families import keep_whole
from .rewrite import rewrite_keyed, rewrite_operator
from .run import name_of
from .tasks import CopyTask, KeepTask, KeyedTask, OperatorTask, RekeyTask, Task, TaskResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..formats.flink.sources import ByteSource
    from ..runner import AnyWork, Take
    from ..storage.files import Folder
    from ..transcode.executor_choice import ExecutorName
    from .journal import Journal

_BUNDLES_PER_CORE = 2
_LEAST_BUNDLE_BYTES = 256 << 20
"""A core is idle for some 40 ms between two bundles, in which it could rewrite 50 MB."""


def works_of(tasks: Sequence[Task], source: Folder, journal: Journal) -> list[AnyWork[TaskResult]]:
    """Return the works that run tasks, and record their results in a journal."""
    phase = "copying" if all(isinstance(task, CopyTask) for task in tasks) else "migrating"
    size = sum(task.size_bytes for task in tasks)
    what = f"{source} to {journal.folder}, {many(len(tasks), 'stream')}, {size:,} bytes to read"
    rekeyed = tuple(task for task in tasks if isinstance(task, RekeyTask))
    others = tuple(task for task in tasks if not isinstance(task, RekeyTask))
    works: list[AnyWork[TaskResult]] = []
    if others or not rekeyed:
        works.append(Rewriting(others, source, phase, what, journal))
    if rekeyed:
        from .new_keys import Rekeying

        works.append(Rekeying(rekeyed, source, phase, what, journal.folder, journal))
    return works


@attrs.frozen
class Rewriting(Independent[Task, TaskResult]):
    """The tasks of a migration that need no other.

    Attributes:
        journal: The journal of the results, in the target.
    """

    journal: Journal

    is_recorded: ClassVar[bool] = True
    again: ClassVar[str] = "run the same command again: leftover files are removed first"
    more: ClassVar[str] = "try a higher parallelism, more memory"

    def title(self, task: Task) -> str:
        return task.title

    def entries(self, result: TaskResult) -> int:
        return result.entries

    def perform(self, task: Task, conditions: Conditions, take: Take) -> TaskResult:
        with count_bytes.heard_by(take):
            result = perform(
                task, self.source, self.journal.folder, conditions.executor, is_one_of_many=conditions.is_one_of_many
            )
        result = attrs.evolve(result, lacks_numba=conditions.lacks_numba)
        self.journal.record(result)
        return result

    def bundles(self, slots: int) -> int:
        """Return one bundle per slot, or more, so that an early slot gets more work, unless they would be too small.

        The time that user code takes is unknown, so with user code, it is always more than one.
        """
        plans = [task.plan for task in self.tasks if isinstance(task, KeyedTask | OperatorTask)]
        if any(state.calls_users_code for plan in plans for state in plan.states):
            return slots * _BUNDLES_PER_CORE
        return slots * min(_BUNDLES_PER_CORE, max(1, self.size_bytes // (slots * _LEAST_BUNDLE_BYTES)))

    def finished(self, indices: Iterable[int]) -> dict[int, TaskResult]:
        by_name = {name_of(self.tasks[index]): index for index in indices}
        return {by_name[name]: result for name, result in self.journal.finished(by_name).items()}


def perform(
    task: Task,
    source: Folder,
    target: Folder,
    executor: ExecutorName | None = None,
    *,
    is_one_of_many: bool = False,
) -> TaskResult:
    """Run a task, and return its result.

    Args:
        task: The task.
        source: The folder of the savepoint that is read.
        target: The folder to write to.
        executor: The name of the executor of op lists; None to choose it by the size of this task alone.
        is_one_of_many: Whether every core has enough tasks, as in `Conditions`.

    Raises:
        ValueNotConvertible: A value does not fit its new type; the error has state, key, path and rule.
        CorruptSavepoint: The source is damaged, or entries lie in a wrong key group.
        MigrationFailed: The entries written are not those read.
        StorageFailed: A store failed; the task may be tried again.
    """
    executor = executor or choose_executor(task.size_bytes)
    conditions = Conditions(executor, is_one_of_many)
    alone = conditions.is_alone(source, target)
    with located(savepoint=source.place, operator=task.title):
        match task:
            case KeyedTask():
                return rewrite_keyed(task, source, target, executor, alone=alone)
            case RekeyTask():
                from .new_keys import Rekeying

                return shuffled_here(Rekeying((task,), source, "", "", target), conditions)[0]
            case KeepTask():
                return keep_whole(task, source, target)
            case OperatorTask():
                return rewrite_operator(task, source, target, executor)
            case CopyTask():
                return _copy(task, source, target, executor, alone=alone)
            case _:
                assert_never(task)


def _copy(task: CopyTask, source: Folder, target: Folder, executor: ExecutorName, *, alone: bool) -> TaskResult:
    def look(stream: ByteSource) -> None:
        if task.handle is not None:
            prove_copied(stream, task.handle, task.max_parallelism, executor, alone=alone)

    with open_stream(task.stream, source) as stream:
        stored = copied_stream(stream, target, task.name, look)
        try:
            if task.xxh128 and stored.digest is not None:
                require_digest(stream.name, stored.digest.xxh128, task.xxh128)
        except CorruptSavepoint:
            target.delete(stored.attempt)
            raise
    return TaskResult(stored)
