"""What a worker does for a slot in a batch, however Spark calls it.

    answer = SlotRunner(…)(group, manifest, blobs, now_ms)

A slot's task is kept in its process, and goes on in the next batch if the manifest that Spark then has is its own. It
is taken out before anything is processed, so a failed attempt leaves nothing that could be trusted. Source: notes on
Spark, 2.1.
"""

from __future__ import annotations

import ctypes
import sys
import time
import traceback
from functools import cache
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from ...serializers.errors import FunctionFailed, MigrationFailed, StateShiftError, cause_text, located
from ...serializers.registry import registry
from ...state.directory.directory import with_places
from ...state.directory.manifest import Manifest
from ...state.runtime.timer_service import MAX_WATERMARK, MIN_WATERMARK
from ...state.savepoint.reader import Savepoint
from ...state.storage.prefetch import in_batches
from ...state.streaming.measures import SlotMetrics
from ...state.streaming.slot import SlotTask
from ...state.task.subtask import StoredOperator
from .blobs import Blob, slot_of_lane, unpacked
from .lanes import HELD_BYTES, in_order, keep, kept
from .results import Results
from .row_errors import tolerant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ...serializers.serializer import TypeSerializer
    from ...state.streaming.slot import Elements, OperatorSpec
    from ..worker import Settings
    from .elements import ElementReader, ResultWriter
    from .runs import Run, RunFacts

_PACKAGE = f"{__name__.partition('.')[0]}."
_GROUPED_BYTES = 8 << 20
"""How many bytes of rows are ordered by their keys at a time."""
_MOST_RESULTS = 10_000
"""How many results of a slot wait to become rows, which take less memory."""
_M_MMAP_THRESHOLD = -3
_LIVE: dict[tuple[str, str, int], tuple[Run, SlotTask]] = {}
"""The tasks of this process, with the run that they are of; by directory, operator and slot."""


@attrs.frozen
class Answer:
    """What a slot returns for a batch.

    Attributes:
        manifest: Its manifest; None: what Spark has holds on.
        results: Its results, packed or in a file; None: it has not run.
        is_current: Whether the slot is one of the present epoch, which Spark calls in the next batch even without rows:
            a timer may be due then, or event time may end.
        metrics: What was measured; None: nothing, or in this batch already.
    """

    manifest: bytes | None
    results: bytes | Path | None = None
    is_current: bool = True
    metrics: SlotMetrics | None = None

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the row that Spark gets, if there is one."""
        if self.results is not None:
            metrics = None if self.metrics is None else self.metrics.to_json()
            is_file = isinstance(self.results, Path)
            yield {
                "rows": None if is_file else self.results,
                "file": str(self.results) if is_file else None,
                "metrics": metrics,
            }


@attrs.frozen
class SlotRunner:
    """Processes the batches of slots.

    Attributes:
        run: Reads what holds for this start.
        settings: The settings of the workers.
        spec: The operator.
        readers: Make the elements of each input.
        writer: Makes the rows of results.
        serializers: The serializers that were registered for classes: a function that is opened here asks for them.
    """

    run: RunFacts
    settings: Settings
    spec: OperatorSpec
    readers: tuple[ElementReader, ...]
    writer: ResultWriter
    serializers: tuple[tuple[type, TypeSerializer[Any]], ...] = ()

    def __call__(self, group: int, stored: bytes | None, blobs: Iterable[Blob], now_ms: int, batch: int) -> Answer:
        """Process a batch.

        Args:
            group: The integer of the slot, or that of a lane of it, whose blobs are kept until the slot itself comes.
            stored: The manifest that Spark has; None: none.
            blobs: The packed rows of the slot.
            now_ms: The time of the batch.
            batch: The number of the batch.
        """
        prepare(self.settings, self.serializers)
        run = self.run.read()
        if group < 0:
            keep(self._place(run, slot_of_lane(group, run.epoch.slots)), blobs)
            return Answer(None, is_current=False)
        slot = run.slots.get(group)
        if slot is None:
            return Answer(None, is_current=False)
        before = None if stored is None else Manifest.from_bytes(stored)
        arriving = chain(blobs, kept(self._place(run, slot)))
        first = next(arriving, None)
        if before is not None and before.directory in run.directory.copied_from:
            before = None  # the copy begins an epoch of its own
        if before is not None and before.epoch == run.epoch.number:
            is_due = before.wake_ms is not None and before.wake_ms <= now_ms
            if before.batch == batch:
                return Answer(None)  # it has run in this batch because it had rows
            # At its first call in a run it runs without rows, too: its types may have got other names, and a state has
            # one description in all slots.
            if first is None and not is_due and run.drains != batch and before.run == run.number:
                return Answer(None, b"", metrics=_idle(before))
        arrived = arriving if first is None else chain((first,), arriving)
        with located(operator=self.spec.uid):
            began_s = time.perf_counter()
            open_before = _LIVE.get(self._place(run, slot))
            task = self._task(run, slot, before, now_ms)
            opened = Opened(open_before is None or task is not open_before[1], began_s, time.perf_counter())
            waiting = Results()
            try:
                answer = self._processed(task, run, arrived, waiting, now_ms, batch, opened)
            except BaseException as error:
                task.close()
                waiting.close()
                if isinstance(error, StateShiftError) or not isinstance(error, Exception):
                    raise
                raise function_failed(error, task) from error
            replaced = _LIVE.pop(self._place(run, slot), None)
            _LIVE[self._place(run, slot)] = run, task
            if replaced is not None:  # of another attempt, which ran at the same time
                replaced[1].close()
            return answer

    def _processed(
        self, task: SlotTask, run: Run, blobs: Iterable[Blob], waiting: Results, now_ms: int, batch: int, opened: Opened
    ) -> Answer:
        highest: list[int | None] = [None] * len(self.readers)
        parts = _parts(blobs, highest)
        readers: Sequence[Any] = [tolerant(reader, task) for reader in self.readers]
        read = results = 0

        def write() -> None:
            nonlocal results
            while task.results or task.side_results:  # one that was not of its type may have become another one
                rows = self.writer.rows_of(task)
                results += rows.num_rows
                waiting.add(rows)

        def watched(sequence: Iterable[Elements]) -> Iterator[Elements]:
            nonlocal read
            for elements in sequence:
                read += len(elements.values)
                yield elements

        task.write_results(write, _MOST_RESULTS)
        drains = run.drains == batch
        if self.spec.in_order and any(reader.time_column for reader in readers):
            ordered = [watched(one) for one in in_order(parts, readers)]
            task.process((), highest, now_ms, ordered, drains=drains)
        else:
            # Their order is by chance, but for elements of a key from one place: so those of a key come together.
            of_state = task.key, run.max_parallelism
            elements = (readers[index].read_by_key(index, some, *of_state) for index, some in _together(parts))
            task.process(watched(elements), highest, now_ms, drains=drains)
        write()
        task.write_results(None)
        processed_s = time.perf_counter()
        directory, files_before = run.directory, task.files
        manifest = task.checkpoint(
            batch,
            directory=directory.id,
            epoch=run.epoch.number,
            run=run.number,
            folder=directory.files,
            shared=directory.shared,
        )
        manifest = directory.delete_obsolete(manifest, batch - run.retained - 1)
        data = manifest.to_bytes()
        directory.record(manifest, data)
        task.keep(manifest)
        files, inline = manifest.files(), manifest.inline_bytes
        late, timers, errors, own = task.measured()
        metrics = SlotMetrics(
            opened_slots=int(opened.is_new),
            rows=read,
            late_rows=late,
            timers=timers,
            errors=errors,
            results=results,
            checkpoint_bytes=inline + sum(size for name, size in files.items() if name not in files_before),
            state_bytes=_state_bytes(manifest),
            open_ms=_milliseconds(opened.began_s, opened.ended_s),
            process_ms=_milliseconds(opened.ended_s, processed_s),
            snapshot_ms=_milliseconds(processed_s, time.perf_counter()),
            watermark_ms=_watermark_ms(manifest),
            own=own,
        )
        return Answer(data, waiting.handed(), metrics=metrics)

    def _place(self, run: Run, slot: int) -> tuple[str, str, int]:
        return run.directory.id, self.spec.uid, slot

    def _task(self, run: Run, slot: int, before: Manifest | None, now_ms: int) -> SlotTask:
        """Return the task of a slot, with the state after the last committed batch."""
        live = _LIVE.pop(self._place(run, slot), None)
        if live is not None:
            of_run, task = live
            # Another run may have other code, or other types.
            if before is not None and task.last_attempt == before.attempt and of_run.number == run.number:
                task.committed()
                return task
            task.close()
        if before is not None and before.directory != run.directory.id:
            raise MigrationFailed(
                "Spark's checkpoint has the manifest of another state directory",
                advice="start the query with the state directory that its checkpoint belongs to",
            )
        if before is not None and before.epoch > run.epoch.number:
            raise MigrationFailed(
                f"the state is of epoch {before.epoch}, and the query was started for epoch {run.epoch.number}",
                advice="start it again with StreamJob.start: another start has gone on in the meantime",
            )
        lazy = run.epoch.lazy.get(self.spec.uid)
        task = SlotTask(self.spec, slot, run.epoch.slots, run.max_parallelism, lazy=lazy)
        if before is not None and before.epoch == run.epoch.number:
            if before.operator.operator_id.hex() != task.operator.id:
                raise MigrationFailed(
                    "Spark's checkpoint has the state of another operator of the query in this place",
                    advice="put the operators in the order in which they were before",
                )
            stored = with_places(before.operator, run.directory.files)
            lineage = run.epoch.lineage
            task.resume(before, StoredOperator(stored, run.directory.folder, before.batch + 1, lineage), now_ms)
            task.committed()
            return task
        base = run.directory.base_of(run.epoch)
        operator = None if base is None else _operator_of(Savepoint.of(base), self.spec)
        task.begin_epoch(operator, now_ms)
        return task


@attrs.frozen
class Opened:
    """How the task of a slot was opened.

    Attributes:
        is_new: Whether it was not open before.
        began_s: When that began.
        ended_s: When it was done.
    """

    is_new: bool
    began_s: float
    ended_s: float


def function_failed(error: Exception, task: SlotTask | None) -> FunctionFailed:
    """Return the error of a user function, with the element and the line of user code that raised it.

    Args:
        error: The error.
        task: The slot; None: the function has no state, and belongs to none.
    """
    where = ", ".join(getattr(error, "__notes__", ()))
    frames = [
        summary
        for summary, (frame, _) in zip(
            traceback.extract_tb(error.__traceback__), traceback.walk_tb(error.__traceback__), strict=True
        )
        if not frame.f_globals.get("__name__", "").startswith(_PACKAGE)
    ]
    hint = ""
    if isinstance(error, TypeError) and task is not None and not task.has_event_time:
        hint = "; its elements have no time stamps: if it needs them, name their column: stream(df, timestamp=…)"
    if isinstance(error, ModuleNotFoundError):
        hint = (
            f"; a worker does not find {error.name!r}: import it at the top of the module that uses it, which is sent"
            " along, or give its file to the workers: spark.sparkContext.addPyFile(FILE)"
        )
    return FunctionFailed(
        f"{where}: the function failed with {cause_text(error)}",
        details=(f"  {line}" for line in "".join(traceback.format_list(frames)).splitlines()),
        advice=f"correct it, and run it again: this attempt has left no trace{hint}",
    )


def _idle(manifest: Manifest) -> SlotMetrics:
    """Return the metrics of a slot that does not run in a batch: its state stays as it is."""
    return SlotMetrics(state_bytes=_state_bytes(manifest), watermark_ms=_watermark_ms(manifest))


def _state_bytes(manifest: Manifest) -> int:
    return manifest.inline_bytes + sum(manifest.files().values())


def _watermark_ms(manifest: Manifest) -> int | None:
    return manifest.watermark if MIN_WATERMARK < manifest.watermark < MAX_WATERMARK else None


def _milliseconds(began_s: float, ended_s: float) -> float:
    return round((ended_s - began_s) * 1000, 3)


def register_all(serializers: Iterable[tuple[type, TypeSerializer[Any]]]) -> None:
    """Register the driver's serializers for classes in this process: a function that is opened here asks for them."""
    for python_type, serializer in serializers:
        if registry.serializer_for(python_type) is not serializer:
            registry.register_serializer(python_type, serializer)


def prepare(settings: Settings, serializers: tuple[tuple[type, TypeSerializer[Any]], ...]) -> None:
    """Prepare a process for functions that ask for serializers.

    Args:
        settings: The settings of the workers.
        serializers: The serializers that were registered for classes.
    """
    settings.begin()
    register_all(serializers)
    _return_memory()


@cache
def _return_memory() -> None:
    """Have the C library return blocks of 1 MiB and more to the system when they are freed.

    By itself glibc soon keeps blocks of up to 32 MiB, and a worker of a large batch would hold a third more.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 1 << 20)


def _parts(blobs: Iterable[Blob], highest: list[int | None]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of blobs, with the number of their input; note the largest time stamp of each input.

    The order in which blobs arrive is by chance. They come in that of the tasks that packed them, unless they are more
    than should be held.
    """
    for some in in_batches(blobs, lambda blob: len(blob.rows), HELD_BYTES):
        for blob in sorted(some, key=lambda one: one.origin):
            if blob.highest_ms is not None:
                known = highest[blob.index]
                highest[blob.index] = blob.highest_ms if known is None else max(known, blob.highest_ms)
            for rows in unpacked(blob.rows):
                yield blob.index, rows


def _together(parts: Iterable[tuple[int, pa.RecordBatch]]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Join the rows of successive parts: in larger parts more rows of a key come together."""
    for index, of_input in groupby(parts, key=lambda part: part[0]):
        held: list[pa.RecordBatch] = []
        size = 0
        for _, rows in of_input:
            if held and size + rows.nbytes > _GROUPED_BYTES:
                yield index, pa.concat_batches(held)
                held, size = [], 0
            held.append(rows)
            size += rows.nbytes
        yield index, pa.concat_batches(held)


def _operator_of(base: Savepoint, spec: OperatorSpec) -> StoredOperator | None:
    """Return the stored state of an operator in the base of an epoch; None: it has none there."""
    found = next((one for one in base.operators if spec.uid in {one.uid, one.operator_id}), None)
    return None if found is None else StoredOperator.of(base, found.operator_id)
