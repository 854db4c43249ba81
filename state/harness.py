"""The embedded runner: a function, a backend, elements and times in, results out, in one process and one thread.

It is a test tool, also for notebooks, and no engine; it is as Flink's `KeyedOneInputStreamOperatorTestHarness`.
`stateshift.state.testing` has its names. Source: runtime notes, section 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.errors import DeclarationError
from ..serializers.hints import serializer_for
from .backends.heap.backend import HashMapStateBackend
from .key_groups import key_group_range
from .mutation_guard import MutationGuard
from .runtime.operators import FunctionOperator
from .runtime.output_tag import Output, OutputTag
from .runtime.runtime_context import RuntimeContext, TaskInfo
from .runtime.timer_service import Times
from .savepoint.handles import CANONICAL, InlineHandle, KeyGroupsHandle
from .savepoint.keyed_readers import keyed_reader
from .savepoint.keyed_stream import write_keyed_stream
from .savepoint.sources import InlineBytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from ..serializers.serializer import TypeSerializer
    from .backends.keyed_backend import KeyedStateBackend
    from .runtime.functions import Function

    BackendFactory = Callable[[TypeSerializer[Any], int, range], KeyedStateBackend]
    """Called with the serializer of the keys, the number of key groups, and those of the subtask."""


@attrs.frozen
class HarnessSnapshot:
    """The state of a subtask at one moment.

    Attributes:
        keyed: The keyed stream, in the canonical format, and its handle; None: the operator has no keyed state.
        max_parallelism: The number of key groups.
    """

    keyed: KeyGroupsHandle | None
    max_parallelism: int


class FunctionHarness:
    """Runs one subtask of an operator that calls a function; the base class of the others.

    It opens the function with the first element, watermark or time, or with `open`. As a context manager it closes it.

    Args:
        function: The function.
        selectors: Returns the key of an element, for each input; None for an input without keys.
        key_type: The type hint or serializer of the keys; None: the operator is not keyed.
        backend: Creates the backend.
        task: The subtask.
        detect_mutation: Whether values are looked for that are changed after they were handed to a state.

    Attributes:
        output: The results.
        records: The results with their time stamps; None: it has none.
    """

    def __init__(
        self,
        function: Function,
        selectors: Sequence[Callable[[Any], Any] | None],
        key_type: Any = None,
        *,
        backend: BackendFactory = HashMapStateBackend,
        task: TaskInfo | None = None,
        detect_mutation: bool = False,
    ) -> None:
        self._function, self._selectors = function, selectors
        self._key = None if key_type is None else serializer_for(key_type)
        self._factory = backend
        self._task = task or TaskInfo()
        self._detects_mutation = detect_mutation
        self._now_ms = 0
        self.records: list[tuple[Any, int | None]] = []
        self._side: dict[OutputTag, list[Any]] = {}
        self._is_open = False
        self._begin(())

    def _begin(self, snapshots: Sequence[HarnessSnapshot]) -> None:
        """Create what a start creates: backend, context, operator."""
        task = self._task
        groups = key_group_range(task.index, task.parallelism, task.max_parallelism)
        self._backend: Any = None if self._key is None else self._factory(self._key, task.max_parallelism, groups)
        for snapshot in snapshots:
            if snapshot.keyed is not None and self._backend is not None:
                stream: Any = snapshot.keyed.stream
                self._backend.restore(keyed_reader(InlineBytes(stream.data), snapshot.keyed, snapshot.max_parallelism))
        seen = MutationGuard(self._backend) if self._detects_mutation and self._backend is not None else self._backend
        times = Times(self.current_processing_time)
        context = RuntimeContext(task, seen, self.current_processing_time)
        output = Output(self._collect, self._collect_side)
        self._operator = FunctionOperator(self._function, self._selectors, context, seen, output, times)

    def __enter__(self) -> Any:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Open the function; once it is open, nothing happens."""
        if not self._is_open:
            self._is_open = True
            self._operator.open()

    def close(self) -> None:
        """Close the function, and drop the backend."""
        if self._is_open:
            self._is_open = False
            self._operator.close()
        if self._backend is not None:
            self._backend.dispose()

    @property
    def output(self) -> list[Any]:
        """The results so far."""
        return [value for value, _ in self.records]

    def take(self) -> list[Any]:
        """Return the results since the last call, and forget them; side outputs stay."""
        taken, self.records = self.output, []
        return taken

    def side_output(self, tag: OutputTag) -> list[Any]:
        """Return the results of a side output so far."""
        return self._side.get(tag, [])

    def current_processing_time(self) -> int:
        """Return the time of the clock in milliseconds; it stands still, and begins at 0."""
        return self._now_ms

    def current_watermark(self) -> int:
        """Return the watermark of the operator in milliseconds."""
        return self._operator.times.watermark

    def advance_processing_time(self, now_ms: int) -> None:
        """Turn the clock to a time, and fire the timers that it reaches.

        Raises:
            DeclarationError: The clock would go back.
        """
        if now_ms < self._now_ms:
            raise DeclarationError(f"the clock cannot go back from {self._now_ms} to {now_ms} ms")
        self.open()
        self._now_ms = now_ms
        self._operator.process_time()

    def snapshot(self) -> HarnessSnapshot:
        """Return the state at this moment; the function can go on."""
        self.open()
        return HarnessSnapshot(self._keyed_snapshot(), self._task.max_parallelism)

    def restore(self, *snapshots: HarnessSnapshot, function: Function | None = None) -> None:
        """Start again from the state of one or several subtasks, as after a failure.

        The keyed state outside of the key groups of this subtask is left out. Results, clock and side outputs stay.

        Args:
            snapshots: Those of all former subtasks.
            function: The function to go on with; None: the same object, which is opened again.
        """
        self.close()
        self._function = function or self._function
        self._begin(snapshots)

    def _keyed_snapshot(self) -> KeyGroupsHandle | None:
        if self._backend is None:
            return None
        frozen = self._backend.freeze()
        try:
            data, offsets = write_keyed_stream(frozen.header, self._backend.key_groups, frozen.blocks())
        finally:
            frozen.release()
        return KeyGroupsHandle(CANONICAL, self._backend.key_groups.start, offsets, InlineHandle("harness", data))

    def _process(self, value: Any, timestamp: int | None, index: int) -> None:
        self.open()
        self._operator.process_element(value, timestamp, index)

    def _watermark(self, timestamp: int, index: int) -> None:
        self.open()
        self._operator.process_watermark(timestamp, index)

    def _collect(self, value: Any, timestamp: int | None) -> None:
        self.records.append((value, timestamp))

    def _collect_side(self, tag: OutputTag, value: Any, _: int | None) -> None:
        self._side.setdefault(tag, []).append(value)


class _OneInput(FunctionHarness):
    def process_element(self, value: Any, timestamp: int | None = None) -> None:
        """Process an element.

        Args:
            value: The element.
            timestamp: Its time stamp in milliseconds; None: it has none.
        """
        self._process(value, timestamp, 0)

    def process_elements(self, *values: Any) -> list[Any]:
        """Process elements without time stamps, and return the results since the last `take`."""
        for value in values:
            self._process(value, None, 0)
        return self.take()

    def process_watermark(self, timestamp: int) -> None:
        """Process a watermark: the timers of event time up to this time fire."""
        self._watermark(timestamp, 0)


class ProcessHarness(_OneInput):
    """Runs a function of one input without keys.

    Args:
        function: A `ProcessFunction`, `MapFunction`, `FlatMapFunction` or `FilterFunction`.
        options: As for `FunctionHarness`.
    """

    def __init__(self, function: Function, **options: Any) -> None:
        super().__init__(function, (None,), None, **options)


class KeyedProcessHarness(_OneInput):
    """Runs a function of one keyed input.

    Args:
        function: A `KeyedProcessFunction`; or a `MapFunction`, `FlatMapFunction` or `FilterFunction` with keyed state.
        key_selector: Returns the key of an element.
        key_type: The type hint or serializer of the keys.
        options: As for `FunctionHarness`.
    """

    def __init__(self, function: Function, key_selector: Callable[[Any], Any], key_type: Any, **options: Any) -> None:
        super().__init__(function, (key_selector,), key_type, **options)


class KeyedTwoInputHarness(FunctionHarness):
    """Runs a function of two keyed inputs.

    Args:
        function: A `KeyedCoProcessFunction`; or a `CoMapFunction` or `CoFlatMapFunction` with keyed state.
        key_selector1: Returns the key of an element of the first input.
        key_selector2: Returns the key of an element of the second input.
        key_type: The type hint or serializer of the keys.
        options: As for `FunctionHarness`.
    """

    def __init__(
        self,
        function: Function,
        key_selector1: Callable[[Any], Any] | None,
        key_selector2: Callable[[Any], Any] | None,
        key_type: Any,
        **options: Any,
    ) -> None:
        super().__init__(function, (key_selector1, key_selector2), key_type, **options)

    def process_element1(self, value: Any, timestamp: int | None = None) -> None:
        """Process an element of the first input."""
        self._process(value, timestamp, 0)

    def process_element2(self, value: Any, timestamp: int | None = None) -> None:
        """Process an element of the second input."""
        self._process(value, timestamp, 1)

    def process_watermark1(self, timestamp: int) -> None:
        """Process a watermark of the first input; the operator follows the slower one."""
        self._watermark(timestamp, 0)

    def process_watermark2(self, timestamp: int) -> None:
        """Process a watermark of the second input; the operator follows the slower one."""
        self._watermark(timestamp, 1)
