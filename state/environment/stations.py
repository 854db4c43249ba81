"""The subtasks of a run: of functions, of watermarks and of sources."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Self

import attrs

from ...serializers.errors import DeclarationError, StateShiftError, shown
from ..backends.heap.backend import HashMapStateBackend
from ..runtime.output_tag import CheckedOutput
from ..runtime.sources import SourceContext
from ..runtime.timer_service import MAX_WATERMARK, MIN_WATERMARK, system_clock
from ..runtime.windows.triggers import milliseconds
from ..runtime.windows.windowed_stream import WindowOperation
from ..task.subtask import FunctionSubtask, SourceSubtask, Subtask
from .graph import Partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...compat.description import JobDescription
    from ..backends.keyed_backend import KeyedStateBackend
    from ..migration.options import MigrationOptions
    from ..runtime.output_tag import Output, OutputTag
    from ..runtime.runtime_context import RuntimeContext, TaskInfo
    from ..task.subtask import BackendFactory, StoredOperator
    from .graph import Edge, Transformation

    Collect = Callable[[Any, int | None], None]
    """Takes an element and its time stamp in milliseconds (None: it has none)."""


class Stopped(BaseException):
    """Ends a source whose elements are no longer wanted; no `except Exception` of a source catches it."""


@attrs.define
class Rest:
    """The moments between two elements.

    Attributes:
        beat: Called at such a moment, not more often than once in a millisecond.
        is_enough: Whether no further elements are wanted.
        due: When `beat` is called next, by `time.monotonic`.
    """

    beat: Callable[[], None]
    is_enough: Callable[[], bool]
    due: float = 0.0

    def reached(self) -> None:
        """Take notice of such a moment; raises `Stopped`."""
        if self.due == _NEVER:
            return  # a checkpoint takes the locks of sources, and leaves them
        if time.monotonic() >= self.due:
            self.due = _NEVER
            self.beat()
            self.due = time.monotonic() + _BEAT_S
        if self.is_enough():
            raise Stopped

    def end(self) -> None:
        """Have no such moments any more."""
        self.due = _NEVER


_BEAT_S = 0.001
_NEVER = float("inf")


@attrs.define
class Valve:
    """The watermarks of the channels into a subtask, and what they mean for it.

    Attributes:
        mark: The watermark of the subtask: that of its slowest channel which is not idle.
        is_idle: Whether all channels are idle.
    """

    _marks: list[int] = attrs.field(factory=list, init=False)
    _idle: list[bool] = attrs.field(factory=list, init=False)
    mark: int = attrs.field(default=MIN_WATERMARK, init=False)
    is_idle: bool = attrs.field(default=False, init=False)

    def add(self) -> int:
        """Return the number of a new channel."""
        self._marks.append(MIN_WATERMARK)
        self._idle.append(False)
        return len(self._marks) - 1

    def take(self, channel: int, mark: int | None) -> bool:
        """Take a watermark of a channel, or that it is idle (None); return whether that changes anything."""
        before = self.mark, self.is_idle
        self._idle[channel] = mark is None
        if mark is not None:
            self._marks[channel] = max(self._marks[channel], mark)
        active = [known for known, idle in zip(self._marks, self._idle, strict=True) if not idle]
        self.is_idle = not active
        self.mark = max(self.mark, min(active, default=MIN_WATERMARK))
        return before != (self.mark, self.is_idle)


@attrs.frozen
class Outputs:
    """Where the results of a subtask go.

    Attributes:
        main: Takes those of the main output.
        sides: Take those of side outputs, by tag; what has no taker is dropped.
    """

    main: Collect
    sides: dict[OutputTag, Collect]

    def side(self, tag: OutputTag, value: Any, timestamp: int | None) -> None:
        """Take a result of a side output."""
        collect = self.sides.get(tag)
        if collect is not None:
            collect(value, timestamp)


class Station(ABC):
    """What a subtask of any transformation has: where its watermarks come from and go to.

    Attributes:
        valve: The watermarks that come in.
        following: The stations that its watermarks go to, each with the number of the channel there.
    """

    def __init__(self) -> None:
        self.valve = Valve()
        self.following: list[tuple[Station, int]] = []

    def take_mark(self, channel: int, mark: int | None) -> None:
        """Take a watermark in milliseconds, or that a channel is idle (None)."""
        if self.valve.take(channel, mark):
            if not self.valve.is_idle:
                self._advance(self.valve.mark)
            self.hand_on(None if self.valve.is_idle else self.valve.mark)

    def hand_on(self, mark: int | None) -> None:
        """Hand a watermark on to all stations that follow; None: nothing is to be expected for now."""
        for station, channel in self.following:
            station.take_mark(channel, mark)

    def _advance(self, mark: int) -> None:  # noqa: B027 - most have nothing that follows event time
        """Follow a watermark, before it is handed on."""

    @abstractmethod
    def begin(self, outputs: Outputs, stored: Sequence[StoredOperator], options: MigrationOptions) -> None:
        """Open the function, from its stored state if there is some; raises `RestoreRefused`."""

    @abstractmethod
    def push(self, index: int, edge: Edge) -> Collect:
        """Return what takes the elements of an edge into an input; it is called after `begin`."""

    @abstractmethod
    def close(self) -> None:
        """Close the function."""


class WatermarkTask(Station):
    """A subtask that gives elements their time stamps, and makes watermarks of them.

    Args:
        strategy: The `WatermarkStrategy`.
        title: What errors call the transformation.
    """

    def __init__(self, strategy: Any, title: str) -> None:
        super().__init__()
        self._title, delay, idle = title, strategy.max_out_of_orderness, strategy.idle_timeout
        self._delay_ms = None if delay is None else milliseconds(delay)
        self._idle_ms = None if idle is None else milliseconds(idle)
        self._assigner = deepcopy(strategy.timestamp_assigner)
        self._largest = self._told = MIN_WATERMARK
        self._count = self._known = 0
        self._active_ms = system_clock()
        self._is_idle = False

    def begin(self, outputs: Outputs, stored: Sequence[StoredOperator], options: MigrationOptions) -> None:
        self._collect = outputs.main

    def push(self, index: int, edge: Edge) -> Collect:
        return self._take

    def _take(self, value: Any, timestamp: int | None) -> None:
        if self._assigner is not None:
            try:
                timestamp = self._assigner.extract_timestamp(value, MIN_WATERMARK if timestamp is None else timestamp)
                if not isinstance(timestamp, int):
                    raise DeclarationError(
                        f"{shown(timestamp)} is no time stamp", advice="return whole milliseconds since 1970 UTC"
                    )
            except Exception as error:
                locate(error, self._title, value)
                raise
        if timestamp is not None:
            self._largest = max(self._largest, timestamp)
        self._count += 1
        self._collect(value, timestamp)

    def take_mark(self, channel: int, mark: int | None) -> None:
        """Take the end of the input; watermarks from before are replaced by those made here."""
        if self.valve.take(channel, mark) and self.valve.mark == MAX_WATERMARK:
            self.hand_on(MAX_WATERMARK)

    def make_mark(self, now_ms: int) -> None:
        """Make a watermark of the elements so far."""
        if self._count > self._known:
            was_idle, self._is_idle = self._is_idle, False
            self._known, self._active_ms = self._count, now_ms
            mark = self._told
            if self._delay_ms is not None and self._largest > MIN_WATERMARK:
                mark = max(mark, self._largest - self._delay_ms - 1)
            if mark > self._told or was_idle:
                self._told = mark
                self.hand_on(mark)
        elif self._idle_ms is not None and not self._is_idle and now_ms - self._active_ms >= self._idle_ms:
            self._is_idle = True
            self.hand_on(None)

    def close(self) -> None:
        pass


class _Task(Subtask, Station):
    """What a subtask with a function has as a station."""

    _outputs: Outputs

    def begin(self, outputs: Outputs, stored: Sequence[StoredOperator], options: MigrationOptions) -> None:
        self._outputs = outputs
        self._begin(stored, options)
        try:
            self.open()
        except BaseException:
            self._is_open = False  # it was not opened, so it is not closed
            raise

    @property
    def declared(self) -> JobDescription | None:
        """The operator as its function declared it, where it was restored."""
        return None if self._check is None else self._check.job

    def current_processing_time(self) -> int:
        return system_clock()


class FunctionTask(_Task, FunctionSubtask):
    """A subtask that calls a function.

    Args:
        transformation: What it is a subtask of.
        backend: Creates the keyed backend.
        task: The subtask.
    """

    def __init__(self, transformation: Transformation, backend: BackendFactory, task: TaskInfo, uid: str) -> None:
        Station.__init__(self)
        self._inputs, self._keeps_any = len(transformation.inputs), transformation.keeps_any
        self._title = transformation.title
        function, key_type = _own(transformation.body), transformation.key_type
        super().__init__(function, key_type, backend=backend, task=task, uid=uid)

    @property
    def function(self) -> Any:
        """The function."""
        return self._stateful

    def _seen(self, backend: KeyedStateBackend) -> KeyedStateBackend:
        if isinstance(backend, HashMapStateBackend):
            backend.checks_values = not self._keeps_any  # a wrong value is found where it is handed over
        return backend

    def _create(self, context: RuntimeContext, backend: KeyedStateBackend | None, output: Output) -> None:
        # Results need not pass `_collect`, which would take its time for each.
        super()._create(context, backend, CheckedOutput(self._outputs.main, self._outputs.side))

    def _collect(self, value: Any, timestamp: int | None) -> None:
        self._outputs.main(value, timestamp)

    def _collect_side(self, tag: OutputTag, value: Any, timestamp: int | None) -> None:
        self._outputs.side(tag, value, timestamp)

    def _advance(self, mark: int) -> None:
        with located(self._title):
            for index in range(self._inputs):
                self._watermark(mark, index)

    def fire_due(self, now_ms: int) -> None:
        """Fire the timers of processing time that are due."""
        first = self.next_processing_time()
        if first is not None and first <= now_ms:
            with located(self._title):
                self._running.process_time()

    def push(self, index: int, edge: Edge) -> Collect:
        process, backend, name, selector = self._running.process_element, self._backend, self._title, edge.selector
        if edge.partition is not Partition.KEYED or selector is None:
            unset_key = backend.unset_current_key if backend is not None else None

            def push(value: Any, timestamp: int | None) -> None:
                try:
                    if unset_key is not None:
                        unset_key()
                    process(value, timestamp, index)
                except Exception as error:
                    locate(error, name, value)
                    raise

            return push
        set_key = backend.set_current_key

        def push_keyed(value: Any, timestamp: int | None) -> None:
            try:
                set_key(selector(value))
                process(value, timestamp, index)
            except Exception as error:
                locate(error, name, value)
                raise

        return push_keyed


class Gate(AbstractContextManager["Gate"]):
    """The checkpoint lock of a source. There is one thread, so it is always free; what leaves it reaches a rest.

    Args:
        rest: The moments between elements.
    """

    def __init__(self, rest: Rest) -> None:
        self.rest, self.depth = rest, 0

    def __enter__(self) -> Self:
        self.depth += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.depth -= 1
        if not self.depth and kind is None:
            self.rest.reached()


class LocalSourceContext(SourceContext):
    """What a source emits with.

    Args:
        collect: Takes the elements.
        output: As for `SourceContext`.
        watermark: As for `SourceContext`.
        gate: The lock.
    """

    def __init__(self, collect: Collect, output: Output, watermark: Callable[[int], None], gate: Gate) -> None:
        super().__init__(output, watermark, gate)
        self._collect, self._gate = collect, gate

    def collect(self, element: Any) -> None:
        self._collect(element, None)
        if not self._gate.depth:
            self._gate.rest.reached()

    def collect_with_timestamp(self, element: Any, timestamp: int) -> None:
        self._collect(element, timestamp)
        if not self._gate.depth:
            self._gate.rest.reached()


class SourceTask(_Task, SourceSubtask):
    """The subtask of a source.

    Args:
        transformation: The source.
        rest: The moments between elements.
        marks: Whether its watermarks are handed on before its end.
        task: The subtask.
        uid: The uid.
    """

    lock: Gate

    def __init__(self, transformation: Transformation, rest: Rest, task: TaskInfo, uid: str, *, marks: bool) -> None:
        Station.__init__(self)
        self.lock, self._marks, self._title = Gate(rest), marks, transformation.title
        super().__init__(_own(transformation.body), None, task=task, uid=uid)

    @property
    def function(self) -> Any:
        """The source function."""
        return self._function

    def _create(self, context: RuntimeContext, backend: KeyedStateBackend | None, output: Output) -> None:
        super()._create(context, backend, output)
        self._source_context = LocalSourceContext(self._outputs.main, output, self._watermark, self.lock)

    def _collect(self, value: Any, timestamp: int | None) -> None:
        self._outputs.main(value, timestamp)

    def _collect_side(self, tag: OutputTag, value: Any, timestamp: int | None) -> None:
        self._outputs.side(tag, value, timestamp)

    def _watermark(self, timestamp: int) -> None:
        if self._marks:
            self.hand_on(timestamp)

    def push(self, index: int, edge: Edge) -> Collect:
        raise DeclarationError(f"{self._title} is a source, and takes no elements")

    def read(self) -> None:
        """Emit all elements; raises `Stopped`."""
        with located(self._title):
            self._function.run(self._source_context)


def _own(body: Any) -> Any:
    """Return the function for one subtask: a copy, as each subtask has its own in Flink.

    Raises:
        DeclarationError: It cannot be copied.
    """
    try:
        if isinstance(body, WindowOperation):
            return attrs.evolve(body, function=deepcopy(body.function), trigger=deepcopy(body.trigger))
        return deepcopy(body)
    except Exception as error:
        raise DeclarationError(
            f"{shown(body)} cannot be copied for a subtask: {error}",
            advice="create what cannot be copied, such as connections, in its method open",
        ) from error


def locate(error: Exception, name: str, element: Any) -> None:
    """Add to an error in which operator it was raised, and at which element; the first one who knows does."""
    if isinstance(error, StateShiftError):
        if "operator" not in error.where:
            error.where |= {"operator": name, "element": shown(element)}
    elif not getattr(error, "__notes__", None):
        error.add_note(f"  where: operator {name}, element {shown(element)}")


@contextmanager
def located(name: str) -> Iterator[None]:
    """Add to an error in which operator it was raised."""
    try:
        yield
    except StateShiftError as error:
        error.where.setdefault("operator", name)
        raise
    except Exception as error:
        if not getattr(error, "__notes__", None):
            error.add_note(f"  where: operator {name}")
        raise
