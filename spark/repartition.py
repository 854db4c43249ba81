"""Rewriting of keys on Spark: the entries are read in packed batches, which one shuffle brings to the new subtasks.

    readings -> mapInArrow -> parcels -> a partition a stream, sorted by key group and state -> mapInArrow -> streams

A packed batch (`Parcel`) holds many entries (up to 4 MiB); only these batches pass through the JVM, where Spark sorts
them, on disk if needed. Source: rule ROLE-4.
"""

from __future__ import annotations

import pickle
from itertools import groupby
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from ..serializers.errors import values_are_redacted
from ..serializers.registry import registry
from ..state.migration.merge_partitions import write_parcels
from ..state.migration.rekey_task import READING_BYTES
from ..state.migration.rekeying import read_parcels
from ..state.migration.shuffle_batches import Parcel
from ..state.progress import Progress
from ..state.transcode.choice import choose_executor, lacks_numba
from .connect import refuse_connect
from .in_arrow import mapped
from .placing import partitioned_by
from .scheduling import Failures, answer_of, description_of, failure_of, share_of
from .session import with_sql
from .shipping import shipped
from .watching import attempts_of, run_watched
from .worker import begin_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from ..serializers.errors import StateShiftError
    from ..serializers.registry import Additions
    from ..state.migration.journal import Journal
    from ..state.migration.rekey_task import RekeyTask
    from ..state.migration.tasks import TaskResult
    from ..state.storage.files import Folder
    from .session import Driver

_PARCELS = "stream int, key_group int, state int, data binary"
_SCHEMA = pa.schema([("stream", pa.int32()), ("key_group", pa.int32()), ("state", pa.int32()), ("data", pa.binary())])
_BATCH_BYTES = 4 << 20
_TASKS_PER_CORE = 2


def rewrite_keys(
    tasks: Sequence[RekeyTask],
    source: Folder,
    journal: Journal,
    *,
    session: Callable[[], Driver],
    py_files: Iterable[str | Path] = (),
    progress: Callable[[Progress], None] | None = None,
) -> list[TaskResult]:
    """Write streams of operators whose keys are all rewritten. Each is recorded in the journal when it is complete.

    Args:
        tasks: The streams to write, of one or more operators; other streams of these operators exist already.
        source: The folder of the stored streams.
        journal: The journal of the target.
        session: A function that returns the Spark session.
        py_files: Further files for the workers.
        progress: A function that is called regularly with the progress so far.

    Raises:
        StateShiftError: A worker failed; it is the worker's error, with all its facts.
        MigrationFailed: Spark gave up.
    """
    tell = progress or (lambda _: None)
    tell(Progress("starting Spark", 0, 1))
    spark = with_sql(session())
    refuse_connect(spark, "rewriting keys")
    context = spark.sparkContext
    failures: Any = context.accumulator([], Failures())  # type: ignore[arg-type]
    work = _Work(
        tuple(tasks),
        _readings(tasks),
        source,
        journal,
        registry.additions(),
        attempts_of(context),
        failures,
        values_are_redacted(),
        share_of(tasks, context.defaultParallelism),
    )

    def tell_unless_failed(step: Progress) -> None:
        if failures.value:
            raise failure_of(failures.value[0])
        tell(step)

    with shipped(spark, attrs.evolve(work, failures=None), py_files):
        streams = _streams(spark, work, context.defaultParallelism * _TASKS_PER_CORE)
        description = description_of(tasks, source, journal)
        answers = run_watched(context, streams.collect, "migrating", tell_unless_failed, description)
    if failures.value:
        raise failure_of(failures.value[0])
    return [pickle.loads(answer.result) for answer in answers]  # noqa: S301 - pickled by our own workers


def _readings(tasks: Sequence[RekeyTask]) -> tuple[tuple[int, int], ...]:
    """Return the readings that the streams need: the first task of the operator, and the reading's index in it."""
    firsts: dict[str, int] = {}
    for at, task in enumerate(tasks):
        firsts.setdefault(task.plan.operator_id, at)
    return tuple((at, reading) for at in firsts.values() for reading in range(len(tasks[at].readings)))


def _streams(spark: SparkSession, work: _Work, slots: int) -> DataFrame:
    """Return a DataFrame that reads, shuffles and writes; it has a row for each stream."""
    count = len(work.readings)
    size = sum(task.size_bytes for task in work.tasks)
    numbers = spark.range(0, count, 1, min(count, max(slots, size // READING_BYTES)))
    parcels = mapped(numbers, work.read, _PARCELS)
    together = partitioned_by(parcels, len(work.tasks), parcels["stream"])
    ordered = together.sortWithinPartitions("stream", "key_group", "state")
    return mapped(ordered, work.write, "result binary")


@attrs.frozen
class _Work:
    """The tasks and settings that every worker receives."""

    tasks: tuple[RekeyTask, ...]
    readings: tuple[tuple[int, int], ...]
    source: Folder
    journal: Journal
    additions: Additions
    attempts: int
    failures: Any
    redacted: bool
    share_bytes: int

    def _begin(self) -> None:
        begin_work(self.additions, redacted=self.redacted)

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the packed entries of readings, given by their numbers."""
        self._begin()
        executor = choose_executor(self.share_bytes, compiles=True)
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            at, reading = self.readings[number]
            operator_id = self.tasks[at].plan.operator_id
            streams = {
                task.subtask: stream for stream, task in enumerate(self.tasks) if task.plan.operator_id == operator_id
            }
            parcels = read_parcels(self.tasks[at], reading, self.source, streams.keys(), executor)
            yield from self._guarded(_batched(parcels, streams), self.tasks[at].title)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the streams of the packed entries, and yield the result of each."""
        self._begin()
        for stream, parcels in groupby(_unpacked(batches), key=lambda found: found[0]):
            yield from self._guarded(self._written(stream, parcels), self.tasks[stream].title)

    def _written(self, stream: int, parcels: Iterable[tuple[int, Parcel]]) -> Iterator[pa.RecordBatch]:
        result = write_parcels(self.tasks[stream], (parcel for _, parcel in parcels), self.journal.folder)
        is_slow = lacks_numba(choose_executor(self.share_bytes, compiles=True), self.share_bytes)
        result = attrs.evolve(result, lacks_numba=is_slow)
        self.journal.record(result)
        yield pa.RecordBatch.from_pydict({"result": pa.array([pickle.dumps(result)], pa.binary())})

    def _guarded(self, work: Iterator[pa.RecordBatch], title: str) -> Iterator[pa.RecordBatch]:
        """Report a failure to the driver, or raise it if a retry may succeed."""
        failure: StateShiftError | None = None
        try:
            yield from work
        except Exception as error:  # noqa: BLE001 - any error of user code is reported
            failure = answer_of(error, title, self.attempts)
        if failure is not None:
            from pyspark import cloudpickle

            # With cloudpickle, since a user's error class is not importable here.
            self.failures.add([cloudpickle.dumps(failure)])  # type: ignore[no-untyped-call]


def _batched(parcels: Iterable[Parcel], streams: dict[int, int]) -> Iterator[pa.RecordBatch]:
    """Yield Arrow batches of moderate size made of packed entries."""
    held: list[Parcel] = []
    size = 0
    for parcel in parcels:
        held.append(parcel)
        size += len(parcel.data)
        if size >= _BATCH_BYTES:
            yield _batch(held, streams)
            held, size = [], 0
    if held:
        yield _batch(held, streams)


def _batch(parcels: list[Parcel], streams: dict[int, int]) -> pa.RecordBatch:
    columns = zip(*((streams[p.subtask], p.key_group, p.state_id, p.data) for p in parcels), strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Parcel]]:
    for batch in batches:
        for at in range(batch.num_rows):
            stream, key_group, state, data = (column[at].as_py() for column in batch.columns)
            yield stream, Parcel(-1, key_group, state, data)
