"""Migration tasks on Spark: they are bundled, shipped, run, monitored, and counted.

Entries and bytes are Spark accumulators, in its metrics, for its metrics pages and any sink:

    http://DRIVER:4040/metrics/json/    <application>.driver.AccumulatorSource.stateshift.entries

The driver counts when streams are finished. The page of a stage lists other accumulators: those that its tasks update
in Java. A task in Python cannot update them; Spark has one unnamed accumulator for the updates of all Python tasks.
Source: Spark's `LongAccumulatorSource`; `DAGScheduler.updateAccumulators`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import attrs

from ..serializers.errors import StateShiftError
from ..serializers.wording import many
from ..state.migration.progress import RunMeter
from ..state.migration.run import name_of
from ..state.migration.run_task import perform
from ..state.migration.tasks import KeyedTask, OperatorTask
from ..state.progress import Progress
from ..state.transcode.choice import choose_executor, lacks_numba
from .bundles import bundled, run_bundles, slots_of
from .connect import is_connect
from .jobs import failure_of_engine
from .user_modules import shipped
from .worker import Settings, dumped, loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from pyspark import SparkContext

    from ..state.migration.journal import Journal
    from ..state.migration.tasks import Task, TaskResult
    from ..state.storage.files import Folder
    from ..state.transcode.choice import ExecutorName
    from .sessions import Driver

_BUNDLES_PER_CORE = 2
_LEAST_BUNDLE_BYTES = 256 << 20
"""A core is idle for some 40 ms between two bundles, in which it could rewrite 50 MB."""
_AGAIN = "run the same command again: leftover files are removed first"
_MORE = "try a higher --parallelism, more memory"
_EVEN = 1.25
"""The maximum size of the largest task, as a multiple of a core's share."""


def carry_out(
    tasks: Sequence[Task],
    source: Folder,
    journal: Journal,
    *,
    session: Callable[[], Driver],
    py_files: Iterable[str | Path] = (),
    progress: Callable[[Progress], None] | None = None,
) -> list[TaskResult]:
    """Run tasks, and return their results. Each is recorded in the journal as soon as it is complete.

    Raises:
        StateShiftError: `perform` failed in a worker; it is the worker's error, with all its facts.
        MigrationFailed: Spark gave up: a worker died more often than the master allows.
    """
    tell = progress or (lambda _: None)
    tell(Progress("starting Spark", 0, 1))
    spark = session()
    slots, settings = slots_of(spark), Settings.of(spark)
    work = _Work(tuple(tasks), source, journal, settings, _are_even(tasks, slots), share_of(tasks, slots))
    with shipped(spark, work, py_files):
        remote = is_connect(spark)
        bundles = bundled(tasks, slots if remote else slots * _bundles_per_core(tasks, slots))
        titles = [" or ".join(sorted({tasks[index].title for index in bundle})) for bundle in bundles]
        meter = RunMeter("migrating", tasks, journal, tell if remote else counted(spark.sparkContext, tell))

        def look(_: int) -> None:
            settings.refuse_failures()
            meter.look()

        def told(error: Exception) -> Exception:
            settings.refuse_failures()
            return failure_of_engine(error, _AGAIN, _MORE, titles, savepoint=source.place)

        description = description_of(tasks, source, journal)
        answers = run_bundles(spark, work, bundles, look, description, told, savepoint=source.place)
    settings.refuse_failures()
    results: list[TaskResult] = []
    for answer in map(loaded, answers):
        if isinstance(answer, StateShiftError):
            raise answer
        results.append(answer)
    meter.add(results)
    return results


def _are_even(tasks: Sequence[Task], cores: int) -> bool:
    """Whether all cores finish almost together, since the largest task is hardly larger than a core's share."""
    sizes = [task.size_bytes for task in tasks]
    return cores * max(sizes, default=0) <= _EVEN * sum(sizes)


def share_of(tasks: Iterable[Task], cores: int) -> int:
    """Return the approximate number of bytes that each core processes."""
    return sum(task.size_bytes for task in tasks) // max(cores, 1)


def _bundles_per_core(tasks: Sequence[Task], cores: int) -> int:
    """Return the number of bundles per core: more than one, so that an early core gets more work, unless too small.

    The time that user code takes is unknown, so with user code, it is always more than one.
    """
    plans = [task.plan for task in tasks if isinstance(task, KeyedTask | OperatorTask)]
    if any(state.calls_users_code for plan in plans for state in plan.states):
        return _BUNDLES_PER_CORE
    size = sum(task.size_bytes for task in tasks)
    return min(_BUNDLES_PER_CORE, max(1, size // (cores * _LEAST_BUNDLE_BYTES)))


@attrs.frozen
class _Work:
    """The tasks and settings of every worker."""

    tasks: tuple[Task, ...]
    source: Folder
    journal: Journal
    settings: Settings
    are_even: bool
    share_bytes: int

    def __call__(self, bundles: Iterable[list[int]]) -> Iterator[bytes]:
        """Run bundles.

        A failure is raised if a retry may succeed, so that Spark retries; otherwise it is reported with all its facts,
        and ends the bundle.
        """
        self.settings.begin()
        finished, executor = self._finished_before(), choose_executor(self.share_bytes, compiles=True)
        for index in (index for bundle in bundles for index in bundle):
            answer = finished.get(name_of(self.tasks[index])) or self._answer(index, executor)
            if isinstance(answer, StateShiftError):
                if self.settings.failures is None:
                    yield dumped(answer)
                else:
                    self.settings.failures.add([dumped(answer)])
                return
            yield dumped(answer)

    def _finished_before(self) -> dict[str, TaskResult]:
        """Return the tasks that earlier attempts at this bundle finished; a bundle may be a large part of a run."""
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None or not context.attemptNumber():
            return {}
        try:
            return self.journal.finished()
        except (StateShiftError, OSError):  # a failing store makes the work itself fail, which is then done again
            return {}

    def _answer(self, index: int, executor: ExecutorName) -> TaskResult | StateShiftError:
        task, is_slow = self.tasks[index], lacks_numba(executor, self.share_bytes)
        try:
            result = perform(task, self.source, self.journal.folder, executor, is_one_of_many=self.are_even)
            result = attrs.evolve(result, lacks_numba=is_slow)
            self.journal.record(result)
            return result
        except Exception as error:  # noqa: BLE001 - any error of user code is reported
            return self.settings.failure_of(error, task.title)


def description_of(tasks: Sequence[Task], source: Folder, journal: Journal) -> str:
    """Return the description of a job on Spark's pages: source, target, and size."""
    size = sum(task.size_bytes for task in tasks)
    streams = many(len(tasks), "stream")
    return f"stateshift: {source} to {journal.folder}, {streams}, {size:,} bytes to read"


ENTRIES, BYTES = "stateshift.entries", "stateshift.bytes"
"""Entries and bytes read for finished streams, in all runs of an application."""

_accumulators: WeakKeyDictionary[SparkContext, dict[str, Any]] = WeakKeyDictionary()


def counted(context: SparkContext, tell: Callable[[Progress], None]) -> Callable[[Progress], None]:
    """Return a progress function that counts the steps of a run, and passes them on to `tell`.

    Args:
        context: The context with the accumulators, which add up all its runs.
        tell: The next progress function; each step has the totals so far.
    """
    before = dict.fromkeys((ENTRIES, BYTES), 0)

    def count(step: Progress) -> None:
        with suppress(Exception):  # a platform may hide its JVM; the run goes on
            accumulators = accumulators_of(context)
            for name, done in ((ENTRIES, step.entries), (BYTES, step.bytes_done)):
                accumulators[name].add(done - before[name])
                before[name] = done
        tell(step)

    return count


def accumulators_of(context: SparkContext) -> dict[str, Any]:
    """Return the accumulators of an application by name; they are registered once."""
    if context not in _accumulators:
        java, jvm = context._jsc.sc(), cast("Any", context._jvm)  # noqa: SLF001 - there is no other way
        made = {name: java.longAccumulator(name) for name in (ENTRIES, BYTES)}
        source = getattr(jvm.org.apache.spark.metrics.source, "LongAccumulatorSource$")
        getattr(source, "MODULE$").register(java, jvm.PythonUtils.toScalaMap(made))
        _accumulators[context] = made
    return _accumulators[context]
