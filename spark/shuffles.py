"""Shuffled works on Spark: entries travel in packed batches, which one shuffle brings to the streams.

    readings -> mapInArrow -> batches -> a partition a stream, sorted by key group and state -> mapInArrow -> results

A `ShuffleBatch` holds many entries; only these batches pass through the JVM, where Spark sorts them, on disk if needed.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import pyarrow as pa

from ..state.runner import BATCH_BYTES, READING_BYTES, Conditions, ShuffleBatch
from ..state.storage.prefetch import in_batches
from .connect import refuse_connect
from .frames import arrow_columns, partitioned_by
from .sessions import with_sql
from .user_modules import shipped
from .worker import RESULT, Settings, collected, in_rows, loaded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from ..state.runner import Shuffled, Tell
    from .sessions import Driver

R = TypeVar("R")
_COLUMNS = "stream int, key_group int, state int, data binary"
_SCHEMA = arrow_columns(_COLUMNS)
_SHUFFLES_PER_CORE = 2


def run_shuffled(spark: Driver, work: Shuffled[Any, R], tell: Tell, py_files: tuple[str | Path, ...]) -> list[R]:
    """Run a shuffled work in a session, and return its results."""
    session = with_sql(spark)
    refuse_connect(session, work.needs)
    slots, settings = session.sparkContext.defaultParallelism, Settings.of(session)
    there = _Stages(work, tuple(work.readings()), settings, work.size_bytes // slots)
    with shipped(session, attrs.evolve(there, settings=attrs.evolve(settings, failures=None)), py_files):
        count, most = len(there.readings), max(slots * _SHUFFLES_PER_CORE, work.size_bytes // READING_BYTES)
        batches = session.range(0, count, 1, min(count, most)).mapInArrow(there.read, _COLUMNS)
        together = partitioned_by(batches, len(work.tasks), batches["stream"])
        ordered = together.sortWithinPartitions("stream", "key_group", "state")
        results = ordered.mapInArrow(there.write, RESULT)
        rows = collected(results, settings, work.phase, tell, f"stateshift: {work.what}")
    return [loaded(row.result) for row in rows]


@attrs.frozen
class _Stages:
    """Reads and writes on the two sides of a shuffle, in a worker."""

    work: Shuffled[Any, Any]
    readings: tuple[tuple[int, int], ...]
    settings: Settings
    share_bytes: int

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the packed entries of readings, given by their numbers."""
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            at, reading = self.readings[number]
            yield from self.settings.guarded(self._read(at, reading), self._title(at))

    def _read(self, at: int, reading: int) -> Iterator[pa.RecordBatch]:
        batches = self.work.read(at, reading, self._conditions())
        yield from map(_in_arrow, in_batches(batches, lambda batch: len(batch.data), BATCH_BYTES))

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the streams of the packed entries, and yield the result of each."""
        for stream, own in groupby(_from_arrow(batches), key=lambda batch: batch.stream):
            yield from self.settings.guarded(self._written(stream, own), self._title(stream))

    def _written(self, stream: int, batches: Iterable[ShuffleBatch]) -> Iterator[pa.RecordBatch]:
        yield from in_rows([self.work.write(stream, batches, self._conditions())])

    def _title(self, at: int) -> str:
        return self.work.title(self.work.tasks[at])

    def _conditions(self) -> Conditions:
        return Conditions.of(self.share_bytes, is_one_of_many=True)


def _in_arrow(batches: list[ShuffleBatch]) -> pa.RecordBatch:
    columns = zip(zip(*batches, strict=True), _SCHEMA, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in columns], schema=_SCHEMA)


def _from_arrow(batches: Iterable[pa.RecordBatch]) -> Iterator[ShuffleBatch]:
    for batch in batches:
        for at in range(batch.num_rows):
            yield ShuffleBatch(*(column[at].as_py() for column in batch.columns))
