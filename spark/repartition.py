"""Rewriting of keys on Spark: the entries are read in packed batches, which one shuffle brings to the new subtasks.

    readings -> mapInArrow -> batches -> a partition a stream, sorted by key group and state -> mapInArrow -> streams

A `ShuffleBatch` holds many entries (up to 4 MiB); only these batches pass through the JVM, where Spark sorts them, on
disk if needed. Source: rule ROLE-4.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa

from ..state.migration.merge_partitions import write_batches
from ..state.migration.rekey_task import READING_BYTES
from ..state.migration.rekeying import read_batches
from ..state.migration.shuffle_batches import BATCH_BYTES, ShuffleBatch
from ..state.progress import Progress
from ..state.transcode.choice import choose_executor, lacks_numba
from .connect import refuse_connect
from .frames import partitioned_by
from .jobs import run_watched
from .migration_tasks import description_of, share_of
from .sessions import with_sql
from .user_modules import shipped
from .worker import Settings, dumped, loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from ..state.migration.journal import Journal
    from ..state.migration.rekey_task import RekeyTask
    from ..state.migration.tasks import TaskResult
    from ..state.storage.files import Folder
    from .sessions import Driver

_COLUMNS = "stream int, key_group int, state int, data binary"
_SCHEMA = pa.schema([("stream", pa.int32()), ("key_group", pa.int32()), ("state", pa.int32()), ("data", pa.binary())])
_TASKS_PER_CORE = 2


def write_rekeyed(
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
    context, settings = spark.sparkContext, Settings.of(spark)
    work = _Work(tuple(tasks), _readings(tasks), source, journal, settings, share_of(tasks, context.defaultParallelism))

    def tell_unless_failed(step: Progress) -> None:
        settings.refuse_failures()
        tell(step)

    with shipped(spark, attrs.evolve(work, settings=attrs.evolve(settings, failures=None)), py_files):
        streams = _streams(spark, work, context.defaultParallelism * _TASKS_PER_CORE)
        description = description_of(tasks, source, journal)
        answers = run_watched(context, streams.collect, "migrating", tell_unless_failed, description)
    settings.refuse_failures()
    return [loaded(answer.result) for answer in answers]


def _readings(tasks: Sequence[RekeyTask]) -> tuple[tuple[int, int], ...]:
    """Return the readings that the streams need, each as an operator's first task and an index in it."""
    firsts: dict[str, int] = {}
    for at, task in enumerate(tasks):
        firsts.setdefault(task.plan.operator_id, at)
    return tuple((at, reading) for at in firsts.values() for reading in range(len(tasks[at].readings)))


def _streams(spark: SparkSession, work: _Work, slots: int) -> DataFrame:
    """Return a DataFrame that reads, shuffles and writes; it has a row for each stream."""
    count = len(work.readings)
    size = sum(task.size_bytes for task in work.tasks)
    numbers = spark.range(0, count, 1, min(count, max(slots, size // READING_BYTES)))
    shuffled = numbers.mapInArrow(work.read, _COLUMNS)
    together = partitioned_by(shuffled, len(work.tasks), shuffled["stream"])
    ordered = together.sortWithinPartitions("stream", "key_group", "state")
    return ordered.mapInArrow(work.write, "result binary")


@attrs.frozen
class _Work:
    """The tasks and settings that every worker receives."""

    tasks: tuple[RekeyTask, ...]
    readings: tuple[tuple[int, int], ...]
    source: Folder
    journal: Journal
    settings: Settings
    share_bytes: int

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the packed entries of readings, given by their numbers."""
        self.settings.begin()
        executor = choose_executor(self.share_bytes, compiles=True)
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            at, reading = self.readings[number]
            operator_id = self.tasks[at].plan.operator_id
            streams = {
                task.subtask: stream for stream, task in enumerate(self.tasks) if task.plan.operator_id == operator_id
            }
            shuffled = read_batches(self.tasks[at], reading, self.source, streams, executor)
            yield from self.settings.guarded(_in_arrow(shuffled), self.tasks[at].title)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the streams of the packed entries, and yield the result of each."""
        self.settings.begin()
        for stream, shuffled in groupby(_from_arrow(batches), key=lambda batch: batch.stream):
            yield from self.settings.guarded(self._written(stream, shuffled), self.tasks[stream].title)

    def _written(self, stream: int, shuffled: Iterable[ShuffleBatch]) -> Iterator[pa.RecordBatch]:
        result = write_batches(self.tasks[stream], shuffled, self.journal.folder)
        is_slow = lacks_numba(choose_executor(self.share_bytes, compiles=True), self.share_bytes)
        result = attrs.evolve(result, lacks_numba=is_slow)
        self.journal.record(result)
        yield pa.RecordBatch.from_pydict({"result": pa.array([dumped(result)], pa.binary())})


def _in_arrow(shuffled: Iterable[ShuffleBatch]) -> Iterator[pa.RecordBatch]:
    """Yield Arrow batches of moderate size."""
    held: list[ShuffleBatch] = []
    size = 0
    for one in shuffled:
        held.append(one)
        size += len(one.data)
        if size >= BATCH_BYTES:
            yield _arrow_batch(held)
            held, size = [], 0
    if held:
        yield _arrow_batch(held)


def _arrow_batch(shuffled: list[ShuffleBatch]) -> pa.RecordBatch:
    columns = zip(zip(*shuffled, strict=True), _SCHEMA, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in columns], schema=_SCHEMA)


def _from_arrow(batches: Iterable[pa.RecordBatch]) -> Iterator[ShuffleBatch]:
    for batch in batches:
        for at in range(batch.num_rows):
            yield ShuffleBatch(*(column[at].as_py() for column in batch.columns))
