"""Assigners: they decide which windows an element belongs to.

Constructors take milliseconds, `of` and `with_gap` take timedeltas. Source: Flink's documentation, "Windows", section
"Window Assigners"; the names are those of `pyflink.datastream.window`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

import attrs

from ....serializers.errors import DeclarationError, shown
from ....serializers.flink.namespaces import GLOBAL_WINDOW, CountWindow, GlobalWindow, TimeWindow
from ....serializers.hints import serializer_for
from ..descriptors import ValueStateDescriptor
from . import contexts
from .triggers import (
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    event_time,
    milliseconds,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from datetime import timedelta
    from typing import Self

    from ....serializers.serializer import TypeSerializer
    from ..descriptors import StateDescriptor
    from .triggers import Trigger

T = TypeVar("T")
W = TypeVar("W")


class WindowAssigner(ABC, Generic[T, W]):
    """The base class of assigners. One object serves all keys, so what it remembers belongs into state.

    Attributes:
        states: The states that it asks `context.get_runtime_context()` for.
    """

    WindowAssignerContext: TypeAlias = contexts.WindowAssignerContext

    states: tuple[StateDescriptor, ...] = ()

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int | None, context: contexts.WindowAssignerContext
    ) -> Collection[W]:
        """Return the windows of an element.

        Args:
            element: The element.
            timestamp: Its time stamp in milliseconds since 1970 UTC; None: it has none.
            context: Has the time of the clock.
        """

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[Any, Any]:
        """Return the trigger where none is set. `env` is there as in PyFlink, and is None."""

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]:
        """Return the serializer of the windows."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether windows end when the watermark passes them; otherwise the clock does."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """The base class of assigners whose windows merge."""

    class MergeCallback(ABC):
        """Takes the merges that an assigner finds."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
            """Merge two or more windows into one."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergeCallback) -> None:
        """Call `callback.merge` for each group of windows that become one."""


class _InTime(WindowAssigner[Any, TimeWindow]):
    _by_event_time: ClassVar[bool]  # else by the clock

    def get_default_trigger(self, env: Any) -> Trigger[Any, Any]:
        return EventTimeTrigger() if self._by_event_time else ProcessingTimeTrigger()

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        return serializer_for(TimeWindow)

    def is_event_time(self) -> bool:
        return self._by_event_time

    def _time(self, timestamp: int | None, context: contexts.WindowAssignerContext) -> int:
        return event_time(timestamp) if self._by_event_time else context.get_current_processing_time()


@attrs.frozen
class _Tumbling(_InTime):
    size: int
    offset: int

    def __attrs_post_init__(self) -> None:
        if abs(self.offset) >= self.size:
            raise DeclarationError(
                f"{type(self).__name__} of {self.size} ms cannot begin {self.offset} ms later",
                advice="pass a size above zero, and an offset that is smaller",
            )

    @classmethod
    def of(cls, size: timedelta, offset: timedelta | None = None) -> Self:
        """Return the assigner of windows of a size, which begin at multiples of it after 1970 UTC plus the offset."""
        return cls(milliseconds(size), 0 if offset is None else milliseconds(offset))

    def assign_windows(
        self, element: Any, timestamp: int | None, context: contexts.WindowAssignerContext
    ) -> list[TimeWindow]:
        start = TimeWindow.get_window_start_with_offset(self._time(timestamp, context), self.offset, self.size)
        return [TimeWindow(start, start + self.size)]


class TumblingEventTimeWindows(_Tumbling):
    """Windows of one size that follow each other; an element belongs to that of its time stamp.

    Args:
        size: The size in milliseconds.
        offset: How much later than at its multiples windows begin, in milliseconds.

    Raises:
        DeclarationError: The offset is not smaller than the size.
    """

    _by_event_time = True


class TumblingProcessingTimeWindows(_Tumbling):
    """The same by the time of the clock; see `TumblingEventTimeWindows`."""

    _by_event_time = False


@attrs.frozen
class _Sliding(_InTime):
    size: int
    slide: int
    offset: int

    def __attrs_post_init__(self) -> None:
        if abs(self.offset) >= self.slide or self.size <= 0:
            raise DeclarationError(
                f"{type(self).__name__} of {self.size} ms cannot begin every {self.slide} ms {self.offset} ms later",
                advice="pass a size and a slide above zero, and an offset that is smaller than the slide",
            )

    @classmethod
    def of(cls, size: timedelta, slide: timedelta, offset: timedelta | None = None) -> Self:
        """Return the assigner of windows of a size, of which one begins with every slide after 1970 UTC plus offset."""
        return cls(milliseconds(size), milliseconds(slide), 0 if offset is None else milliseconds(offset))

    def assign_windows(
        self, element: Any, timestamp: int | None, context: contexts.WindowAssignerContext
    ) -> list[TimeWindow]:
        time = self._time(timestamp, context)
        last = TimeWindow.get_window_start_with_offset(time, self.offset, self.slide)
        return [TimeWindow(start, start + self.size) for start in range(last, time - self.size, -self.slide)]


class SlidingEventTimeWindows(_Sliding):
    """Windows of one size that overlap; an element belongs to all those that have its time stamp.

    Args:
        size: The size in milliseconds.
        slide: The time between the starts of two windows, in milliseconds.
        offset: How much later than at the multiples of the slide windows begin, in milliseconds.

    Raises:
        DeclarationError: The size is not above zero, or the offset is not smaller than the slide.
    """

    _by_event_time = True


class SlidingProcessingTimeWindows(_Sliding):
    """The same by the time of the clock; see `SlidingEventTimeWindows`."""

    _by_event_time = False


class SessionWindowTimeGapExtractor(ABC):
    """Returns the gap after an element. It can be called like a plain function."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Return the gap in milliseconds, above zero."""

    def __call__(self, element: Any) -> int:
        return self.extract(element)


@attrs.frozen
class _Session(_InTime, MergingWindowAssigner[Any, TimeWindow]):
    session_gap: int | Callable[[Any], int]

    def __attrs_post_init__(self) -> None:
        if isinstance(self.session_gap, int):
            self._checked(self.session_gap)

    @classmethod
    def with_gap(cls, size: timedelta) -> Self:
        """Return the assigner of sessions that end where nothing comes for a length of time."""
        return cls(milliseconds(size))

    @classmethod
    def with_dynamic_gap(cls, extractor: Callable[[Any], int]) -> Self:
        """Return the assigner of sessions with a gap for each element, in milliseconds.

        Args:
            extractor: Returns the gap: a `SessionWindowTimeGapExtractor` or a plain function.
        """
        return cls(extractor)

    def assign_windows(
        self, element: Any, timestamp: int | None, context: contexts.WindowAssignerContext
    ) -> list[TimeWindow]:
        time, gap = self._time(timestamp, context), self.session_gap
        return [TimeWindow(time, time + (gap if isinstance(gap, int) else self._checked(gap(element))))]

    def merge_windows(self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback) -> None:
        TimeWindow.merge_windows(windows, callback)

    def _checked(self, gap: int) -> int:
        if gap <= 0:
            raise DeclarationError(f"the gap of {type(self).__name__} is {gap} ms, but must be above zero")
        return gap


class EventTimeSessionWindows(_Session):
    """Sessions: windows that end where for a gap no element of the key comes, by time stamps.

    Args:
        session_gap: The gap in milliseconds, or a function that returns that of an element.

    Raises:
        DeclarationError: The gap is not above zero.
    """

    _by_event_time = True


class ProcessingTimeSessionWindows(_Session):
    """The same by the time of the clock; see `EventTimeSessionWindows`."""

    _by_event_time = False


class _Counting(WindowAssigner[Any, CountWindow]):
    """Base of the assigners of windows of a number of elements of a key."""

    def __init__(self, window_size: int, window_slide: int, state: str) -> None:
        for number in (window_size, window_slide):
            if not isinstance(number, int) or number < 1:
                raise DeclarationError(f"a count window takes a number of elements from 1, not {shown(number)}")
        self._window_size, self._window_slide = window_size, window_slide
        self._counted = ValueStateDescriptor(state, int, 0)
        self.states = (self._counted,)

    def assign_windows(
        self, element: Any, timestamp: int | None, context: contexts.WindowAssignerContext
    ) -> list[CountWindow]:
        state = context.get_runtime_context().get_state(self._counted)
        count = state.value() or 0
        state.update(count + 1)
        last, slide = count // self._window_slide, self._window_slide
        first = max(0, -(-(count - self._window_size + 1) // slide))
        return [CountWindow(number) for number in range(last, first - 1, -1)]

    def get_default_trigger(self, env: Any) -> Trigger[Any, Any]:
        """Return the trigger that fires and empties a window when it is full; PyFlink keeps its elements for good."""
        return PurgingTrigger(CountTrigger(self._window_size))

    def get_window_serializer(self) -> TypeSerializer[CountWindow]:
        return serializer_for(CountWindow)

    def is_event_time(self) -> bool:
        return False


class CountTumblingWindowAssigner(_Counting):
    """Windows of a number of elements of a key that follow each other. Its state is "tumble-count-assigner".

    Args:
        window_size: The number of elements, 1 or more.

    Raises:
        DeclarationError: It is not such a number.
    """

    def __init__(self, window_size: int) -> None:
        super().__init__(window_size, window_size, "tumble-count-assigner")

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        """Return the assigner; arguments and errors as for the class."""
        return CountTumblingWindowAssigner(window_size)


class CountSlidingWindowAssigner(_Counting):
    """Windows of a number of elements of a key, of which one begins every few elements.

    Its state is "slide-count-assigner". The first window begins with the first element, as in PyFlink, so it fires when
    it is full; in Java's `countWindow` it fires after the first slide.

    Args:
        window_size: The number of elements, 1 or more.
        window_slide: After how many elements the next window begins, 1 or more.

    Raises:
        DeclarationError: It is not such a number.
    """

    def __init__(self, window_size: int, window_slide: int) -> None:
        super().__init__(window_size, window_slide, "slide-count-assigner")

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        """Return the assigner; arguments and errors as for the class."""
        return CountSlidingWindowAssigner(window_size, window_slide)


@attrs.frozen
class GlobalWindows(WindowAssigner[Any, GlobalWindow]):
    """One window of all elements of a key. It never ends, so it needs a trigger that fires, such as `CountTrigger`."""

    @staticmethod
    def create() -> GlobalWindows:
        """Return the assigner."""
        return GlobalWindows()

    def assign_windows(
        self, element: Any, timestamp: int | None, context: contexts.WindowAssignerContext
    ) -> list[GlobalWindow]:
        return [GLOBAL_WINDOW]

    def get_default_trigger(self, env: Any) -> Trigger[Any, Any]:
        return NeverTrigger()

    def get_window_serializer(self) -> TypeSerializer[GlobalWindow]:
        return serializer_for(GlobalWindow)

    def is_event_time(self) -> bool:
        return False
