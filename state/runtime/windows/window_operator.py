"""The window operator: it calls the assigner, the trigger and the function of windows, for one subtask.

Where the operator goes on after an error of the function, the window does what it would do if there were no result, and
an element that could not be added is not in it. Errors of assigners and triggers, and of functions that merge windows,
are raised: they leave windows and timers half changed.

Source: Flink's documentation, "Windows"; the states are described in `windowed_stream`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....serializers.errors import DeclarationError
from ...timers import WINDOW_TIMERS, TimeDomain
from ..operators import StreamOperator
from ..timer_service import MAX_WATERMARK
from .assigners import MergingWindowAssigner
from .contexts import (
    NoWindowStateStore,
    OnMergeContext,
    WindowAssignerContext,
    WindowStateStore,
)
from .functions import ProcessWindowFunction

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from ...backends.keyed_backend import KeyedStateBackend
    from ..output_tag import Output
    from ..runtime_context import RuntimeContext
    from ..states import ListState
    from ..timer_service import InternalTimerService, Times
    from .triggers import TriggerResult
    from .windowed_stream import WindowOperation

    OnMerge = Callable[[Any, list[Any], Any, list[Any]], None]
    """Called with the new window, the windows that became it, and where the contents of both lie."""

LATE_METRIC = "numLateRecordsDropped"


class WindowOperator(StreamOperator):
    """Puts elements into windows, and calls the function of a window when its trigger fires.

    Args:
        operation: What the program declares.
        runtime_context: As for `StreamOperator`.
        backend: As for `StreamOperator`.
        output: As for `StreamOperator`.
        times: As for `StreamOperator`.

    Raises:
        DeclarationError: The stream is not keyed.
    """

    def __init__(
        self,
        operation: WindowOperation,
        runtime_context: RuntimeContext,
        backend: KeyedStateBackend | None,
        output: Output,
        times: Times,
    ) -> None:
        super().__init__(runtime_context, backend, output, times)
        assigner = operation.assigner
        serializer = assigner.get_window_serializer()
        timers = self.timer_service(WINDOW_TIMERS, serializer, self._on_timer)
        if backend is None or timers is None:
            raise DeclarationError("windows need a keyed stream", advice="key the stream, and name the key type")
        self._operation, self._assigner, self._trigger = operation, assigner, operation.trigger
        self._is_event_time = assigner.is_event_time()
        self._domain = TimeDomain.EVENT_TIME if self._is_event_time else TimeDomain.PROCESSING_TIME
        self._timers: InternalTimerService = timers
        self._merges = isinstance(assigner, MergingWindowAssigner)
        states = WindowStateStore(backend, times.clock, serializer)
        self._assigning = WindowAssignerContext(times, runtime_context)
        self._triggering = OnMergeContext(times, timers, states, runtime_context)
        self._processing: ProcessWindowFunction.Context[Any] = ProcessWindowFunction.Context(
            times, NoWindowStateStore(backend) if self._merges else states, runtime_context
        )
        self._dropped = runtime_context.get_metrics_group().counter(LATE_METRIC)
        handles: list[Any] = [backend.get_or_create_keyed_state(descriptor) for descriptor in operation.states]
        self._contents, self._merging_set = handles[0], handles[-1]

    def open(self) -> None:
        """Open the function; it has no key."""
        self._operation.open(self.runtime_context)

    def close(self) -> None:
        """Close the function."""
        self._operation.close()

    def process_element(self, value: Any, timestamp: int | None = None, _: int = 0) -> None:
        """Put an element into its windows; its key is the current one of the backend.

        Args:
            value: The element.
            timestamp: Its time stamp in milliseconds since 1970 UTC; None: it has none.

        Raises:
            ValueNotConvertible: It has no time stamp, but the windows are those of event time.
        """
        windows = self._assigner.assign_windows(value, timestamp, self._assigning)
        merging = MergingWindows(self._assigner, self._merging_set) if self._merges else None
        is_in_time = False
        for assigned in windows:
            window = assigned if merging is None else merging.add(assigned, self._on_merge)
            if self._is_late(window):
                if merging is not None:
                    merging.retire(window)
                continue
            is_in_time = True
            self._contents.set_current_namespace(window if merging is None else merging.place_of(window))
            if self._added(value):
                self._triggering.window = window
                self._follow(self._trigger.on_element(value, timestamp, window, self._triggering), window)
            if (end := self._end(window)) < MAX_WATERMARK:  # else it never ends
                self._timers.register(self._domain, end, window)
        if merging is not None:
            merging.persist()
        if not is_in_time and self._is_event_time and timestamp is not None:
            self._refuse_late(value, timestamp)
        for cleaner in self.runtime_context.cleaners:
            cleaner.step()

    def _added(self, value: Any) -> bool:
        """Add an element to the contents that have the current namespace; return whether it is there."""
        try:
            self._contents.add(value)
        except Exception as error:  # noqa: BLE001 - of the function
            self.failed(error)
            return False
        return True

    def _refuse_late(self, value: Any, timestamp: int) -> None:
        if timestamp + self._operation.lateness_ms > self.times.watermark:
            return  # it is not late: the assigner has no window for it
        if self._operation.late_data is None:
            self._dropped.inc()
        else:
            self.output.collect_side(self._operation.late_data, value, timestamp)

    def _on_timer(self, domain: TimeDomain, timestamp: int, window: Any) -> None:
        merging = MergingWindows(self._assigner, self._merging_set) if self._merges else None
        place = window if merging is None else merging.place_of(window)
        if place is None:
            return  # the trigger left a timer of a window that is gone
        is_event = domain is TimeDomain.EVENT_TIME
        step = self._trigger.on_event_time if is_event else self._trigger.on_processing_time
        self._contents.set_current_namespace(place)
        self._triggering.window = window
        self._follow(step(timestamp, window, self._triggering), window)
        if domain is self._domain and timestamp == self._end(window):
            self._clear(window)
            if merging is not None:
                merging.retire(window)
        if merging is not None:
            merging.persist()

    def _follow(self, result: TriggerResult, window: Any) -> None:
        """Do what a trigger decided, with the contents that have the current namespace."""
        if result.is_fire():
            try:
                contents = self._contents.get()
                elements = contents if self._operation.keeps_elements else [] if contents is None else [contents]
                if elements:
                    self.output.emit(self._results(window, elements), window.max_timestamp())
            except Exception as error:  # noqa: BLE001 - of the function
                self.failed(error)
        if result.is_purge():
            self._contents.clear()

    def _results(self, window: Any, elements: list[Any]) -> Iterable[Any] | None:
        function = self._operation.function
        if function is None:
            return elements
        key = self.backend.current_key  # type: ignore[union-attr]  # keyed
        if isinstance(function, ProcessWindowFunction):
            self._processing.current_window = window
            return function.process(key, self._processing, elements)
        return function.apply(key, window, elements)

    def _clear(self, window: Any) -> None:
        """Remove all state of a window, whose contents have the current namespace."""
        self._contents.clear()
        self._triggering.window = window
        self._trigger.clear(window, self._triggering)
        if isinstance(self._operation.function, ProcessWindowFunction):
            self._processing.current_window = window
            try:
                self._operation.function.clear(self._processing)
            except Exception as error:  # noqa: BLE001 - of the function
                self.failed(error)

    def _on_merge(self, window: Any, merged: list[Any], place: Any, places: list[Any]) -> None:
        if self._is_late(window) or (not self._is_event_time and window.max_timestamp() <= self.times.clock()):
            raise DeclarationError(
                f"{type(self._assigner).__name__} merged {len(merged)} windows into {window}, which is over",
                advice="merge windows only into one that ends later",
            )
        context = self._triggering
        context.window, context.merged = window, merged
        self._trigger.on_merge(window, context)
        for gone in merged:
            context.window = gone
            self._trigger.clear(gone, context)
            self._timers.delete(self._domain, self._end(gone), gone)
        self._contents.merge_namespaces(place, places)

    def _end(self, window: Any) -> int:
        """Return the time at which a window is removed."""
        lateness = self._operation.lateness_ms if self._is_event_time else 0
        last: int = window.max_timestamp()
        return min(last + lateness, MAX_WATERMARK)

    def _is_late(self, window: Any) -> bool:
        return self._is_event_time and self._end(window) <= self.times.watermark


class MergingWindows:
    """The windows of the current key that may merge, and under which window the contents of each lie.

    That stays the window which was there first, so that a session that grows need not be written again.

    Args:
        assigner: Decides what merges.
        state: Keeps the pairs of windows.
    """

    def __init__(self, assigner: Any, state: ListState[tuple[Any, Any]]) -> None:
        self._assigner: MergingWindowAssigner[Any, Any] = assigner
        self._state = state
        self._places: dict[Any, Any] = dict(state.get())
        self._stored = dict(self._places)

    def place_of(self, window: Any) -> Any:
        """Return the window under which the contents of a window lie; None where there is no such window."""
        return self._places.get(window)

    def retire(self, window: Any) -> None:
        """Forget a window."""
        del self._places[window]

    def persist(self) -> None:
        """Write the pairs, if they changed."""
        if self._places != self._stored:
            self._state.update(list(self._places.items()))

    def add(self, new: Any, on_merge: OnMerge) -> Any:
        """Add a window, and return the one that it became.

        Args:
            new: The window.
            on_merge: Called for windows that were there and became one with others or with the new one.
        """
        found = _Merges()
        self._assigner.merge_windows([*self._places, new], found)
        became = new
        for merged, window in found.merges:
            if new in merged:
                became = window
            before = [one for one in merged if one in self._places]
            places = [self._places.pop(one) for one in before]
            self._places[window] = places[0]
            if before != [window]:  # else the new window lies within one that was there
                on_merge(window, before, places[0], places[1:])
        # A window that is there already keeps its place: Flink 2.3 loses the contents if they lie under another window.
        self._places.setdefault(became, became)
        return became


class _Merges(MergingWindowAssigner.MergeCallback):
    """Collects the merges that an assigner finds."""

    def __init__(self) -> None:
        self.merges: list[tuple[Collection[Any], Any]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.merges.append((list(to_be_merged), merge_result))
