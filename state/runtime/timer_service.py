"""Timers: a function sets them for its current key, and is called when event time or processing time reaches them.

Times are milliseconds since 1970 UTC. One timer exists for each time, key and namespace: setting it twice is once.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import DeclarationError, ValueNotConvertible, shown
from ...serializers.flink.namespaces import VOID_NAMESPACE
from ..timers import TimeDomain

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...serializers.serializer import TypeSerializer
    from ..backends.keyed_backend import KeyedStateBackend, TimerQueue

    OnTimer = Callable[[TimeDomain, int, Any], None]
    """Called with time domain, time and namespace, when the timer's key is the current one."""

MIN_WATERMARK = -(1 << 63)
MAX_WATERMARK = (1 << 63) - 1


def system_clock() -> int:
    """Return the time of this machine's clock."""
    return time.time_ns() // 1_000_000


@attrs.define
class Times:
    """The current times of an operator.

    Attributes:
        clock: Returns the processing time. A test sets its own.
        watermark: The event time: no earlier element is expected.
    """

    clock: Callable[[], int] = system_clock
    watermark: int = MIN_WATERMARK


class InternalTimerService:
    """The timers of one service of an operator, with a namespace each.

    Args:
        backend: Keeps the timers, and has the current key.
        times: The current times.
        name: The name of the service: "user-timers", "window-timers".
        namespace: The serializer of the namespaces.
        on_timer: Called for each timer that fires.

    Attributes:
        fired: How many timers have fired.
    """

    def __init__(
        self,
        backend: KeyedStateBackend,
        times: Times,
        name: str,
        namespace: TypeSerializer[Any],
        on_timer: OnTimer,
    ) -> None:
        self._backend = backend
        self._times = times
        self._on_timer = on_timer
        self.fired = 0
        self._queues: dict[TimeDomain, TimerQueue] = {
            domain: backend.create_timer_queue(name, domain, namespace) for domain in TimeDomain
        }

    def register(self, domain: TimeDomain, timestamp: int, namespace: Any) -> None:
        """Set a timer for the current key.

        Raises:
            ValueNotConvertible: The time is not an integer of 64 bits.
        """
        if not isinstance(timestamp, int) or not MIN_WATERMARK <= timestamp <= MAX_WATERMARK:
            raise ValueNotConvertible(
                f"{shown(timestamp)} is not the time of a timer", advice="pass milliseconds since 1970 as an int"
            )
        self._queues[domain].add(timestamp, self._backend.current_key, namespace)

    def delete(self, domain: TimeDomain, timestamp: int, namespace: Any) -> None:
        """Remove a timer of the current key; there may be none."""
        self._queues[domain].remove(timestamp, self._backend.current_key, namespace)

    def fire(self, domain: TimeDomain, until: int) -> None:
        """Call the function for all timers up to a time, in time order, also for those that it sets meanwhile."""
        poll, backend, on_timer = self._queues[domain].poll, self._backend, self._on_timer
        while (timer := poll(until)) is not None:
            timestamp, key, namespace = timer
            backend.set_current_key(key)
            on_timer(domain, timestamp, namespace)
            self.fired += 1

    def first_timestamp(self, domain: TimeDomain) -> int | None:
        """Return the time of the first timer; None where there is none."""
        return self._queues[domain].first_timestamp()


class TimerService:
    """The clock, the watermark, and the timers of the current key, as functions use them.

    Args:
        times: The current times.
        internal: Has the timers; None: the stream is not keyed.
        namespace: The namespace of timers that are set.
    """

    __slots__ = ("_internal", "_namespace", "_times")

    def __init__(
        self, times: Times, internal: InternalTimerService | None = None, namespace: Any = VOID_NAMESPACE
    ) -> None:
        self._times = times
        self._internal = internal
        self._namespace = namespace

    def current_processing_time(self) -> int:
        """Return the time of the clock."""
        return self._times.clock()

    def current_watermark(self) -> int:
        """Return the watermark; before the first one, -2**63."""
        return self._times.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Set a timer that fires when the clock reaches a time; a past time fires at the next advance of the clock.

        Raises:
            DeclarationError: The stream is not keyed.
            ValueNotConvertible: The time is not an integer of 64 bits.
        """
        self._timers().register(TimeDomain.PROCESSING_TIME, timestamp, self._namespace)

    def register_event_time_timer(self, timestamp: int) -> None:
        """Set a timer that fires when the watermark reaches a time; errors as for processing time."""
        self._timers().register(TimeDomain.EVENT_TIME, timestamp, self._namespace)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Remove a timer of processing time; there may be none."""
        self._timers().delete(TimeDomain.PROCESSING_TIME, timestamp, self._namespace)

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Remove a timer of event time; there may be none."""
        self._timers().delete(TimeDomain.EVENT_TIME, timestamp, self._namespace)

    def _timers(self) -> InternalTimerService:
        if self._internal is None:
            raise DeclarationError("timers need a keyed stream", advice="key the stream, and use a keyed function")
        return self._internal
