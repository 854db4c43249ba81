"""Triggers: they decide when a window's function is called, and when the window is emptied.

The states that they keep are Flink's: `CountTrigger` has reducing state "count" of long, continuous triggers have
"fire-time" of long, the next time. Source: Flink's documentation,
"Windows", section "Triggers"; the names are those of `pyflink.datastream.window`.
"""

from __future__ import annotations

import enum
import operator
from abc import ABC, abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from ....serializers.errors import DeclarationError, ValueNotConvertible, shown
from ..descriptors import ReducingStateDescriptor
from . import contexts

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")
W = TypeVar("W")

_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(length: timedelta) -> int:
    """Return a length of time in milliseconds, without a remainder of less than one.

    Raises:
        DeclarationError: It is not a timedelta.
    """
    if not isinstance(length, timedelta):
        raise DeclarationError(f"{shown(length)} is not a timedelta", advice="pass timedelta(minutes=1) or the like")
    return length // _MILLISECOND


def event_time(timestamp: int | None) -> int:
    """Return a time stamp.

    Raises:
        ValueNotConvertible: There is none.
    """
    if timestamp is None:
        raise ValueNotConvertible(
            "an element has no time stamp, by which it would get its windows of event time",
            advice="give elements time stamps (assign_timestamps_and_watermarks; on Spark: stream(df, timestamp=…))",
        )
    return timestamp


class TriggerResult(enum.Enum):
    """What happens to a window: its function is called (FIRE), it is emptied (PURGE), both, or nothing.

    Without contents the function is not called.
    """

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Whether the window's function is called."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Whether the window is emptied."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """The base class of triggers. One object serves all keys and windows, so what it remembers belongs into state."""

    TriggerContext: TypeAlias = contexts.TriggerContext
    OnMergeContext: TypeAlias = contexts.OnMergeContext

    @abstractmethod
    def on_element(self, element: T, timestamp: int | None, window: W, ctx: contexts.TriggerContext) -> TriggerResult:
        """Decide when an element has been added to a window.

        Args:
            element: The element.
            timestamp: Its time stamp in milliseconds since 1970 UTC; None: it has none.
            window: The window.
            ctx: The times, the timers and the states of the window.
        """

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: contexts.TriggerContext) -> TriggerResult:
        """Decide when a timer of processing time fires, in milliseconds since 1970 UTC."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: contexts.TriggerContext) -> TriggerResult:
        """Decide when a timer of event time fires, in milliseconds since 1970 UTC."""

    def can_merge(self) -> bool:
        """Whether the trigger can serve windows that merge, such as sessions."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: contexts.OnMergeContext) -> None:
        """Take over timers and states of merged windows for the window that they became."""

    @abstractmethod
    def clear(self, window: W, ctx: contexts.TriggerContext) -> None:
        """Remove the timers and states of a window that is gone."""


class NeverTrigger(Trigger[Any, Any]):
    """Never fires; the default of `GlobalWindows`. Other triggers say when they do."""

    def on_element(
        self, element: Any, timestamp: int | None, window: Any, ctx: contexts.TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: contexts.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: contexts.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: contexts.OnMergeContext) -> None:
        pass

    def clear(self, window: Any, ctx: contexts.TriggerContext) -> None:
        pass


class _Mergeable(NeverTrigger):
    """Base of the triggers that can serve windows that merge."""

    def can_merge(self) -> bool:
        return True


class EventTimeTrigger(_Mergeable):
    """Fires when the watermark passes the end of a window, and at once for each late element."""

    @staticmethod
    def create() -> EventTimeTrigger:
        """Return the trigger."""
        return EventTimeTrigger()

    def on_element(
        self, element: Any, timestamp: int | None, window: Any, ctx: contexts.TriggerContext
    ) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: contexts.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: contexts.OnMergeContext) -> None:
        if window.max_timestamp() > ctx.get_current_watermark():  # else the next element fires
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: contexts.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(_Mergeable):
    """Fires when the clock passes the end of a window."""

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """Return the trigger."""
        return ProcessingTimeTrigger()

    def on_element(
        self, element: Any, timestamp: int | None, window: Any, ctx: contexts.TriggerContext
    ) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: contexts.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_merge(self, window: Any, ctx: contexts.OnMergeContext) -> None:
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: contexts.TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


class _Continuous(_Mergeable):
    """Base of the triggers that fire again and again until the end of a window."""

    def __init__(self, interval: int) -> None:
        if not isinstance(interval, int) or interval < 1:
            raise DeclarationError(f"a continuous trigger takes a number of milliseconds from 1, not {shown(interval)}")
        self.interval = interval
        self._next = ReducingStateDescriptor("fire-time", min, int)

    @classmethod
    def of(cls, interval: timedelta) -> Self:
        """Return the trigger that fires after each such length of time; raises as the class, and as `timedelta`."""
        return cls(milliseconds(interval))

    @abstractmethod
    def _register(self, ctx: contexts.TriggerContext, time: int) -> None:
        """Set a timer."""

    def _begin(self, now: int, window: Any, ctx: contexts.TriggerContext) -> None:
        """Set the first timer of a window, at a multiple of the interval."""
        if ctx.get_partitioned_state(self._next).get() is None:
            self._go_on(now - now % self.interval, window, ctx)

    def _go_on(self, time: int, window: Any, ctx: contexts.TriggerContext) -> None:
        after = min(time + self.interval, window.max_timestamp())
        ctx.get_partitioned_state(self._next).add(after)
        self._register(ctx, after)

    def _fired(self, time: int, window: Any, ctx: contexts.TriggerContext) -> TriggerResult:
        state = ctx.get_partitioned_state(self._next)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        self._go_on(time, window, ctx)
        return TriggerResult.FIRE

    def on_merge(self, window: Any, ctx: contexts.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._next)
        time = ctx.get_partitioned_state(self._next).get()
        if time is not None:
            self._register(ctx, time)


class ContinuousEventTimeTrigger(_Continuous):
    """Fires whenever the watermark passes a multiple of a length of time, and the end of a window.

    Args:
        interval: The length of time in milliseconds.

    Raises:
        DeclarationError: It is not a number of 1 or more.
    """

    def on_element(
        self, element: Any, timestamp: int | None, window: Any, ctx: contexts.TriggerContext
    ) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        self._begin(event_time(timestamp), window, ctx)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: contexts.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else self._fired(time, window, ctx)

    def clear(self, window: Any, ctx: contexts.TriggerContext) -> None:
        state = ctx.get_partitioned_state(self._next)
        if (time := state.get()) is not None:
            ctx.delete_event_time_timer(time)
            state.clear()

    def _register(self, ctx: contexts.TriggerContext, time: int) -> None:
        ctx.register_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_Continuous):
    """Fires whenever the clock passes a multiple of a length of time, and the end of a window.

    Args:
        interval: The length of time in milliseconds.

    Raises:
        DeclarationError: It is not a number of 1 or more.
    """

    def on_element(
        self, element: Any, timestamp: int | None, window: Any, ctx: contexts.TriggerContext
    ) -> TriggerResult:
        self._begin(ctx.get_current_processing_time(), window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: contexts.TriggerContext) -> TriggerResult:
        return self._fired(time, window, ctx)

    def clear(self, window: Any, ctx: contexts.TriggerContext) -> None:
        state = ctx.get_partitioned_state(self._next)
        if (time := state.get()) is not None:
            ctx.delete_processing_time_timer(time)
            state.clear()

    def _register(self, ctx: contexts.TriggerContext, time: int) -> None:
        ctx.register_processing_time_timer(time)


class CountTrigger(_Mergeable):
    """Fires for each further number of elements of a window; the window keeps them.

    Args:
        window_size: The number of elements, 1 or more.

    Raises:
        DeclarationError: It is not such a number.
    """

    def __init__(self, window_size: int) -> None:
        if not isinstance(window_size, int) or window_size < 1:
            raise DeclarationError(f"a count trigger takes a number of elements from 1, not {shown(window_size)}")
        self._window_size = window_size
        self._count = ReducingStateDescriptor("count", operator.add, int)

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """Return the trigger; arguments and errors as for the class."""
        return CountTrigger(window_size)

    def on_element(
        self, element: Any, timestamp: int | None, window: Any, ctx: contexts.TriggerContext
    ) -> TriggerResult:
        count = ctx.get_partitioned_state(self._count)
        count.add(1)
        if count.get() < self._window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def on_merge(self, window: Any, ctx: contexts.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: Any, ctx: contexts.TriggerContext) -> None:
        ctx.get_partitioned_state(self._count).clear()


class PurgingTrigger(Trigger[Any, Any]):
    """Does what another trigger does, and empties the window whenever that one fires.

    Args:
        nested_trigger: The other trigger.
    """

    def __init__(self, nested_trigger: Trigger[Any, Any]) -> None:
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[Any, Any]) -> PurgingTrigger:
        """Return the trigger around another one."""
        return PurgingTrigger(nested_trigger)

    def on_element(
        self, element: Any, timestamp: int | None, window: Any, ctx: contexts.TriggerContext
    ) -> TriggerResult:
        return self._purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: Any, ctx: contexts.TriggerContext) -> TriggerResult:
        return self._purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: Any, ctx: contexts.TriggerContext) -> TriggerResult:
        return self._purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Any, ctx: contexts.OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Any, ctx: contexts.TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)

    @staticmethod
    def _purging(result: TriggerResult) -> TriggerResult:
        return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result
