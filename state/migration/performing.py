"""One task carried out: whatever kind it is, wherever it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ...serializers.errors import CorruptSavepoint, located
from ..savepoint.sink import StreamSink
from ..savepoint.sources import open_stream, read_pieces
from .rekey_task import RekeyTask
from .rekeying import rekeyed_here
from .rewrite import rewrite_keyed, rewrite_operator
from .tasks import CopyTask, KeyedTask, OperatorTask, Task, TaskResult

if TYPE_CHECKING:
    from ..savepoint.files import Folder

_COPY_BYTES = 4 << 20


def perform(task: Task, source: Folder, target: Folder) -> TaskResult:
    """Carry out a task.

    Raises:
        ValueNotConvertible: A value does not fit its new type; with state, key, path and rule.
        CorruptSavepoint: What was read is damaged, or entries lie in a wrong key group.
        MigrationFailed: What was written is not what was read.
        StorageFailed: A store failed; the task may be tried again.
    """
    with located(savepoint=source.place, operator=task.title):
        match task:
            case KeyedTask():
                return rewrite_keyed(task, source, target)
            case RekeyTask():
                return rekeyed_here(task, source, target)
            case OperatorTask():
                return rewrite_operator(task, source, target)
            case CopyTask():
                return _copy(task, source, target)
            case _:
                assert_never(task)


def _copy(task: CopyTask, source: Folder, target: Folder) -> TaskResult:
    with open_stream(task.stream, source) as stream, StreamSink(target, task.name, inline_bytes=0) as sink:
        pieces = [(start, min(_COPY_BYTES, stream.size - start)) for start in range(0, stream.size, _COPY_BYTES)]
        for data in read_pieces(stream, pieces):
            sink.write(data)
        stored = sink.finish()
        if task.xxh128 and stored.digest is not None and stored.digest.xxh128 != task.xxh128:
            raise CorruptSavepoint("the file is not what its lineage says: the digest differs", file=stream.name)
    return TaskResult(stored)
