"""Tasks of a migration on Spark: bundled, shipped, carried out, and watched."""

from __future__ import annotations

import gc
import io
import pickle
import sys
import uuid
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.errors import MigrationFailed, StateShiftError, StorageFailed
from ..serializers.registry import registry
from ..state.savepoint.rewrite import CopyTask, Task, TaskResult, perform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from types import ModuleType

    from pyspark.sql import SparkSession

    from ..state.savepoint.files import Folder

_POLL_S = 0.2
_BUNDLES_PER_CORE = 2


@attrs.frozen
class Progress:
    """How far a run is.

    Attributes:
        phase: `starting Spark`, `migrating`, `copying`, `publishing`.
        done: Bundles of tasks that are finished.
        total: All of them.
    """

    phase: str
    done: int
    total: int


def carry_out(
    tasks: Sequence[Task],
    source: Folder,
    target: Folder,
    *,
    session: Callable[[], SparkSession],
    py_files: Iterable[str | Path] = (),
    progress: Callable[[Progress], None] | None = None,
) -> list[TaskResult]:
    """Carry out all tasks, and give their results.

    Where files are only to be copied, no Spark is started.

    Raises:
        StateShiftError: What `perform` raised in a worker, with all its facts.
        MigrationFailed: Spark gave up: a worker died more often than the master allows.
    """
    tell = progress or (lambda _: None)
    if all(isinstance(task, CopyTask) for task in tasks):
        return _copied_here(tasks, source, target, tell)
    tell(Progress("starting Spark", 0, 1))
    spark = session()
    from .shipping import ship_modules

    work = _Work(tuple(tasks), source, target, registry.additions())
    ship_modules(spark, _modules_of(work), py_files)
    slots = spark.sparkContext.defaultParallelism * _BUNDLES_PER_CORE
    bundles = _bundled(tasks, slots)
    answers = _run(spark, work, bundles, tell)
    results = [pickle.loads(answer) for answer in answers]  # noqa: S301 - our own workers wrote it
    for result in results:
        if isinstance(result, StateShiftError):
            raise result
    return results


def _copied_here(
    tasks: Sequence[Task], source: Folder, target: Folder, tell: Callable[[Progress], None]
) -> list[TaskResult]:
    results = []
    for done, task in enumerate(tasks):
        tell(Progress("copying", done, len(tasks)))
        results.append(perform(task, source, target))
    tell(Progress("copying", len(tasks), len(tasks)))
    return results


def _bundled(tasks: Sequence[Task], slots: int) -> list[list[int]]:
    """Deal tasks, the largest first, to as many bundles as there are slots: few fat ones cost Spark the least."""
    bundles: list[list[int]] = [[] for _ in range(min(slots, len(tasks)))]
    sizes = [0] * len(bundles)
    for index in sorted(range(len(tasks)), key=lambda index: -tasks[index].size_bytes):
        smallest = sizes.index(min(sizes))
        bundles[smallest].append(index)
        sizes[smallest] += tasks[index].size_bytes + 1
    return bundles


@attrs.frozen
class _Work:
    """What every worker gets."""

    tasks: tuple[Task, ...]
    source: Folder
    target: Folder
    snapshots: dict[str, Any]

    def __call__(self, bundles: Iterable[list[int]]) -> Iterator[bytes]:
        """Carry out bundles. A failure that will repeat is an answer; one of a store is raised, for another attempt."""
        registry.add(self.snapshots)
        gc.freeze()  # a worker collects after every task, over all that its libraries keep alive
        for bundle in bundles:
            for index in bundle:
                try:
                    answer: object = perform(self.tasks[index], self.source, self.target)
                except StorageFailed:
                    raise
                except StateShiftError as error:
                    answer = error
                yield pickle.dumps(answer)


def _run(spark: SparkSession, work: _Work, bundles: list[list[int]], tell: Callable[[Progress], None]) -> list[bytes]:
    from pyspark import InheritableThread

    context = spark.sparkContext
    group = f"stateshift-{uuid.uuid4().hex[:8]}"
    outcome: list[list[bytes] | BaseException] = []

    def collect() -> None:
        try:
            context.setJobGroup(group, "migrate a savepoint", interruptOnCancel=True)
            outcome.append(context.parallelize(bundles, len(bundles)).mapPartitions(work).collect())
        except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
            outcome.append(error)

    thread = InheritableThread(target=collect)
    thread.start()
    try:
        while thread.is_alive():
            tell(Progress("migrating", _finished(spark, group), len(bundles)))
            thread.join(_POLL_S)
    except BaseException:
        context.cancelJobGroup(group)
        raise
    tell(Progress("migrating", len(bundles), len(bundles)))
    answer = outcome[0]
    if isinstance(answer, list):
        return answer
    raise _engine_failure(answer) from answer


def _finished(spark: SparkSession, group: str) -> int:
    tracker = spark.sparkContext.statusTracker()
    done = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            stage_info = tracker.getStageInfo(stage)
            done += stage_info.numCompletedTasks if stage_info else 0
    return done


def _engine_failure(error: BaseException) -> BaseException:
    """Say in one line why Spark gave up; interrupts stay what they are."""
    if not isinstance(error, Exception):
        return error
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next((line for line in lines if "StorageFailed" in line or "crashed" in line), lines[0] if lines else "")
    return MigrationFailed(
        f"Spark gave up: {told or type(error).__name__}",
        advice="see Spark's log; run the same command again: what is left behind is cleared first",
    )


def _modules_of(work: _Work) -> list[ModuleType]:
    """The modules whose classes and functions the tasks refer to, found by pickling them as Spark will."""
    from pyspark.cloudpickle import CloudPickler

    names: set[str] = set()

    class Collector(CloudPickler):
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, type | FunctionType | BuiltinFunctionType):
                names.add(obj.__module__ or "")
            return super().reducer_override(obj)  # type: ignore[no-untyped-call]  # pyspark ships it untyped

    Collector(io.BytesIO()).dump(work)  # type: ignore[no-untyped-call]
    package = __name__.partition(".")[0]
    chosen = {name for name in names if name.partition(".")[0] not in {package, "builtins", "__main__"}}
    return [sys.modules[name] for name in sorted(chosen) if name in sys.modules]
