"""The function that runs a task of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ...serializers.errors import CorruptSavepoint, located
from ..formats.flink.sources import open_stream, require_digest
from ..publication.copying import copied_stream
from ..savepoint.stream_proofs import prove_copied
from ..storage.prefetch import cores
from ..transcode.choice import choose_executor
from .rekey_task import RekeyTask
from .rekeying import rekeyed_here
from .rewrite import rewrite_keyed, rewrite_operator
from .tasks import CopyTask, KeyedTask, OperatorTask, Task, TaskResult

if TYPE_CHECKING:
    from ..formats.flink.sources import ByteSource
    from ..storage.files import Folder
    from ..transcode.choice import ExecutorName


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
        is_one_of_many: Whether every core has enough tasks. Then, as with a single core, a second thread pays only if
            it waits for a store; else it would take CPU time and memory from other tasks.

    Raises:
        ValueNotConvertible: A value does not fit its new type; the error has state, key, path and rule.
        CorruptSavepoint: The source is damaged, or entries lie in a wrong key group.
        MigrationFailed: The entries written are not those read.
        StorageFailed: A store failed; the task may be tried again.
    """
    executor = executor or choose_executor(task.size_bytes)
    with located(savepoint=source.place, operator=task.title):
        match task:
            case KeyedTask():
                alone = _is_alone(source, target, is_one_of_many=is_one_of_many)
                return rewrite_keyed(task, source, target, executor, alone=alone)
            case RekeyTask():
                return rekeyed_here([task], source, target, executor)[0]
            case OperatorTask():
                return rewrite_operator(task, source, target, executor)
            case CopyTask():
                alone = _is_alone(source, target, is_one_of_many=is_one_of_many)
                return _copy(task, source, target, executor, alone=alone)
            case _:
                assert_never(task)


def _is_alone(source: Folder, target: Folder, *, is_one_of_many: bool) -> bool:
    """Whether a second thread would only take CPU time from other tasks."""
    has_no_other_core = is_one_of_many or cores() == 1
    return has_no_other_core and source.is_local and target.is_local


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
