"""A slot: one subtask of an operator, which lives from batch to batch as long as its process and its state last.

    task = SlotTask(spec, slot, directory)
    task.resume(manifest)                    or task.begin_epoch(base): from what was stored
    task.process(batches, now_ms)            elements, watermarks, due timers
    manifest = task.checkpoint(batch)        its files are in the state directory; the engine commits the manifest

Source: notes on Spark, sections 2.1 and 2.3.
"""

from __future__ import annotations

import pickle
import uuid
from contextlib import contextmanager
from heapq import merge
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from ...serializers.errors import StateShiftError, shown
from ..backends.heap.backend import HashMapStateBackend
from ..directory.manifest import MANIFESTS, Manifest, Obsolete
from ..formats.flink.redistribution import Share
from ..publication.commit import Commit
from ..runtime.metrics import MetricReporter
from ..runtime.operators import NO_ELEMENT
from ..runtime.output_tag import OutputTag
from ..runtime.runtime_context import TaskInfo
from ..runtime.timer_service import MAX_WATERMARK, MIN_WATERMARK
from ..task.subtask import FunctionSubtask, stored_subtasks
from .failures import FAIL, FailedElement, as_json, error_text, may_be_passed_over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ...serializers.serializer import TypeSerializer
    from ..backends.keyed_backend import KeyedStateBackend
    from ..runtime.metrics import Figure
    from ..runtime.operators import KeyRun
    from ..runtime.output_tag import Output
    from ..runtime.runtime_context import RuntimeContext
    from ..storage.files import Folder
    from ..task.subtask import BackendFactory, StoredOperator
    from .failures import ErrorPolicy

Origin: TypeAlias = tuple[int | None, int, Any, Any]
"""Time stamp, number of the input, key and element."""

MIGRATED_PER_BATCH = 10_000
"""How many entries that nothing touches a slot migrates at the end of a batch, where states are migrated lazily."""


@attrs.frozen
class InputSpec:
    """One input of an operator.

    Attributes:
        delay_ms: How far event time stays behind the largest time stamp; None: the elements have none.
        idle_ms: After how long without rows the input no longer holds event time back; None: never.
        has_keys: Whether its elements have keys; those of a broadcast input have none.
    """

    delay_ms: int | None = None
    idle_ms: int | None = None
    has_keys: bool = True


@attrs.frozen
class OperatorSpec:
    """An operator of a streaming query, as its tasks get it.

    Attributes:
        uid: The uid.
        function: The function, or a `WindowOperation`, pickled: each slot has its own, as each subtask has in Flink.
        key: The serializer of the keys; None: the operator is not keyed.
        inputs: Its inputs.
        backend: Creates the keyed backends.
        in_order: Whether the elements of a batch are processed in the order of their time stamps.
        on_error: What becomes of elements that cannot be processed.
        is_timed: Whether results come as pairs, with their time stamps.
    """

    uid: str
    function: bytes = attrs.field(repr=False)
    key: TypeSerializer[Any] | None
    inputs: tuple[InputSpec, ...]
    backend: BackendFactory
    in_order: bool = True
    on_error: ErrorPolicy = FAIL
    is_timed: bool = False

    @property
    def tolerates(self) -> bool:
        """Whether the operator goes on when an element cannot be processed."""
        return self.on_error != FAIL


@attrs.frozen
class Elements:
    """The elements of a batch for a slot, of one input.

    Attributes:
        index: The number of the input.
        keys: Their keys; None: the input has no keys, or there are `runs`.
        values: The elements.
        timestamps: Their time stamps in milliseconds; None: they have none.
        runs: The keys in their order, where the elements of each come together; None: they do not.
    """

    index: int
    keys: Sequence[Any] | None
    values: Sequence[Any]
    timestamps: Sequence[int | None] | None = None
    runs: Sequence[KeyRun] | None = None

    def __iter__(self) -> Iterator[Origin]:
        """Yield time stamp, input, key and value of each element."""
        count = len(self.values)
        times = repeat(None, count) if self.timestamps is None else self.timestamps
        keys: Iterable[Any] = repeat(None, count) if self.keys is None else self.keys
        if self.runs is not None:
            keys = chain.from_iterable(repeat(key, of_key) for key, _, _, of_key in self.runs)
        return zip(times, repeat(self.index, count), keys, self.values, strict=True)

    def timed_values(self) -> Iterator[tuple[Any, int | None]]:
        """Yield the elements with their time stamps."""
        times = repeat(None, len(self.values)) if self.timestamps is None else self.timestamps
        return zip(self.values, times, strict=True)


class SlotTask(FunctionSubtask):
    """One slot of an operator.

    Args:
        spec: The operator.
        slot: The number of the slot.
        slots: The number of slots: the parallelism of the operator.
        max_parallelism: The number of key groups.
        function: The function; by default the pickled one.
        lazy: The states that are migrated lazily, each with its present table.

    Attributes:
        results: The results of the main output since the last `take`.
        side_results: Those of side outputs, with their tags.
        origins: What each result of the main output is of: time stamp, input, key and element; a timer has a key only.
        side_origins: The same of side outputs.
        late: How many elements of the last batch were late.
        errors: How many errors were passed over since the last call of `measured`.
    """

    def __init__(
        self,
        spec: OperatorSpec,
        slot: int,
        slots: int,
        max_parallelism: int,
        *,
        function: Any = None,
        lazy: Mapping[str, str] | None = None,
    ) -> None:
        self._spec, self._lazy = spec, lazy or {}
        self._row: Origin | None = None
        self._input = 0
        self._inputs = len(spec.inputs)
        self._now_ms = 0
        self._last: Manifest | None = None
        self._own = False
        self._active_ms = [0] * len(spec.inputs)
        self.results: list[Any] = []
        self.side_results: list[tuple[OutputTag, Any]] = []
        self.origins: list[Origin] = []
        self.side_origins: list[Origin] = []
        self.late = self.errors = 0
        self._timers_before = 0
        self._reporter: MetricReporter | None = None
        self._write: Callable[[], None] | None = None
        self._most_results = 0
        self._reached_before = MIN_WATERMARK
        super().__init__(
            function or pickle.loads(spec.function),  # noqa: S301 - pickled by the driver of the query
            spec.key,
            backend=spec.backend,
            task=TaskInfo(index=slot, parallelism=slots, max_parallelism=max_parallelism, name=spec.uid),
            uid=spec.uid,
        )

    def current_processing_time(self) -> int:
        return self._now_ms

    @property
    def key(self) -> TypeSerializer[Any] | None:
        """The serializer of the keys in the state: the declared one, or what it became by a restore."""
        return None if self._backend is None else self._backend.key

    def _seen(self, backend: KeyedStateBackend) -> KeyedStateBackend:
        # Else a wrong value would be found when the batch is written, and end the query with any policy.
        if self._spec.tolerates and isinstance(backend, HashMapStateBackend):
            backend.checks_values = True
        return backend

    def _create(self, context: RuntimeContext, backend: KeyedStateBackend | None, output: Output) -> None:
        super()._create(context, backend, output)
        if self._spec.tolerates:
            self._running.failed = self.pass_over

    @property
    def tolerates(self) -> bool:
        """Whether it goes on when an element cannot be processed."""
        return self._spec.tolerates

    def pass_over(self, error: Exception, origin: Origin | None = None) -> None:
        """Go on after an error, as the operator's policy says; what the function did before the error stays done.

        Args:
            error: The error, which is raised if it is not one of an element.
            origin: What it was raised at; by default what is being processed.
        """
        if not may_be_passed_over(error):
            raise error
        self.errors += 1
        if isinstance(self._spec.on_error, OutputTag):
            _, index, key, element = origin or self._origin()
            failed = FailedElement(
                None if index < 0 else as_json(element), None if key is None else as_json(key), error_text(error)
            )
            self._collect_side(self._spec.on_error, failed, None)

    def write_results(self, write: Callable[[], None] | None, most: int = 0) -> None:
        """Set the receiver of results when there are many, also while one element is processed.

        Args:
            write: Called to `take` them; None: they wait.
            most: How many results of an output are many.
        """
        self._write, self._most_results = write, most

    def _collect(self, value: Any, timestamp: int | None) -> None:
        self.results.append((value, timestamp) if self._spec.is_timed else value)
        self.origins.append(self._origin())
        if len(self.results) == self._most_results and self._write is not None:
            self._write()

    def _collect_side(self, tag: OutputTag, value: Any, timestamp: int | None) -> None:
        self.side_results.append((tag, (value, timestamp) if self._spec.is_timed else value))
        self.side_origins.append(self._origin())
        if len(self.side_results) == self._most_results and self._write is not None:
            self._write()

    def _origin(self) -> Origin:
        """Return input and element that are being processed; the input of a timer is -1."""
        if self._row is not None:
            return self._row
        key, element = None if self._backend is None else self._backend.current_key, self._running.element
        return (None, -1, key, None) if element is NO_ELEMENT else (None, self._input, key, element)

    # Start

    def resume(self, manifest: Manifest, stored: StoredOperator, now_ms: int) -> None:
        """Go on from this slot's own state after a batch, as when its process has died.

        Args:
            manifest: The manifest of the batch.
            stored: Its operator, in the state directory.
            now_ms: The time of the batch.
        """
        self._now_ms = now_ms
        self._own = True
        self._begin((stored,), lazy=self._lazy)
        self.open()
        self._last = manifest
        self._active_ms = list(manifest.active_ms)
        self._running.resume_event_time(manifest.watermarks, manifest.watermark)

    def begin_epoch(self, base: StoredOperator | None, now_ms: int) -> None:
        """Start from the base of an epoch, of which this slot gets its key groups and its share; None: from nothing."""
        self._now_ms = now_ms
        self._own = False
        self._active_ms = [now_ms] * len(self._active_ms)
        self._begin(() if base is None else (base,), lazy=self._lazy)
        self.open()

    def _shares(self, snapshots: Sequence[StoredOperator], part: str) -> Iterator[tuple[StoredOperator, list[Share]]]:
        """Yield the shares of operator state: all of this slot's own, or at a start those assigned to it."""
        if not self._own:
            yield from super()._shares(snapshots, part)
            return
        for snapshot in snapshots:
            (subtask,) = snapshot.stored.subtasks
            if (handle := getattr(subtask, part)) is not None:
                yield snapshot, [Share.whole(handle)]

    # One batch

    def process(
        self,
        batch: Iterable[Elements],
        highest: Sequence[int | None],
        now_ms: int,
        in_order: Sequence[Iterable[Elements]] = (),
        *,
        drains: bool = False,
    ) -> None:
        """Process the elements of a batch, then the timers that are due at its end.

        Args:
            batch: The elements that come in any order.
            highest: The largest time stamp of each input in all slots; None: the input has no rows in this batch. It is
                read when all elements have been.
            now_ms: The time of the batch: the processing time, the same if it is repeated.
            in_order: Sequences of elements that are to be processed in the order of their time stamps, and have it.
            drains: Whether event time ends after it, which fires all timers of event time and all windows.
        """
        self._reached_before = self._running.times.watermark
        self.process_part(batch, now_ms, in_order)
        with self._located():
            self._finish_batch(highest)
            if drains:
                self._drain()

    def process_part(self, batch: Iterable[Elements], now_ms: int, in_order: Sequence[Iterable[Elements]] = ()) -> None:
        """Process some of the elements of a batch; event time moves with them alone. Arguments as of `process`."""
        self._now_ms = now_ms
        self._row = None
        with self._located():
            self._unordered(batch)
            self._in_order(in_order)
        self._row = None

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Add to an error what was processed when it was raised."""
        try:
            yield
        except StateShiftError as error:
            _, index, key, element = self._origin()
            places = {"operator": self._spec.uid, "element": None if index < 0 else shown(element)}
            places |= {} if self._backend is None else {"key": shown(key)}
            for name, value in places.items():
                if value is not None:
                    error.where.setdefault(name, value)
            raise
        except Exception as error:
            error.add_note(self._whereabouts())
            raise

    def _unordered(self, batch: Iterable[Elements]) -> None:
        process, set_key = self._running.process_element, self._key_setter()
        for elements in self._counted(batch):
            if elements.runs is not None and self._backend is not None:
                self._row, self._input = None, elements.index
                self._running.process_runs(self._backend, elements.runs, elements.timed_values(), elements.index)
                continue
            for row in elements:
                timestamp, index, key, value = self._row = row
                set_key(index, key)
                process(value, timestamp, index)

    def _key_setter(self) -> Callable[[int, Any], None]:
        """Return a function that makes the key of an element of an input the current one."""
        backend = self._backend
        if backend is None:
            return lambda _, __: None
        has_keys = [spec.has_keys for spec in self._spec.inputs]
        return lambda index, key: backend.set_current_key(key) if has_keys[index] else backend.unset_current_key()

    def _in_order(self, sequences: Sequence[Iterable[Elements]]) -> None:
        process, watermark = self._running.process_element, self._running.process_watermark
        set_key = self._key_setter()
        rows = merge(*(chain.from_iterable(self._counted(one)) for one in sequences), key=_time_of)
        delays, reached = [spec.delay_ms for spec in self._spec.inputs], [MIN_WATERMARK] * len(self._spec.inputs)
        for row in rows:
            timestamp, index, key, value = row
            delay = delays[index]
            if timestamp is not None and delay is not None and timestamp - delay - 1 > reached[index]:
                # Whatever the batch ends with, no earlier element follows: so results do not depend on where it ends.
                reached[index] = timestamp - delay - 1
                self._row = None
                watermark(reached[index], index)
            self._row = row
            set_key(index, key)
            process(value, timestamp, index)

    def _counted(self, batch: Iterable[Elements]) -> Iterator[Elements]:
        """Yield the same elements, and count the late ones: those behind the event time of earlier batches."""
        reached = self._reached_before
        for elements in batch:
            if reached > MIN_WATERMARK and elements.timestamps is not None:
                self.late += sum(time is not None and time <= reached for time in elements.timestamps)
            yield elements

    def _whereabouts(self) -> str:
        """Return what was processed when an error was raised."""
        _, index, key, element = self._origin()
        at = "a timer or the end of a batch" if index < 0 else f"the element {shown(element)}"
        of_key = "" if self._backend is None else f", key {shown(key)}"
        return f"in operator {self._spec.uid!r}{of_key}, at {at}"

    def _finish_batch(self, highest: Sequence[int | None]) -> None:
        running = self._running
        for index, (spec, found) in enumerate(zip(self._spec.inputs, highest, strict=True)):
            if found is not None:
                self._active_ms[index] = self._now_ms
                if spec.delay_ms is not None:
                    running.process_watermark(found - spec.delay_ms - 1, index)
        for index in self._idle():
            others = [mark for other, mark in enumerate(running.watermarks) if other != index]
            if others:
                running.process_watermark(min(others), index)
        running.process_time()

    def _drain(self) -> None:
        """Fire what is left with the last watermark; then event time is again what it was, as for a later restore."""
        running = self._running
        before = running.watermarks, running.times.watermark
        for index in range(len(running.watermarks)):
            running.process_watermark(MAX_WATERMARK, index)
        running.resume_event_time(*before)

    @property
    def watermarks(self) -> tuple[int, ...]:
        """The event time of each input in milliseconds."""
        return self._running.watermarks

    def _idle(self) -> list[int]:
        """Return the idle inputs, which do not hold event time back."""
        return [
            index
            for index, spec in enumerate(self._spec.inputs)
            if spec.idle_ms is not None and self._now_ms - self._active_ms[index] >= spec.idle_ms
        ]

    @property
    def wake_ms(self) -> int | None:
        """When the next timer of processing time is due, or an input becomes idle; None: never."""
        timer = self.next_processing_time()
        inputs = list(zip(self._spec.inputs, self._active_ms, strict=True))
        silent = [active + spec.idle_ms for spec, active in inputs if spec.idle_ms is not None and len(inputs) > 1]
        times = [time for time in silent if time > self._now_ms]
        return min(times if timer is None else [timer, *times], default=None)

    def measured(self) -> tuple[int, int, int, tuple[Figure, ...]]:
        """Return how many elements were late, timers fired and errors passed over, and the function's metrics.

        All are of the interval since the last call.
        """
        running = self._running
        if self._reporter is None:
            self._reporter = MetricReporter(running.runtime_context.get_metrics_group())
        late, timers, errors = self.late, running.fired_timers - self._timers_before, self.errors
        self.late, self.errors, self._timers_before = 0, 0, running.fired_timers
        return late, timers, errors, tuple(self._reporter.report())

    def take(self) -> tuple[list[Any], list[tuple[OutputTag, Any]]]:
        """Return the results since the last call, and forget them and their origins."""
        taken = self.results, self.side_results
        self.results, self.side_results, self.origins, self.side_origins = [], [], [], []
        return taken

    @property
    def has_event_time(self) -> bool:
        """Whether some of its inputs have time stamps."""
        return any(spec.delay_ms is not None for spec in self._spec.inputs)

    # Its end

    def checkpoint(
        self, batch: int, *, directory: str, epoch: int, run: int, folder: Folder, shared: Folder
    ) -> Manifest:
        """Write the state after a batch, and return its manifest, which is to be committed with the batch.

        Args:
            batch: The number of the batch.
            directory: The id of the state directory.
            epoch: The epoch of the query.
            run: The number of its start.
            folder: The folder for files of this batch alone.
            shared: The folder for files that several batches need.
        """
        if self._check is not None and self._check.layouts:
            self._backend.migrate_some(MIGRATED_PER_BATCH)
        attempt = uuid.uuid4().hex
        commit = Commit(folder, attempt)
        written = self.write(batch + 1, commit, is_checkpoint=True, shared=shared)
        stored = stored_subtasks([self], [written])
        manifest = Manifest(
            directory,
            epoch,
            run,
            batch,
            self.task.index,
            attempt,
            self.last_attempt,
            self._running.times.watermark,
            self._running.watermarks,
            tuple(self._active_ms),
            stored,
            wake_ms=self.wake_ms,
            digests=commit.digests,
        )
        if self._last is not None:
            needed = set(manifest.files())
            gone = sorted(name for name in self._last.files() if name not in needed)
            obsolete = Obsolete(batch, (*gone, f"{MANIFESTS}/{self._last.name}"))
            manifest = attrs.evolve(manifest, obsolete=(*self._last.obsolete, obsolete))
        return manifest

    def keep(self, manifest: Manifest) -> None:
        """Note the manifest of the last checkpoint as it was stored."""
        self._last = manifest

    @property
    def files(self) -> dict[str, int]:
        """The sizes of the files of the last manifest, by their names."""
        return {} if self._last is None else self._last.files()

    @property
    def last_attempt(self) -> str:
        """The id of the attempt of the last manifest; "": there is none."""
        return "" if self._last is None else self._last.attempt

    def committed(self) -> None:
        """Notify function and backend that the batch of the last checkpoint was committed."""
        if self._last is not None:
            self.notify_checkpoint_complete(self._last.batch + 1)


def _time_of(row: Origin) -> int:
    timestamp = row[0]
    return MIN_WATERMARK if timestamp is None else timestamp
