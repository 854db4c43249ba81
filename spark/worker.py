"""Preparation of a Python worker before its work, and its failures."""

from __future__ import annotations

import gc
import pickle
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from ..serializers.errors import StateShiftError, redact_values, values_are_redacted
from ..serializers.registry import registry
from ..serializers.ways_out import Option, Told, WayOut
from ..state.runner import failure_of_task, may_be_mended
from .connect import attempts_of_remote, is_connect
from .jobs import MISSING_MODULE, attempts_of, run_watched, without_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from ..serializers.registry import Additions
    from ..state.progress import Progress
    from ..state.runner import Tell
    from .sessions import Driver

T = TypeVar("T")
RESULT = "result binary"
"""The schema of rows from `in_rows`."""


class Failures:
    """Adds up the failures of tasks in an accumulator: the driver sees each failure as soon as its task has ended."""

    def zero(self, value: list[bytes]) -> list[bytes]:
        """Return the initial value of a task."""
        return []

    def addInPlace(self, value: list[bytes], more: list[bytes]) -> list[bytes]:  # noqa: N802 - Spark's name
        """Return the failures with those of another task added."""
        return value + more


@attrs.frozen
class Settings:
    """The settings that every worker gets from the driver.

    Attributes:
        additions: What was registered in the driver, from `registry.additions`.
        redacted: Whether values are left out of messages.
        attempts: The number of attempts per task on this master.
        failures: The accumulator of `Failures`; None on Spark Connect, where a failure is an answer.
    """

    additions: Additions
    redacted: bool
    attempts: int
    failures: Any = None

    @classmethod
    def of(cls, spark: Driver) -> Settings:
        """Return the settings for the workers of a session."""
        if is_connect(spark):
            return cls(registry.additions(), values_are_redacted(), attempts_of_remote(spark))
        failures: Any = spark.sparkContext.accumulator([], Failures())  # type: ignore[arg-type]
        return cls(registry.additions(), values_are_redacted(), attempts_of(spark.sparkContext), failures)

    def begin(self) -> None:
        """Prepare a worker: restore the driver's registrations and settings in this process."""
        begin_work(self.additions, redacted=self.redacted)

    def may_try_again(self) -> bool:
        """Whether Spark repeats the task of this worker if it fails."""
        attempt = attempt_number()
        return attempt is not None and attempt + 1 < self.attempts

    def failure_of(self, error: Exception, title: str) -> StateShiftError:
        """Return the failure of a task for the driver, or raise it if a retry may succeed.

        Args:
            error: The error that was raised.
            title: The name of the operator in messages.
        """
        if self.may_try_again() and may_be_mended(error):
            if values_are_redacted():
                raise without_values(error) from None
            raise error
        return failure_of_task(error, title, "a worker")

    def guarded(self, work: Iterator[T], title: str) -> Iterator[T]:
        """Prepare the worker, and yield what some work yields, which begins now.

        Its failure is reported to the driver, or raised if a retry may succeed.
        """
        self.begin()
        failure: StateShiftError | None = None
        try:
            yield from work
        except Exception as error:  # noqa: BLE001 - any error of user code is reported
            failure = self.failure_of(error, title)
        if failure is not None:
            self.failures.add([dumped(failure)])

    def reported(self, failure: StateShiftError) -> Iterator[bytes]:
        """Report a failure to the driver; on Spark Connect it is an answer."""
        if self.failures is None:
            yield dumped(failure)
        else:
            self.failures.add([dumped(failure)])

    def refuse_failures(self) -> None:
        """Raise the first failure that a worker has reported, in the driver."""
        if self.failures is not None and self.failures.value:
            raise loaded(self.failures.value[0])


def attempt_number() -> int | None:
    """Return the number of the attempt at the task of this worker, from 0; None: there is no task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.attemptNumber()


def in_rows(results: Iterable[object]) -> Iterator[pa.RecordBatch]:
    """Yield results as rows for the driver, which takes each with `loaded`."""
    import pyarrow as pa

    for result in results:
        yield pa.RecordBatch.from_pydict({"result": pa.array([dumped(result)], pa.binary())})


def collected(frame: DataFrame, settings: Settings, phase: str, tell: Tell, description: str) -> list[Any]:
    """Return the rows of a DataFrame that workers compute; what a worker reports as its failure is raised at once.

    Args:
        frame: The rows.
        settings: The settings that the workers have.
        phase: The name of the phase, for the progress.
        tell: Called with the progress: the tasks of Spark.
        description: The description of the jobs on Spark's pages.

    Raises:
        StateShiftError: A worker failed; it is the worker's error, with all its facts.
        MigrationFailed: Spark gave up.
    """

    def watched(step: Progress) -> None:
        settings.refuse_failures()
        tell(step)

    rows = run_watched(frame.sparkSession.sparkContext, frame.collect, phase, watched, description)
    settings.refuse_failures()
    return rows


def dumped(answer: object) -> bytes:
    """Return an answer pickled, with cloudpickle, since a user's error class is not importable in a worker."""
    from pyspark import cloudpickle

    data: bytes = cloudpickle.dumps(answer)  # type: ignore[no-untyped-call]
    return data


def loaded(data: bytes) -> Any:
    """Return an answer of our own workers; a failure gets advice on a module that is missing there."""
    answer = pickle.loads(data)  # noqa: S301 - pickled by our own workers
    if isinstance(answer, StateShiftError) and MISSING_MODULE.search(answer.what):
        by_file = WayOut("pass its file with", (Told(Option.PY_FILES),))
        answer.advise("import the module at the top of the module that uses it", by_file)
    return answer


def begin_work(additions: Additions, *, redacted: bool) -> None:
    """Restore the driver's registrations and settings in this process.

    Args:
        additions: What was registered in the driver, from `registry.additions`.
        redacted: Whether values are left out of messages.
    """
    registry.add(additions)
    redact_values(redacted)
    _freeze_once()


@cache
def _freeze_once() -> None:
    """Exclude the objects of loaded libraries from garbage collection: Spark runs a collection after each task.

    It is done once per process, so that what earlier tasks left behind is still collected.
    """
    gc.freeze()
