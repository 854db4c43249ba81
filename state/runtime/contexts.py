"""What a function learns of the element or timer that it is called for. A context is valid only during that call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .states import ReadOnlyBroadcastState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..backends.keyed_backend import KeyedStateBackend
    from ..timers import TimeDomain
    from .descriptors import MapStateDescriptor
    from .states import BroadcastState
    from .timer_service import TimerService

    BroadcastStates = Callable[[MapStateDescriptor[Any, Any]], BroadcastState[Any, Any]]


class _View(ReadOnlyBroadcastState[Any, Any]):
    """A broadcast state without the methods that change it."""

    __slots__ = ("_state",)

    def __init__(self, state: BroadcastState[Any, Any]) -> None:
        self._state = state

    def get(self, key: Any) -> Any:
        return self._state.get(key)

    def contains(self, key: Any) -> bool:
        return self._state.contains(key)

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self._state.items()

    def keys(self) -> Iterable[Any]:
        return self._state.keys()

    def values(self) -> Iterable[Any]:
        return self._state.values()

    def is_empty(self) -> bool:
        return self._state.is_empty()


class BaseContext:
    """The base class of contexts. An operator has one of each kind that it needs, and changes it for each call.

    Args:
        timers: The clock, the watermark and the timers of the operator.
        backend: Has the current key; None: the stream is not keyed.
        broadcast: Returns the broadcast state of a descriptor.

    Attributes:
        current_timestamp: The time stamp of the element or timer.
        current_domain: The time domain of the timer.
    """

    __slots__ = ("_backend", "_broadcast", "_timers", "current_domain", "current_timestamp")

    def __init__(
        self, timers: TimerService, backend: KeyedStateBackend | None, broadcast: BroadcastStates | None
    ) -> None:
        self._timers = timers
        self._backend: Any = backend
        self._broadcast: Any = broadcast
        self.current_timestamp: int | None = None
        self.current_domain: TimeDomain | None = None

    def timestamp(self) -> Any:
        """Return the time stamp of the element or timer, in milliseconds since 1970 UTC; None: it has none."""
        return self.current_timestamp


class ProcessContext(BaseContext):
    """The context of an element of a stream that is not keyed."""

    __slots__ = ()

    def timer_service(self) -> TimerService:
        """Return the clock and the watermark, and where timers are set. Timers need a keyed stream."""
        return self._timers


class KeyedContext(ProcessContext):
    """The context of an element of a keyed stream."""

    __slots__ = ()

    def get_current_key(self) -> Any:
        """Return the key of the element or timer."""
        return self._backend.current_key


class OnTimerContext(KeyedContext):
    """The context of a timer that fires."""

    __slots__ = ()

    def time_domain(self) -> TimeDomain:
        """Return the time that fired the timer: event time or processing time."""
        domain: Any = self.current_domain
        return domain  # type: ignore[no-any-return]


class BaseBroadcastContext(BaseContext):
    """The context of an element of a function that has a broadcast input."""

    __slots__ = ()

    def current_processing_time(self) -> int:
        """Return the time of the clock, in milliseconds since 1970 UTC."""
        return self._timers.current_processing_time()

    def current_watermark(self) -> int:
        """Return the watermark, in milliseconds since 1970 UTC."""
        return self._timers.current_watermark()


class BroadcastContext(BaseBroadcastContext):
    """The context of a broadcast element: broadcast state may be changed."""

    __slots__ = ()

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor[Any, Any]) -> BroadcastState[Any, Any]:
        """Return a broadcast state. Each subtask must change it in the same way."""
        state: BroadcastState[Any, Any] = self._broadcast(state_descriptor)
        return state


class ReadOnlyContext(BaseBroadcastContext):
    """The context of an element that is not broadcast: broadcast state is only read."""

    __slots__ = ()

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor[Any, Any]) -> ReadOnlyBroadcastState[Any, Any]:
        """Return a broadcast state to read."""
        return _View(self._broadcast(state_descriptor))


class KeyedReadOnlyContext(ReadOnlyContext, KeyedContext):
    """The context of an element of a keyed stream beside a broadcast stream."""

    __slots__ = ()


class OnTimerReadOnlyContext(ReadOnlyContext, OnTimerContext):
    """The context of a timer of a keyed stream beside a broadcast stream."""

    __slots__ = ()
