"""Bundles of independent tasks, each of which is one task of Spark, and what its pages count of them.

Entries and bytes that runs have read are Spark accumulators, in its metrics, for its metrics pages and any sink:

    http://DRIVER:4040/metrics/json/    <application>.driver.AccumulatorSource.stateshift.entries

The driver counts when streams are finished. The page of a stage lists other accumulators: those that its tasks update
in Java. A task in Python cannot update them; Spark has one unnamed accumulator for the updates of all Python tasks.
Source: Spark's `LongAccumulatorSource`; `DAGScheduler.updateAccumulators`.
"""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from weakref import WeakKeyDictionary

import attrs

from ..serializers.errors import StateShiftError
from ..state.progress import Progress, ProgressMeter
from ..state.runner import Conditions, are_even
from .connect import SLOTS, collect_answers, is_connect
from .jobs import failure_of_engine, run_in_group, tasks_of
from .user_modules import shipped
from .worker import Settings, attempt_number, dumped, loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark import SparkContext

    from ..state.runner import Independent, Sized, Tell
    from .sessions import Driver

R = TypeVar("R")
_LOCAL_LOOK_S = 0.5
_REMOTE_LOOK_S = 5.0
ENTRIES, BYTES = "stateshift.entries", "stateshift.bytes"
"""Entries and bytes read for finished streams, in all runs of an application."""

_accumulators: WeakKeyDictionary[SparkContext, dict[str, Any]] = WeakKeyDictionary()


def slots_of(spark: Driver) -> int:
    """Return the number of tasks that a driver runs at a time."""
    return SLOTS if is_connect(spark) else int(spark.sparkContext.defaultParallelism)


def bundled(tasks: Sequence[Sized], slots: int) -> list[list[int]]:
    """Distribute tasks, the largest first, to one bundle per slot: few large bundles cost Spark the least."""
    bundles: list[list[int]] = [[] for _ in range(min(slots, len(tasks)))]
    sizes = [0] * len(bundles)
    for index in sorted(range(len(tasks)), key=lambda index: -tasks[index].size_bytes):
        smallest = sizes.index(min(sizes))
        bundles[smallest].append(index)
        sizes[smallest] += tasks[index].size_bytes + 1
    return bundles


def run_bundles(spark: Driver, work: Independent[Any, R], tell: Tell, py_files: tuple[str | Path, ...]) -> list[R]:
    """Run a work in bundles, and return the answers in the order of its tasks; see `Runner`."""
    if not work.tasks:
        tell(Progress(work.phase, 0, 0))
        return []
    slots, settings = slots_of(spark), Settings.of(spark)
    bundles = bundled(work.tasks, work.bundles(slots))
    titles = [" or ".join(sorted({work.title(work.tasks[index]) for index in bundle} - {""})) for bundle in bundles]
    meter = BundleMeter(work, len(bundles), tell if is_connect(spark) else counted(spark.sparkContext, tell))

    def told(error: Exception) -> Exception:
        settings.refuse_failures()
        return failure_of_engine(error, work.again, work.more, titles, savepoint=work.source.place)

    def look(ended: int) -> None:
        settings.refuse_failures()
        meter.look(ended)

    there = Bundles(work, settings, work.size_bytes // slots, are_even=are_even(work.tasks, slots))
    with shipped(spark, there, py_files):
        found = _answers(spark, there, bundles, look, told)
    settings.refuse_failures()
    answers: dict[int, R] = {}
    for answer in map(loaded, found):
        if isinstance(answer, StateShiftError):
            raise answer
        answers[answer[0]] = answer[1]
    meter.end(answers)
    return [answers[index] for index in range(len(work.tasks))]


def _answers(
    spark: Driver,
    there: Bundles,
    bundles: list[list[int]],
    look: Callable[[int], None],
    told: Callable[[Exception], Exception],
) -> list[bytes]:
    """Run bundles, and return all answers; Spark Connect does not report how many bundles have ended."""
    if not is_connect(spark):
        context = spark.sparkContext
        return run_in_group(
            context,
            lambda: context.parallelize(bundles, len(bundles)).mapPartitions(there).collect(),
            lambda group: look(tasks_of(context, group)[0]),
            f"stateshift: {there.work.what}",
            told,
            savepoint=there.work.source.place,
        )
    try:
        return collect_answers(spark, there, bundles, lambda: look(0))
    except Exception as error:
        failure = told(error)
        if failure is error:
            raise
        raise failure from error


class BundleMeter(Generic[R]):
    """Reports the progress of bundles: by what is recorded, else by how many have ended, which are about equal.

    Args:
        work: The work.
        bundles: The number of bundles.
        tell: Called with the progress.
    """

    def __init__(self, work: Independent[Any, R], bundles: int, tell: Tell) -> None:
        self._work, self._bundles = work, bundles
        parts = len(work.tasks) if work.is_recorded else bundles
        self._meter = ProgressMeter(tell, work.phase, parts, work.size_bytes)
        self._every_s = _LOCAL_LOOK_S if work.source.is_local else _REMOTE_LOOK_S
        self._left, self._looked = set(range(len(work.tasks))), time.monotonic()
        self._meter.tell_now()

    def look(self, ended: int) -> None:
        """Report the progress, if the last look into the records was some time ago; so many bundles have ended."""
        if not self._work.is_recorded:
            new = ended - self._meter.done
            self._meter.add(self._work.size_bytes * new // self._bundles, parts=new)
        elif time.monotonic() - self._looked >= self._every_s:
            with suppress(StateShiftError):  # the store does not answer; the workers will raise
                self._count(self._work.finished(self._left))
            self._looked = time.monotonic()

    def end(self, results: Mapping[int, R]) -> None:
        """Report that all is done, with these results."""
        if self._work.is_recorded:
            self._count(results)
        else:
            self.look(self._bundles)

    def _count(self, results: Mapping[int, R]) -> None:
        new = [index for index in results if index in self._left]
        self._left.difference_update(new)
        size = sum(self._work.tasks[index].size_bytes for index in new)
        self._meter.add(size, parts=len(new), entries=sum(self._work.entries(results[index]) for index in new))


@attrs.frozen
class Bundles:
    """Runs bundles of tasks in a worker.

    Attributes:
        work: The work.
        settings: The settings of the driver.
        share_bytes: About how many bytes a slot processes.
        are_even: Whether all slots finish almost together.
    """

    work: Independent[Any, Any]
    settings: Settings
    share_bytes: int
    are_even: bool

    def __call__(self, bundles: Iterable[list[int]]) -> Iterator[bytes]:
        """Yield the number of each task with its answer.

        A failure is raised if a retry may succeed, so that Spark retries; otherwise it is reported with all its facts,
        and ends the bundle, unless it is the answer of its task.
        """
        self.settings.begin()
        work, indices = self.work, list(chain.from_iterable(bundles))
        conditions = Conditions.of(self.share_bytes, is_one_of_many=self.are_even)
        finished = self._finished_before(indices)
        for index in indices:
            task = work.tasks[index]
            try:
                answer = finished[index] if index in finished else work.perform(task, conditions, lambda _: None)
            except Exception as error:  # noqa: BLE001 - any error of user code is reported
                answer = self.settings.failure_of(error, work.title(task))
                if answer is not error or not work.keeps_failures:
                    yield from self.settings.reported(answer)
                    return
            yield dumped((index, answer))

    def _finished_before(self, indices: list[int]) -> Mapping[int, Any]:
        """Return the tasks that earlier attempts at this bundle finished; a bundle may be a large part of a run."""
        if self.work.is_recorded and attempt_number():
            with suppress(StateShiftError, OSError):  # a failing store makes the work itself fail, which is then redone
                return self.work.finished(indices)
        return {}


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
