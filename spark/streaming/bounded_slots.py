"""What a worker does for a slot in a bounded run: all rows of the slot in one task, in the order of their times.

Spark brings the rows to the slots and sorts them, so a slot may have more rows than fit in memory. An attempt writes
its results and its part of the savepoint under names of its own; the driver learns the names from the one attempt of
each task whose answer Spark returns. What other attempts have written is never read.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa

from ...serializers.errors import DeclarationError, SavepointNotFound, StateShiftError
from ...state.publication.commit import Commit
from ...state.runtime.timer_service import MIN_WATERMARK
from ...state.streaming.slot import SlotTask
from ..worker import in_rows
from .blobs import milliseconds, packed, task_number, unpacked
from .row_errors import tolerant
from .slot_runs import function_failed, register_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...state.backends.snapshots import SubtaskSnapshot
    from ...state.publication.sink import StoredBytes
    from ...state.storage.files import FileOutput, Folder
    from ...state.streaming.slot import Elements
    from .blobs import Packing
    from .query_plan import Work

PLACE = ("slot", "time_ms", "rank", "origin", "position")
"""The columns that say where a row belongs: its slot, its time stamp, 0 if its input is broadcast (else 1), the task
that read it, and its number there. Rows are sorted by them; a row without a time stamp comes first."""

_RESULTS = 10_000
_LENGTH_BYTES = 8


def column_of(index: int) -> str:
    """Return the column with the rows of an input."""
    return f"input{index}"


@attrs.frozen
class Placing:
    """Adds to each row the slot and key group it belongs to; used with `mapInArrow`.

    Attributes:
        packing: Divides rows among slots.
        slots: The number of slots.
        max_parallelism: The number of key groups.
        uid: The uid of the operator.
    """

    packing: Packing
    slots: int
    max_parallelism: int
    uid: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.packing.settings.guarded(self._rows(batches), self.uid)

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packing, origin, position = self.packing, task_number(), 0
        for batch in batches:
            for slot, part in packing.parts(batch, self.slots, self.max_parallelism, origin):
                yield self._placed(slot, part, origin, position)
                position += part.num_rows

    def _placed(self, slot: int, part: pa.RecordBatch, origin: int, position: int) -> pa.RecordBatch:
        count, time = part.num_rows, self.packing.time_column
        return pa.RecordBatch.from_arrays(
            [
                pa.repeat(pa.scalar(slot, pa.int32()), count),
                milliseconds(part.column(time)) if time else pa.nulls(count, pa.int64()),
                pa.repeat(pa.scalar(0 if self.packing.to_all else 1, pa.int32()), count),
                pa.repeat(pa.scalar(origin, pa.int64()), count),
                pa.array(range(position, position + count), pa.int64()),
                pa.StructArray.from_arrays(part.columns, fields=list(part.schema)),
            ],
            names=[*PLACE, column_of(self.packing.index)],
        )


@attrs.frozen
class SlotResult:
    """What an attempt at a slot has written.

    Attributes:
        slot: The number of the slot.
        results: The file with the rows of its results.
        snapshot: Its state; files have the names of the attempt.
        streams: The files of the state, by these names.
        watermarks: The event time of each input before the last watermark.
        errors: The errors that were passed over.
    """

    slot: int
    results: str
    snapshot: SubtaskSnapshot
    streams: dict[str, StoredBytes]
    watermarks: tuple[int, ...]
    errors: int


@attrs.frozen
class BoundedSlots:
    """Processes the rows of a slot, which are those of a task; used with `mapInArrow`.

    Attributes:
        work: The operator.
        order: The numbers of its inputs, those that are broadcast first: so they are processed where times are equal.
        slots: The number of slots.
        max_parallelism: The number of key groups.
        now_ms: The processing time.
        drains: Whether event time ends after the rows.
        target: The folder of the savepoint.
        results: The folder of results.
    """

    work: Work
    order: tuple[int, ...]
    slots: int
    max_parallelism: int
    now_ms: int
    drains: bool
    target: Folder
    results: Folder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.work.settings.guarded(in_rows(self._processed(batches)), self.work.spec.uid)

    def _processed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[SlotResult]:
        register_all(self.work.serializers)
        slot = task_number()
        name = f"{uuid.uuid4().hex}-{slot}"
        with self.results.output(name) as output:
            task = _Task(self.work, slot, self.slots, self.max_parallelism, output)
            try:
                task.begin_epoch(None, self.now_ms)
                watermarks = self._run(task, batches)
                task.flush()
                commit = _AttemptCommit(self.target)
                snapshot = task.write(1, commit, is_checkpoint=False)
            except Exception as error:
                if isinstance(error, StateShiftError) or self.work.settings.may_try_again():
                    raise
                raise function_failed(error, task) from error
            finally:
                task.close()
            output.sync()
        yield SlotResult(slot, name, snapshot, commit.streams, watermarks, task.errors)

    def _run(self, task: _Task, batches: Iterable[pa.RecordBatch]) -> tuple[int, ...]:
        highest: list[int | None] = [None] * len(self.work.readers)
        for batch in batches:
            parts = list(self._elements(batch, task))
            for part in parts:
                highest[part.index] = _highest(part, highest[part.index])
            if self.work.spec.in_order:
                task.process_part((), self.now_ms, [[part] for part in parts])
            else:
                task.process_part(parts, self.now_ms)
            task.flush()
        task.process((), highest, self.now_ms, drains=self.drains)
        return task.watermarks

    def _elements(self, batch: pa.RecordBatch, task: SlotTask) -> Iterator[Elements]:
        for index in self.order:
            rows = batch.column(column_of(index))
            if own := len(rows) - rows.null_count:
                rows = rows if own == len(rows) else rows.drop_null()
                reader = tolerant(self.work.readers[index], task)
                yield reader.read(index, pa.RecordBatch.from_struct_array(rows))


class _Task(SlotTask):
    """A slot whose results go to a file as they come."""

    def __init__(self, work: Work, slot: int, slots: int, max_parallelism: int, output: FileOutput) -> None:
        super().__init__(work.spec, slot, slots, max_parallelism)
        self._writer, self._output = work.writer, output
        self.write_results(self.flush, _RESULTS)

    def flush(self) -> None:
        """Write the results so far."""
        while self.results or self.side_results:  # a result that was not of its type may have become another one
            rows = packed([self._writer.rows_of(self)])
            self._output.write(len(rows).to_bytes(_LENGTH_BYTES, "big"))
            self._output.write(rows)


@attrs.frozen
class _AttemptCommit(Commit):
    """Leaves files under the names of the attempt: the driver renames those of the attempts that count."""

    streams: dict[str, StoredBytes] = attrs.field(factory=dict, init=False)

    def name(self, stored: StoredBytes) -> str:
        self.streams[stored.attempt] = stored
        return stored.attempt


def _highest(part: Elements, before: int | None) -> int | None:
    if part.timestamps is None:
        return before if before is not None else 0  # there are rows, which is all that is asked for
    return max((time for time in (*part.timestamps, before) if time is not None), default=None)


@attrs.frozen
class StoredResults:
    """The results of an operator, as the attempts that count have written them; used with `mapInArrow` on slots.

    Attributes:
        folder: The folder of results.
        uid: The uid of the operator.
        name: The name of the file that says which file has the results of a slot.
    """

    folder: Folder
    uid: str
    name: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            files = self._files()
            for slot in batch.column(0).to_pylist():
                if str(slot) in files:
                    yield from self._rows(files[str(slot)])

    def write(self, files: dict[int, str]) -> None:
        """Note the file of each slot, which makes the results readable."""
        self.folder.write(self.name, json.dumps(files).encode())

    def _files(self) -> dict[str, str]:
        try:
            files: dict[str, str] = json.loads(self.folder.read(self.name))
        except SavepointNotFound as error:
            raise DeclarationError(
                f"the results of {self.uid!r} are there only while a bounded run of its job writes them",
                advice="pass their writer to the run: job.run(results.write.format(…).option(…), savepoint=…)",
            ) from error
        return files

    def _rows(self, name: str) -> Iterator[pa.RecordBatch]:
        with self.folder.open_range(name) as file:
            start = 0
            while start < file.size:
                size = int.from_bytes(file.read_at(start, _LENGTH_BYTES), "big")
                yield from unpacked(file.read_at(start + _LENGTH_BYTES, size))
                start += _LENGTH_BYTES + size


def reached(watermarks: Iterable[tuple[int, ...]]) -> list[int | None]:
    """Return the event time that each input has reached in all slots; None: it has no time stamps."""
    highest = [max(marks) for marks in zip(*watermarks, strict=True)]
    return [None if mark == MIN_WATERMARK else mark for mark in highest]
