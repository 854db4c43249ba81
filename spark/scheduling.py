"""Tasks of a migration on Spark: bundled, shipped, carried out, and watched."""

from __future__ import annotations

import gc
import io
import pickle
import re
import signal
import sys
import threading
import time
import traceback
import uuid
from contextlib import contextmanager
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.errors import MigrationFailed, StateShiftError, StorageFailed, redact_values, values_are_redacted
from ..serializers.registry import registry
from ..state.savepoint.rewrite import CopyTask, Task, TaskResult, perform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from ..state.savepoint.files import Folder

_POLL_S = 0.2
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
_BUNDLES_PER_CORE = 2
_LONGEST_END_S = 15.0  # Spark gives a worker of a cancelled task two seconds, and looks every other two


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
    context = spark.sparkContext
    work = _Work(
        tuple(tasks),
        source,
        target,
        registry.additions(),
        _attempts(context),
        context.accumulator([], _Failures()),  # type: ignore[arg-type]
        values_are_redacted(),
    )
    with _shipped(spark, work, py_files):
        bundles = _bundled(tasks, context.defaultParallelism * _BUNDLES_PER_CORE)
        answers = _run(context, work, bundles, tell)
    return [pickle.loads(answer) for answer in answers]  # noqa: S301 - our own workers wrote it


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


class _Failures:
    """How Spark adds up the failures of tasks: it tells the driver of each as soon as its task has ended."""

    def zero(self, value: list[bytes]) -> list[bytes]:
        """What a task begins with."""
        return []

    def addInPlace(self, value: list[bytes], more: list[bytes]) -> list[bytes]:  # noqa: N802 - Spark's name
        """Add those of another task."""
        return value + more


@attrs.frozen
class _Work:
    """What every worker gets."""

    tasks: tuple[Task, ...]
    source: Folder
    target: Folder
    snapshots: dict[str, Any]
    attempts: int
    failures: Any
    redacted: bool

    def __call__(self, bundles: Iterable[list[int]]) -> Iterator[bytes]:
        """Carry out bundles.

        A failure that another attempt may mend is raised, so that Spark makes one; any other is an answer, with all its
        facts, and ends the bundle.
        """
        from pyspark import cloudpickle

        registry.add(self.snapshots)
        redact_values(self.redacted)
        gc.freeze()  # a worker collects after every task, over all that its libraries keep alive
        for index in (index for bundle in bundles for index in bundle):
            answer = self._answer(index)
            # By cloudpickle: a class of the user's errors is not importable here.
            data: bytes = cloudpickle.dumps(answer)  # type: ignore[no-untyped-call]
            if isinstance(answer, StateShiftError):
                self.failures.add([data])
                return
            yield data

    def _answer(self, index: int) -> TaskResult | StateShiftError:
        from pyspark import TaskContext

        context = TaskContext.get()
        may_try_again = context is not None and context.attemptNumber() + 1 < self.attempts
        try:
            return perform(self.tasks[index], self.source, self.target)
        except StateShiftError as error:
            if isinstance(error, StorageFailed) and may_try_again:
                raise
            return error
        except Exception as error:
            if may_try_again:
                raise
            return MigrationFailed(
                f"a worker failed with {type(error).__name__}: {error}\n{traceback.format_exc().rstrip()}",
                operator=self.tasks[index].title,
                advice="mend the serializer or converter in which it failed; if it is none of yours, report a bug",
            )


def _run(context: SparkContext, work: _Work, bundles: list[list[int]], tell: Callable[[Progress], None]) -> list[bytes]:
    """Run bundles in a thread of their own, so that this one can tell how far they are, and stop them."""
    from pyspark import InheritableThread

    group = f"stateshift-{uuid.uuid4().hex[:8]}"
    outcome: list[list[bytes] | BaseException] = []

    def collect() -> None:
        try:
            # Not by interrupts: an interrupted task ends at once and leaves its worker behind, still writing.
            context.setJobGroup(group, "migrate a savepoint", interruptOnCancel=False)
            outcome.append(context.parallelize(bundles, len(bundles)).mapPartitions(work).collect())
        except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
            outcome.append(error)

    thread = InheritableThread(target=collect, daemon=True)
    with _interrupts_kept() as check_interrupt:
        thread.start()
        try:
            while thread.is_alive() and not work.failures.value:
                check_interrupt()
                tell(Progress("migrating", _counted(context, group)[0], len(bundles)))
                thread.join(_POLL_S)
            check_interrupt()
        except BaseException:
            _stop(context, group, thread)
            raise
        if work.failures.value:
            _stop(context, group, thread)
            raise _failure(work.failures.value[0])
        answer = outcome[0]
        if isinstance(answer, BaseException):
            _stop(context, group, thread)
            raise _engine_failure(answer, work, bundles) from answer
    tell(Progress("migrating", len(bundles), len(bundles)))
    return answer


@contextmanager
def _interrupts_kept() -> Iterator[Callable[[], None]]:
    """Keep Ctrl-C until the caller asks for it with the function that is given.

    Spark's own handler calls the JVM at once, maybe in the middle of another call, and cancels all jobs of the session.
    A second Ctrl-C is not kept.
    """
    kept: list[int] = []

    def check() -> None:
        if kept:
            raise KeyboardInterrupt

    def keep(number: int, _: object) -> None:
        if kept:
            raise KeyboardInterrupt
        kept.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield check
        return
    before = signal.signal(signal.SIGINT, keep)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)


def _stop(context: SparkContext, group: str, thread: threading.Thread) -> None:
    """Stop all tasks, and wait until none can write any more."""
    context.cancelJobGroup(group)
    deadline = time.monotonic() + _LONGEST_END_S
    while time.monotonic() < deadline and (thread.is_alive() or _counted(context, group)[1]):
        thread.join(_POLL_S)
        time.sleep(_POLL_S / 10)


def _counted(context: SparkContext, group: str) -> tuple[int, int]:
    """How many tasks are finished, and how many run."""
    tracker = context.statusTracker()
    finished, running = 0, 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            stage_info = tracker.getStageInfo(stage)
            finished += stage_info.numCompletedTasks if stage_info else 0
            running += stage_info.numActiveTasks if stage_info else 0
    return finished, running


def _attempts(context: SparkContext) -> int:
    """How often the master lets a task fail before it gives up."""
    local = re.fullmatch(r"local(?:\[[^],]+(?:,\s*(\d+))?\])?", context.master or "")
    return int(local[1] or 1) if local else int(context.getConf().get("spark.task.maxFailures") or 4)


def _failure(data: bytes) -> StateShiftError:
    """Give the error of a worker."""
    error: StateShiftError = pickle.loads(data)  # noqa: S301 - our own workers wrote it
    if _MISSING_MODULE.search(error.what):
        error.advice = "import the module at the top of the one that uses it, or name its file with --py-files"
    return error


def _engine_failure(error: BaseException, work: _Work, bundles: list[list[int]]) -> BaseException:
    """Say why Spark gave up, and over what; interrupts stay what they are."""
    if not isinstance(error, Exception):
        return error
    text = str(error)
    where: dict[str, Any] = {"savepoint": work.source.place}
    failed = re.search(r"Task (\d+) in stage \S+ failed (\d+) times", text)
    if failed is not None and int(failed[1]) < len(bundles):
        titles = {work.tasks[index].title for index in bundles[int(failed[1])]}
        where["operator"] = " or ".join(sorted(titles))
    again = "run the same command again: what is left behind is cleared first"
    missing = _MISSING_MODULE.search(text)
    if missing is not None:
        return MigrationFailed(
            f"the workers have no module {missing[1]!r}", advice=f"name its file with --py-files, and {again}", **where
        )
    if failed is not None and "crashed" in text:
        times = "once" if failed[2] == "1" else f"{failed[2]} times"
        return MigrationFailed(
            f"a worker process died {times} over the same piece of work: it was killed, or ran out of memory",
            advice=f"try a higher --parallelism, more memory, or a master that tries again (local[*,4]); {again}",
            **where,
        )
    told = [line.strip() for line in text.partition("Driver stacktrace")[0].splitlines() if line.strip()]
    return MigrationFailed(
        f"Spark gave up: {told[0] if told else type(error).__name__}", advice=f"see Spark's log, and {again}", **where
    )


@contextmanager
def _shipped(spark: SparkSession, work: _Work, py_files: Iterable[str | Path]) -> Iterator[None]:
    """Send the modules that the work refers to by value, until the `with` block ends.

    What is sent by value shows which modules it refers to itself, so that is asked again until nothing is new.
    """
    from pyspark import cloudpickle

    from .shipping import hand_out, send_by_value

    before, seen = cloudpickle.list_registry_pickle_by_value(), set[str]()  # type: ignore[no-untyped-call]
    try:
        handed_out = hand_out(spark, py_files)
        while new := _modules_of(work) - seen:
            send_by_value([sys.modules[name] for name in sorted(new) if name in sys.modules], handed_out)
            seen |= new
        yield
    finally:
        for name in cloudpickle.list_registry_pickle_by_value() - before:  # type: ignore[no-untyped-call]
            cloudpickle.unregister_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]


def _modules_of(work: _Work) -> set[str]:
    """Names of the modules that the tasks refer to, found by pickling them as Spark will."""
    from pyspark.cloudpickle import CloudPickler

    names: set[str] = set()

    class Collector(CloudPickler):
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, ModuleType):
                names.add(obj.__name__)
            elif isinstance(obj, type | FunctionType | BuiltinFunctionType):
                names.add(obj.__module__ or "")
            return super().reducer_override(obj)  # type: ignore[no-untyped-call]  # pyspark ships it untyped

    Collector(io.BytesIO()).dump(work)  # type: ignore[no-untyped-call]
    package = __name__.partition(".")[0]
    return {name for name in names if name and name.partition(".")[0] not in {package, "builtins", "__main__"}}
