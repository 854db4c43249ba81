"""The sinks of a program on Spark: called in this process, each batch once.

After each batch the state of the sinks is written beside Spark's checkpoint, with the number of the batch. A batch that
Spark repeats, because the query ended before it was committed, is left out if the sinks have had all of it.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from ...state.backends.heap.backend import HashMapStateBackend
from ...state.backends.restore_check import RESTORING
from ...state.backends.snapshots import OperatorSnapshot, publish_snapshot
from ...state.environment.execution import stored_operator, to_all
from ...state.environment.files import Finishing
from ...state.environment.stations import FunctionTask, Outputs
from ...state.publication.checkpoints import open_checkpoints
from ...state.publication.commit import Commit
from ...state.runtime.runtime_context import TaskInfo
from ...state.savepoint.reader import Savepoint
from ..worker import loaded

if TYPE_CHECKING:
    from typing import Self

    from pyspark.sql import DataFrame

    from ...state.environment.graph import Transformation
    from ...state.environment.stations import Collect
    from ...state.storage.files import Folder
    from .shape import Shape

_JOB = "0" * 32


class Sinks(ExitStack):
    """The sinks of a program, from their opening to the end of the `with` block.

    Args:
        shape: The program.
        folder: Where their state is written.
        savepoint: The savepoint that the program starts from; None: there is none.

    Attributes:
        error: What a sink has raised; Spark tells of it in a text alone.
    """

    def __init__(self, shape: Shape, folder: Folder, savepoint: Savepoint | None) -> None:
        super().__init__()
        self._shape, self._folder, self._savepoint = shape, folder, savepoint
        self._tasks: dict[Transformation, FunctionTask] = {}
        self._pushes: list[Collect] = []
        self.error: BaseException | None = None

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self._storage = self.enter_context(open_checkpoints(self._folder, _JOB))
            latest = self._storage.latest
            stored = self._savepoint if latest is None else Savepoint.open(latest.place)
            for number, edge in enumerate(self._shape.places[-1].edges):
                one = self._shape.sink_of(number)
                if one not in self._tasks:
                    self._begin(one, stored)
                self._pushes.append(self._tasks[one].push(0, edge))
        except BaseException:
            self.close()
            raise
        return self

    def _begin(self, one: Transformation, stored: Savepoint | None) -> None:
        uid = self._shape.uids[one]
        task = self._tasks[one] = FunctionTask(one, HashMapStateBackend, TaskInfo(name=one.name), uid)
        found = stored_operator(stored, uid)
        task.begin(Outputs(to_all(()), {}), () if found is None else (found,), RESTORING)
        self.callback(task.close)

    def take(self, batch: DataFrame, number: int) -> None:
        """Hand the elements of a batch to the sinks; `foreachBatch` calls it.

        Args:
            batch: The rows behind all steps.
            number: The number of the batch.
        """
        rows = batch.select("place", "value", "at").collect()
        if number + 1 < self._storage.next_id:
            return
        try:
            for place, value, at in rows:
                self._pushes[place](loaded(bytes(value)), at)
            self._write(number + 1)
        except BaseException as error:
            self.error = error
            raise

    def _write(self, checkpoint_id: int) -> None:
        with self._storage.checkpoint(checkpoint_id) as folder:
            commit = Commit(folder)
            written = [
                OperatorSnapshot(
                    task.operator,
                    task.task.max_parallelism,
                    [task.write(checkpoint_id, commit, is_checkpoint=True, shared=self._storage.shared)],
                )
                for task in self._tasks.values()
                if isinstance(task.function, Finishing)
            ]
            publish_snapshot(commit, written, checkpoint_id, is_checkpoint=True)
        for task in self._tasks.values():
            task.notify_checkpoint_complete(checkpoint_id)

    def finish(self) -> None:
        """Note that the run went well."""
        for task in self._tasks.values():
            if isinstance(task.function, Finishing):
                task.function.finish()
