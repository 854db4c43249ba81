"""What assigners, triggers and window functions learn of the window that they are called for, and the state of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import attrs

from ....serializers.errors import DeclarationError, shown
from ...timers import TimeDomain
from ..runtime_context import KeyedStateStore
from ..states import MergingState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ....serializers.serializer import TypeSerializer
    from ...backends.keyed_backend import KeyedStateBackend
    from ..descriptors import StateDescriptor
    from ..metrics import MetricGroup
    from ..runtime_context import RuntimeContext
    from ..states import State
    from ..timer_service import InternalTimerService, Times


W = TypeVar("W")


class WindowStateStore(KeyedStateStore):
    """Returns the handles of states that each window of a key has for itself: their namespace is the window.

    Args:
        backend: Has the states.
        clock: Returns the processing time in milliseconds since 1970 UTC.
        serializer: The serializer of the windows.

    Attributes:
        window: The window that the handles are given for.
    """

    def __init__(self, backend: KeyedStateBackend, clock: Callable[[], int], serializer: TypeSerializer[Any]) -> None:
        super().__init__(backend, clock)
        self._serializer = serializer
        self._found: dict[str, tuple[StateDescriptor, Any]] = {}
        self.window: Any = None

    def partitioned(self, descriptor: StateDescriptor) -> Any:
        """Return the handle of a state of any kind; raises as `get_state`."""
        return self._handle(descriptor)

    def _handle(self, descriptor: Any) -> Any:
        known = self._found.get(descriptor.name)
        if known is None or known[0] is not descriptor:
            handle = super()._handle(attrs.evolve(descriptor, namespace=self._serializer))
            known = self._found[descriptor.name] = (descriptor, handle)
        known[1].set_current_namespace(self.window)
        return known[1]


class NoWindowStateStore(KeyedStateStore):
    """Takes the place of the states of windows where windows merge: such a state would have no window to stay with."""

    def _handle(self, descriptor: Any) -> NoReturn:
        raise DeclarationError(
            f"the state {descriptor.name!r} cannot be kept for each window, because the windows merge",
            advice="use global_state(), as Flink requires for session windows",
        )


class WindowAssignerContext:
    """What an assigner learns.

    Args:
        times: The clock of the operator.
        runtime_context: The context of the operator's function.
    """

    __slots__ = ("_runtime_context", "_times")

    def __init__(self, times: Times, runtime_context: RuntimeContext) -> None:
        self._times, self._runtime_context = times, runtime_context

    def get_current_processing_time(self) -> int:
        """Return the time of the clock, in milliseconds since 1970 UTC."""
        return self._times.clock()

    def get_runtime_context(self) -> RuntimeContext:
        """Return the context of the operator's function."""
        return self._runtime_context


class TriggerContext:
    """What a trigger learns, and where it sets timers and keeps state, for the current key and window.

    Args:
        times: The clock and the watermark of the operator.
        timers: The timers of the windows.
        states: The states of the windows.
        runtime_context: The context of the operator's function.

    Attributes:
        window: The window that the trigger is called for.
        merged: The windows that it was merged of.
    """

    __slots__ = ("_runtime_context", "_states", "_timers", "_times", "merged", "window")

    def __init__(
        self, times: Times, timers: InternalTimerService, states: WindowStateStore, runtime_context: RuntimeContext
    ) -> None:
        self._times, self._timers, self._states = times, timers, states
        self._runtime_context = runtime_context
        self.window: Any = None
        self.merged: Collection[Any] = ()

    def get_current_processing_time(self) -> int:
        """Return the time of the clock, in milliseconds since 1970 UTC."""
        return self._times.clock()

    def get_current_watermark(self) -> int:
        """Return the watermark, in milliseconds since 1970 UTC; before the first one, -2**63."""
        return self._times.watermark

    def get_metric_group(self) -> MetricGroup:
        """Return where the trigger registers its metrics."""
        return self._runtime_context.get_metrics_group()

    def register_processing_time_timer(self, time: int) -> None:
        """Have `on_processing_time` called when the clock reaches a time, in milliseconds since 1970 UTC."""
        self._timers.register(TimeDomain.PROCESSING_TIME, time, self.window)

    def register_event_time_timer(self, time: int) -> None:
        """Have `on_event_time` called when the watermark reaches a time, in milliseconds since 1970 UTC."""
        self._timers.register(TimeDomain.EVENT_TIME, time, self.window)

    def delete_processing_time_timer(self, time: int) -> None:
        """Remove a timer of processing time; there may be none."""
        self._timers.delete(TimeDomain.PROCESSING_TIME, time, self.window)

    def delete_event_time_timer(self, time: int) -> None:
        """Remove a timer of event time; there may be none."""
        self._timers.delete(TimeDomain.EVENT_TIME, time, self.window)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """Return the handle of a state of the window; raises as `KeyedStateStore.get_state`."""
        self._states.window = self.window
        return self._states.partitioned(state_descriptor)


class OnMergeContext(TriggerContext):
    """What a trigger learns when windows were merged."""

    __slots__ = ()

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge a state of the merged windows into that of their window.

        Raises:
            DeclarationError: It is value or map state, which cannot be merged.
        """
        state: State = self.get_partitioned_state(state_descriptor)
        if not isinstance(state, MergingState):
            raise DeclarationError(
                f"{shown(state_descriptor)} cannot be merged", advice="use list, reducing or aggregating state"
            )
        state.merge_namespaces(self.window, self.merged)


class ProcessWindowContext(Generic[W]):
    """What a `ProcessWindowFunction` learns, for the current key and window.

    Args:
        times: The clock and the watermark of the operator.
        window_states: The states that each window has for itself.
        global_states: The states that all windows of a key share.

    Attributes:
        current_window: The window that the function is called for.
    """

    __slots__ = ("_global_states", "_times", "_window_states", "current_window")

    def __init__(self, times: Times, window_states: KeyedStateStore, global_states: KeyedStateStore) -> None:
        self._times, self._window_states, self._global_states = times, window_states, global_states
        self.current_window: Any = None

    def window(self) -> W:
        """Return the window: a `TimeWindow` or the `GlobalWindow`."""
        return self.current_window  # type: ignore[no-any-return]

    def current_processing_time(self) -> int:
        """Return the time of the clock, in milliseconds since 1970 UTC."""
        return self._times.clock()

    def current_watermark(self) -> int:
        """Return the watermark, in milliseconds since 1970 UTC."""
        return self._times.watermark

    def window_state(self) -> KeyedStateStore:
        """Return the states that each window of the key has for itself; `clear` must remove them.

        With windows that merge, they can only be asked for in vain: each raises `DeclarationError`.
        """
        if isinstance(self._window_states, WindowStateStore):
            self._window_states.window = self.current_window
        return self._window_states

    def global_state(self) -> KeyedStateStore:
        """Return the states that all windows of the key share."""
        return self._global_states
