"""Running of works: the division among workers, retries, progress and failures, wherever the workers are.

    Independent     tasks that do not need each other
    Shuffled        streams to write, from entries that are read elsewhere and have to be brought to them
    Runner          runs works: `InProcess` in this process, `spark.runner.SparkRunner` on Spark

A work is a value, which is pickled for other processes; it does not know where it runs, and a runner does not know what
it does.
"""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar, cast

import attrs

from ..serializers.errors import (
    MigrationFailed,
    NoSpaceLeft,
    StateShiftError,
    StorageFailed,
    shown,
    values_are_redacted,
    without_locals,
)
from .progress import Progress, ProgressMeter
from .storage.prefetch import cores
from .transcode.executor_choice import ExecutorName, choose_executor, lacks_numba

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from .storage.files import Folder

    Tell = Callable[[Progress], None]
    Take = Callable[[int], None]

READING_BYTES = 64 << 20
"""The approximate part of a stored stream that one task reads for a shuffle."""
BATCH_BYTES = 4 << 20
"""The size at which a `ShuffleBatch` is sent."""
_ATTEMPTS = 4
"""As often as Spark's default master, `local[*,4]`, this process tries a task whose failure may be temporary."""
_EVEN = 1.25
"""The maximum size of the largest task, as a multiple of a worker's share."""


class Sized(Protocol):
    """A task of a known size."""

    @property
    def size_bytes(self) -> int:
        """The approximate number of bytes to read or write."""
        ...


T = TypeVar("T", bound=Sized)
R = TypeVar("R")


@attrs.frozen
class Conditions:
    """The conditions under which a worker runs tasks.

    Attributes:
        executor: The name of the executor of op lists.
        is_one_of_many: Whether every core has enough tasks. Then, as with a single core, a second thread pays only if
            it waits for a store; else it would take CPU time and memory from other tasks.
        lacks_numba: Whether objects are used only because numba is not installed here.
    """

    executor: ExecutorName
    is_one_of_many: bool = False
    lacks_numba: bool = False

    @classmethod
    def of(cls, share_bytes: int, *, is_one_of_many: bool) -> Self:
        """Return the conditions in this process, for a worker that processes about so many bytes."""
        executor = choose_executor(share_bytes, compiles=True)
        return cls(executor, is_one_of_many, lacks_numba(executor, share_bytes))

    def is_alone(self, *folders: Folder) -> bool:
        """Whether a second thread that reads or writes these folders would only take CPU time from other tasks."""
        return (self.is_one_of_many or cores() == 1) and all(folder.is_local for folder in folders)


@attrs.frozen
class Work(ABC, Generic[T, R]):
    """What all works have; each kind has subclasses.

    Attributes:
        tasks: The tasks; a shuffled work has one for each stream to write.
        source: The folder that is read.
        phase: The name of the phase, for the progress.
        what: What is done, in words that follow "stateshift:".
        keeps_failures: Whether an error of stateshift is the answer of its task; else it ends the run.
        is_recorded: Whether results are recorded as they are there, so that `finished` finds them.
        again: The advice to run it again.
        more: The advice where a worker has died.
    """

    tasks: tuple[T, ...]
    source: Folder
    phase: str
    what: str

    keeps_failures: ClassVar[bool] = False
    is_recorded: ClassVar[bool] = False
    again: ClassVar[str] = "run it again: leftover files are removed first"
    more: ClassVar[str] = "give it more memory"

    @property
    def size_bytes(self) -> int:
        """The size of all tasks."""
        return sum(task.size_bytes for task in self.tasks)

    @abstractmethod
    def title(self, task: T) -> str:
        """Return the name of a task's operator in messages; "" if it has none."""

    def entries(self, result: R) -> int:
        """Return the number of entries that were read for a result."""
        return 0


class Independent(Work[T, R]):
    """Tasks that do not need each other."""

    @abstractmethod
    def perform(self, task: T, conditions: Conditions, take: Take) -> R:
        """Run a task, and return its result after recording it, if the work is recorded.

        Args:
            task: The task.
            conditions: The conditions of this worker.
            take: Called with the number of bytes that were read, again and again.

        Raises:
            StateShiftError: The task failed; other exceptions of user code are reported with their traceback.
        """

    def bundles(self, slots: int) -> int:
        """Return into how many bundles the tasks are best divided, for workers that run so many at a time."""
        return slots

    def finished(self, indices: Iterable[int]) -> Mapping[int, R]:
        """Return the recorded results of those of the tasks that are finished, by index; by default there are none."""
        return {}


class ShuffleBatch(NamedTuple):
    """A batch of entries of one state for the stream that has their new key group.

    Attributes:
        stream: The number of the new stream.
        key_group: The new key group, or less than 0 for what comes before all entries.
        state_id: The index of the state in the new header.
        data: The entries.
    """

    stream: int
    key_group: int
    state_id: int
    data: bytes


class Shuffled(Work[T, R]):
    """Streams to write, from entries that are read elsewhere and have to be brought to them.

    Attributes:
        needs: What needs Spark's driver for that, in words.
    """

    needs: ClassVar[str]

    @abstractmethod
    def readings(self) -> Sequence[tuple[int, int]]:
        """Return what is to be read: for each reading, the index of a task and a number that `read` takes."""

    @abstractmethod
    def read(self, at: int, number: int, conditions: Conditions) -> Iterator[ShuffleBatch]:
        """Yield the entries of a reading; errors as in `Independent.perform`."""

    @abstractmethod
    def write(self, at: int, batches: Iterable[ShuffleBatch], conditions: Conditions) -> R:
        """Write the stream of a task from its batches, sorted by key group and state, and return the result."""

    def apart(self) -> Iterator[Self]:
        """Yield works that do the same one after the other, so that less is held at a time."""
        yield self


AnyWork = Independent[Any, R] | Shuffled[Any, R]


class Runner(Protocol):
    """Runs works."""

    def slots(self, size_bytes: int, tell: Tell) -> int:
        """Return the number of tasks that it runs at a time, for a work of about so many bytes; it may be started."""
        ...

    def run(self, works: Sequence[AnyWork[R]], tell: Tell) -> list[R]:
        """Run works one after the other, and return the results of their tasks, in order.

        Args:
            works: The works. One that keeps failures has an error as the result of a task that failed.
            tell: Called with the progress, one call at a time. An error in it ends the run, as Ctrl-C does; nothing
                runs afterwards.

        Raises:
            StateShiftError: A task failed for good; errors of user code become a `MigrationFailed`.
        """
        ...


def are_even(tasks: Sequence[Sized], slots: int) -> bool:
    """Whether all slots finish almost together, since the largest task is hardly larger than a slot's share."""
    sizes = [task.size_bytes for task in tasks]
    return slots * max(sizes, default=0) <= _EVEN * sum(sizes)


class Ended(BaseException):
    """The run has ended: raised in a thread that reports its progress."""


@attrs.frozen
class InProcess:
    """Runs works in this process; threads help where machine code and digests release the GIL.

    Attributes:
        threads: The number of threads; one: the calling thread runs the tasks, one after the other.
    """

    threads: int = 1

    def slots(self, size_bytes: int, tell: Tell) -> int:
        """Return the number of threads."""
        return self.threads

    def run(self, works: Sequence[AnyWork[R]], tell: Tell) -> list[R]:
        """Run works; see `Runner`."""
        tasks = [task for work in works for task in work.tasks]
        size = sum(task.size_bytes for task in tasks)
        conditions = Conditions.of(size, is_one_of_many=self.threads > 1 and are_even(tasks, self.threads))
        why: list[BaseException] = []

        def told(step: Progress) -> None:
            if why:
                raise Ended
            try:
                tell(step)
            except Exception as error:
                why.append(error)
                raise Ended from error

        meter = ProgressMeter(told, works[0].phase, len(tasks), size)
        units = [unit for work in works for unit in _units(work)]

        def run(number: int) -> list[R]:
            work, own = units[number]
            results = _tried(work, own, conditions, lambda taken: meter.take(taken, number))
            entries = sum(map(work.entries, results))
            meter.add(sum(task.size_bytes for task in own), number, parts=len(own), entries=entries)
            return results

        try:
            meter.tell_now()
            return [result for results in self._all(run, len(units), why) for result in results]
        except Ended:
            raise why[0] from None

    def _all(self, run: Callable[[int], list[R]], count: int, why: list[BaseException]) -> Iterator[list[R]]:
        if self.threads == 1:
            yield from map(run, range(count))
            return
        pool = ThreadPoolExecutor(self.threads)
        try:
            for future in [pool.submit(copy_context().run, run, number) for number in range(count)]:
                yield future.result()
        finally:
            why.append(Ended())
            pool.shutdown(cancel_futures=True)


def _units(work: AnyWork[R]) -> Iterator[tuple[AnyWork[R], tuple[Sized, ...]]]:
    """Yield what is tried again as a whole, with its tasks: a task, or all streams of a shuffle."""
    if isinstance(work, Shuffled):
        yield from ((part, part.tasks) for part in work.apart())
    else:
        yield from ((work, (task,)) for task in work.tasks)


def shuffled_here(work: Shuffled[T, R], conditions: Conditions) -> list[R]:
    """Run a shuffled work in this process: all its entries are held in memory, and sorted."""
    held: list[list[ShuffleBatch]] = [[] for _ in work.tasks]
    for at, number in work.readings():
        for batch in work.read(at, number, conditions):
            held[batch.stream].append(batch)
    for batches in held:
        batches.sort(key=lambda batch: (batch.key_group, batch.state_id))
    return [work.write(at, batches, conditions) for at, batches in enumerate(held)]


def _tried(work: AnyWork[R], tasks: Sequence[Any], conditions: Conditions, take: Take) -> list[R]:
    """Return the results of a unit after as many attempts as it takes; raise the error if it fails for good."""
    attempt = 1
    while True:
        try:
            if isinstance(work, Shuffled):
                return shuffled_here(work, conditions)
            return [work.perform(task, conditions, take) for task in tasks]
        except Exception as error:
            if attempt < _ATTEMPTS and may_be_mended(error):
                attempt += 1
                continue
            failure = failure_of_task(error, work.title(tasks[0]), "the run")
            if failure is not error:
                raise failure from None if values_are_redacted() else error
            if work.keeps_failures:
                return [cast("R", without_locals(failure))]
            raise


def may_be_mended(error: Exception) -> bool:
    """Whether another attempt may succeed: a store failed, or code outside stateshift."""
    if isinstance(error, StateShiftError):
        return isinstance(error, StorageFailed) and not isinstance(error, NoSpaceLeft)
    return True


def failure_of_task(error: Exception, title: str, who: str) -> StateShiftError:
    """Return the error of a task that failed for good: errors of stateshift unchanged, others with their traceback.

    Args:
        error: The exception that was raised.
        title: The name of the operator in messages; "" if there is none.
        who: The name of what ran the task, for messages.
    """
    if isinstance(error, StateShiftError):
        return error
    trace = "".join(traceback.format_tb(error.__traceback__))
    return MigrationFailed(
        f"{who} failed with {type(error).__name__}: {shown(str(error))}",
        details=trace.splitlines(),
        operator=title or None,
        advice="fix the serializer or converter that failed; if it is not yours, report a bug",
    )
