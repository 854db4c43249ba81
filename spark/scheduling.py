"""Scheduling of migration tasks on Spark: they are bundled, shipped, run and monitored."""

from __future__ import annotations

import pickle
import re
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from ..serializers.errors import MigrationFailed, StateShiftError, values_are_redacted
from ..serializers.registry import registry
from ..serializers.wording import many
from ..state.migration.progress import Meter
from ..state.migration.retry import failure_of_task, may_be_mended
from ..state.migration.run import name_of
from ..state.migration.run_task import perform
from ..state.migration.tasks import KeyedTask, OperatorTask
from ..state.progress import Progress
from ..state.transcode.choice import choose_executor, lacks_numba
from .connect import SLOTS, attempts_of_remote, collect_answers, is_connect
from .counting import counted
from .shipping import shipped
from .watching import MISSING_MODULE, attempts_of, gave_up, run_in_group, without_values
from .worker import begin_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from pyspark import SparkContext

    from ..serializers.registry import Additions
    from ..state.migration.journal import Journal
    from ..state.migration.tasks import Task, TaskResult
    from ..state.storage.files import Folder
    from ..state.transcode.choice import ExecutorName
    from .session import Driver

_BUNDLES_PER_CORE = 2
_LEAST_BUNDLE_BYTES = 256 << 20
"""A core is idle for some 40 ms between two bundles, in which it could rewrite 50 MB."""
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
    remote = is_connect(spark)
    cores = SLOTS if remote else spark.sparkContext.defaultParallelism
    work = _Work(
        tuple(tasks),
        source,
        journal,
        registry.additions(),
        attempts_of_remote(spark) if remote else attempts_of(spark.sparkContext),
        None if remote else spark.sparkContext.accumulator([], Failures()),  # type: ignore[arg-type]
        values_are_redacted(),
        _are_even(tasks, cores),
        share_of(tasks, cores),
    )
    with shipped(spark, work, py_files):
        bundles = bundled(tasks, cores if remote else cores * _bundles_per_core(tasks, cores))
        meter = Meter("migrating", tasks, journal, tell if remote else counted(spark.sparkContext, tell))
        if remote:
            answers = _run_remotely(spark, work, bundles, meter)
        else:
            answers = _run(spark.sparkContext, work, bundles, meter)
    results: list[TaskResult] = [pickle.loads(answer) for answer in answers]  # noqa: S301 - pickled by our own workers
    meter.add(results)
    return results


def _run_remotely(spark: Driver, work: _Work, bundles: list[list[int]], meter: Meter) -> list[bytes]:
    """Run bundles in a session of Spark Connect; a failure is returned like a result, after all bundles have ended."""
    try:
        answers = collect_answers(spark, work, bundles, meter.look)
    except Exception as error:
        raise _enginefailure_of(error, work, bundles) from error
    for answer in answers:
        if isinstance(pickle.loads(answer), StateShiftError):  # noqa: S301 - pickled by our own workers
            raise failure_of(answer)
    return answers


def _are_even(tasks: Sequence[Task], cores: int) -> bool:
    """Whether the largest task is hardly larger than a core's share, so that all cores finish almost together."""
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


def bundled(tasks: Sequence[Sized], slots: int) -> list[list[int]]:
    """Distribute tasks, the largest first, to one bundle per slot: few large bundles cost Spark the least."""
    bundles: list[list[int]] = [[] for _ in range(min(slots, len(tasks)))]
    sizes = [0] * len(bundles)
    for index in sorted(range(len(tasks)), key=lambda index: -tasks[index].size_bytes):
        smallest = sizes.index(min(sizes))
        bundles[smallest].append(index)
        sizes[smallest] += tasks[index].size_bytes + 1
    return bundles


class Failures:
    """Adds up the failures of tasks in an accumulator: the driver sees each failure as soon as its task has ended."""

    def zero(self, value: list[bytes]) -> list[bytes]:
        """Return the initial value of a task."""
        return []

    def addInPlace(self, value: list[bytes], more: list[bytes]) -> list[bytes]:  # noqa: N802 - Spark's name
        """Return the failures with those of another task added."""
        return value + more


class Sized(Protocol):
    """Work of a known size."""

    @property
    def size_bytes(self) -> int:
        """The number of bytes to read."""
        ...


@attrs.frozen
class _Work:
    """The tasks and settings of every worker; without `failures`, as on Spark Connect, failures are results."""

    tasks: tuple[Task, ...]
    source: Folder
    journal: Journal
    additions: Additions
    attempts: int
    failures: Any
    redacted: bool
    are_even: bool
    share_bytes: int

    def __call__(self, bundles: Iterable[list[int]]) -> Iterator[bytes]:
        """Run bundles.

        A failure is raised if a retry may succeed, so that Spark retries; otherwise it is reported with all its facts,
        and ends the bundle.
        """
        from pyspark import cloudpickle

        begin_work(self.additions, redacted=self.redacted)
        finished, executor = self._finished_before(), choose_executor(self.share_bytes, compiles=True)
        for index in (index for bundle in bundles for index in bundle):
            answer = finished.get(name_of(self.tasks[index])) or self._answer(index, executor)
            # With cloudpickle, since a user's error class is not importable here.
            data: bytes = cloudpickle.dumps(answer)  # type: ignore[no-untyped-call]
            if isinstance(answer, StateShiftError):
                if self.failures is None:
                    yield data
                else:
                    self.failures.add([data])
                return
            yield data

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
            return answer_of(error, task.title, self.attempts)


def answer_of(error: Exception, title: str, attempts: int) -> StateShiftError:
    """Return the failure of a task for the driver, or raise it if a retry may succeed.

    Args:
        error: The error that was raised.
        title: The name of the operator in messages.
        attempts: The number of attempts per task on this master.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    may_try_again = context is not None and context.attemptNumber() + 1 < attempts
    if may_try_again and may_be_mended(error):
        if values_are_redacted():
            raise without_values(error) from None
        raise error
    return failure_of_task(error, title, "a worker")


def _run(context: SparkContext, work: _Work, bundles: list[list[int]], meter: Meter) -> list[bytes]:
    """Run bundles; the first failure that a task reports ends all of them."""

    def refuse_failures() -> None:
        if work.failures.value:
            raise failure_of(work.failures.value[0])

    def look(_: str) -> None:
        refuse_failures()
        meter.look()

    def told(error: Exception) -> Exception:
        return failure_of(work.failures.value[0]) if work.failures.value else _enginefailure_of(error, work, bundles)

    answers = run_in_group(
        context,
        lambda: context.parallelize(bundles, len(bundles)).mapPartitions(work).collect(),
        look,
        description_of(work.tasks, work.source, work.journal),
        told,
        savepoint=work.source.place,
    )
    refuse_failures()
    return answers


def description_of(tasks: Sequence[Task], source: Folder, journal: Journal) -> str:
    """Return the description of a job on Spark's pages: source, target, and size."""
    size = sum(task.size_bytes for task in tasks)
    streams = many(len(tasks), "stream")
    return f"stateshift: {source} to {journal.folder}, {streams}, {size:,} bytes to read"


def failure_of(data: bytes) -> StateShiftError:
    """Return the error of a worker."""
    error: StateShiftError = pickle.loads(data)  # noqa: S301 - pickled by our own workers
    if MISSING_MODULE.search(error.what):
        error.advice = "import the module at the top of the module that uses it, or pass its file with --py-files"
    return error


def _enginefailure_of(error: Exception, work: _Work, bundles: list[list[int]]) -> StateShiftError:
    """Return the error on why Spark gave up, and at which operator."""
    text = str(error)
    where: dict[str, Any] = {"savepoint": work.source.place}
    failed = re.search(r"Task (\d+) in stage \S+ failed (\d+) times", text)
    if failed is not None and int(failed[1]) < len(bundles):
        titles = {work.tasks[index].title for index in bundles[int(failed[1])]}
        where["operator"] = " or ".join(sorted(titles))
    again = "run the same command again: leftover files are removed first"
    missing = MISSING_MODULE.search(text)
    if missing is not None:
        return MigrationFailed(
            f"the workers cannot import the module {missing[1]!r}",
            advice=f"pass its file with --py-files, and {again}",
            **where,
        )
    if failed is not None and "crashed" in text:
        times = "once" if failed[2] == "1" else f"{failed[2]} times"
        return MigrationFailed(
            f"a worker process died {times} on the same task: it was killed, or ran out of memory",
            advice=f"try a higher --parallelism, more memory, or a master that retries tasks (local[*,4]); {again}",
            **where,
        )
    return gave_up(error, f"see Spark's log, and {again}", **where)
