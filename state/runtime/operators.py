"""Operators: what calls a function for elements and timers, for one subtask.

An engine, or the harness, creates the runtime context, opens the operator, and then passes it elements, watermarks and
the time. Before an element it makes its key the current one. Source: runtime notes, section 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...serializers.errors import DeclarationError, shown
from ...serializers.flink.namespaces import VoidNamespaceSerializer
from ..timers import USER_TIMERS, TimeDomain
from . import contexts
from .functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    SinkFunction,
)
from .timer_service import MIN_WATERMARK, InternalTimerService, TimerService

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ...serializers.serializer import TypeSerializer
    from ..backends.keyed_backend import KeyedStateBackend
    from .output_tag import Output
    from .runtime_context import RuntimeContext
    from .timer_service import OnTimer, Times

    Step = Callable[[Any, Any], Any]
    """Called with an element and the context; returns the results, or None."""

    KeyRun = tuple[Any, int, bytes, int]
    """A key, its key group, its bytes, and the number of elements that follow each other with it."""


NO_ELEMENT = object()
"""In place of an element, where none is processed."""


class StreamOperator(ABC):
    """What all operators of one subtask have in common: their inputs' watermarks, their timers, their output.

    Args:
        runtime_context: The context of the function.
        backend: The keyed states and timers; None: the operator is not keyed.
        output: Takes the results.
        times: The current times, which the operator moves on.
        inputs: The number of its inputs.

    Attributes:
        element: The element that is being processed, or `NO_ELEMENT`.
        failed: Takes an error of the function at an element, timer or window: it raises it, or the operator goes on.
    """

    def __init__(
        self,
        runtime_context: RuntimeContext,
        backend: KeyedStateBackend | None,
        output: Output,
        times: Times,
        inputs: int = 1,
    ) -> None:
        self.runtime_context = runtime_context
        self.backend = backend
        self.output = output
        self.times = times
        self.element: Any = NO_ELEMENT
        self.failed: Callable[[Exception], None] = _raise
        self._watermarks = [MIN_WATERMARK] * inputs
        self._services: list[InternalTimerService] = []

    def timer_service(
        self, name: str, namespace: TypeSerializer[Any], on_timer: OnTimer
    ) -> InternalTimerService | None:
        """Return a new timer service of the operator; None: it is not keyed.

        Args:
            name: The name of the service, as in `TimerServiceDescriptor`.
            namespace: The serializer of the namespaces of the timers.
            on_timer: Called with time domain, time and namespace, when the timer's key is the current one.
        """
        if self.backend is None:
            return None
        service = InternalTimerService(self.backend, self.times, name, namespace, on_timer)
        self._services.append(service)
        return service

    def process_watermark(self, timestamp: int, index: int = 0) -> None:
        """Take a watermark of an input. The event time of the operator is that of its slowest input.

        Args:
            timestamp: No element of the input with this or an earlier time stamp follows.
            index: The number of the input.
        """
        self._watermarks[index] = max(self._watermarks[index], timestamp)
        watermark = min(self._watermarks)
        if watermark > self.times.watermark:
            self.times.watermark = watermark
            self._fire(TimeDomain.EVENT_TIME, watermark)

    @abstractmethod
    def process_element(self, value: Any, timestamp: int | None = None, index: int = 0) -> None:
        """Process an element, whose key is the current one of the backend.

        Args:
            value: The element.
            timestamp: Its time stamp in milliseconds since 1970 UTC; None: it has none.
            index: The number of the input.
        """

    def process_runs(
        self, backend: KeyedStateBackend, runs: Iterable[KeyRun], elements: Iterator[tuple[Any, int | None]], index: int
    ) -> None:
        """Process elements of which those of a key follow each other; `element` is the present one.

        Args:
            backend: The backend of the operator.
            runs: The keys, each with the number of its elements.
            elements: The elements with their time stamps.
            index: The number of the input.
        """
        for key, group, data, count in runs:
            self.element = NO_ELEMENT
            backend.set_encoded_key(key, group, data)
            for self.element, timestamp in islice(elements, count):
                self.process_element(self.element, timestamp, index)
        self.element = NO_ELEMENT

    @property
    def watermarks(self) -> tuple[int, ...]:
        """The watermark of each input in milliseconds."""
        return tuple(self._watermarks)

    def resume_event_time(self, watermarks: Sequence[int], current: int) -> None:
        """Go on with the event time that the operator had; nothing fires.

        Args:
            watermarks: The watermark of each input.
            current: That of the operator.
        """
        self._watermarks = list(watermarks)
        self.times.watermark = current

    def process_time(self) -> None:
        """Fire the timers of processing time that the clock has reached."""
        self._fire(TimeDomain.PROCESSING_TIME, self.times.clock())

    def next_processing_time(self) -> int | None:
        """Return the time of the first timer of processing time; None where there is none."""
        firsts = [service.first_timestamp(TimeDomain.PROCESSING_TIME) for service in self._services]
        return min((first for first in firsts if first is not None), default=None)

    @property
    def fired_timers(self) -> int:
        """How many timers have fired."""
        return sum(service.fired for service in self._services)

    def _fire(self, domain: TimeDomain, until: int) -> None:
        for service in self._services:
            service.fire(domain, until)


class FunctionOperator(StreamOperator):
    """Calls a function for each element and timer.

    Args:
        function: The function.
        inputs: The number of inputs.
        runtime_context: As for `StreamOperator`.
        backend: As for `StreamOperator`.
        output: As for `StreamOperator`.
        times: As for `StreamOperator`.
        broadcast: Returns the broadcast state of a descriptor; None: the function has no broadcast input.

    Raises:
        DeclarationError: The function is of no known kind, or needs keys that are not there.
    """

    def __init__(
        self,
        function: Function,
        inputs: int,
        runtime_context: RuntimeContext,
        backend: KeyedStateBackend | None,
        output: Output,
        times: Times,
        broadcast: contexts.BroadcastStates | None = None,
    ) -> None:
        steps, kinds = _steps(function)
        super().__init__(runtime_context, backend, output, times, len(steps))
        name = type(function).__name__
        if inputs != len(steps):
            raise DeclarationError(f"{name} has {len(steps)} inputs, but {inputs} are given")
        is_keyed = isinstance(function, KeyedProcessFunction | KeyedCoProcessFunction | KeyedBroadcastProcessFunction)
        if is_keyed and backend is None:
            raise DeclarationError(f"{name} needs a keyed stream", advice="key the stream, and name the key type")
        self.function = function
        internal = self.timer_service(USER_TIMERS, VoidNamespaceSerializer(), self._on_timer) if is_keyed else None
        timers = TimerService(times, internal)
        created = [kind(timers, backend, broadcast) for kind in kinds]
        self._inputs = list(zip(steps, created, strict=True))
        self._cleaners = runtime_context.cleaners
        self._at_timer = getattr(function, "OnTimerContext", contexts.OnTimerContext)(timers, backend, broadcast)

    def open(self) -> None:
        """Open the function; it has no key."""
        self.function.open(self.runtime_context)

    def close(self) -> None:
        """Close the function."""
        self.function.close()

    def process_element(self, value: Any, timestamp: int | None = None, index: int = 0) -> None:
        step, context = self._inputs[index]
        context.current_timestamp = timestamp
        try:
            results = step(value, context)
            if results is not None:
                self.output.emit(results, timestamp)
        except Exception as error:  # noqa: BLE001 - of the function
            self.failed(error)
        for cleaner in self._cleaners:
            cleaner.step()

    def process_runs(
        self, backend: KeyedStateBackend, runs: Iterable[KeyRun], elements: Iterator[tuple[Any, int | None]], index: int
    ) -> None:
        # As `process_element` does it, without a call for each element.
        (step, context), emit, cleaners = self._inputs[index], self.output.emit, self._cleaners
        for key, group, data, count in runs:
            self.element = NO_ELEMENT
            backend.set_encoded_key(key, group, data)
            of_key, is_done = islice(elements, count), False
            while not is_done:  # again only after an error, with the elements that follow
                try:
                    for self.element, context.current_timestamp in of_key:
                        results = step(self.element, context)
                        if results is not None:
                            emit(results, context.current_timestamp)
                        for cleaner in cleaners:
                            cleaner.step()
                    is_done = True
                except Exception as error:  # noqa: BLE001 - of the function
                    self.failed(error)
        self.element = NO_ELEMENT

    def _on_timer(self, domain: TimeDomain, timestamp: int, _: Any) -> None:
        context = self._at_timer
        context.current_timestamp, context.current_domain = timestamp, domain
        try:
            results = self.function.on_timer(timestamp, context)  # type: ignore[attr-defined]  # of a keyed function
            self.output.emit(results, timestamp if domain is TimeDomain.EVENT_TIME else None)
        except Exception as error:  # noqa: BLE001 - of the function
            self.failed(error)


def _raise(error: Exception) -> None:
    raise error


def _steps(function: Function) -> tuple[tuple[Step, ...], tuple[type[contexts.BaseContext], ...]]:
    """Return what is called for the elements of each input, and the kind of its context."""
    if isinstance(function, KeyedCoProcessFunction | CoProcessFunction):
        return (function.process_element1, function.process_element2), (function.Context,) * 2
    if isinstance(function, KeyedBroadcastProcessFunction | BroadcastProcessFunction):
        return (
            (function.process_element, function.process_broadcast_element),
            (function.ReadOnlyContext, function.Context),
        )
    if isinstance(function, KeyedProcessFunction | ProcessFunction):
        return (function.process_element,), (function.Context,)
    plain = _plain_steps(function)
    return plain, (contexts.BaseContext,) * len(plain)


def _invoking(function: SinkFunction) -> Step:
    def invoke(value: Any, _: Any) -> None:
        function.invoke(value)

    return invoke


def _plain_steps(function: Function) -> tuple[Step, ...]:
    """Return what is called for the elements of each input of a function that takes no context."""
    if isinstance(function, MapFunction):
        return (lambda value, _: (function.map(value),),)
    if isinstance(function, FlatMapFunction):
        return (lambda value, _: function.flat_map(value),)
    if isinstance(function, FilterFunction):
        return (lambda value, _: (value,) if function.filter(value) else None,)
    if isinstance(function, SinkFunction):
        return (_invoking(function),)
    if isinstance(function, CoMapFunction):
        return (lambda value, _: (function.map1(value),), lambda value, _: (function.map2(value),))
    if isinstance(function, CoFlatMapFunction):
        return (lambda value, _: function.flat_map1(value), lambda value, _: function.flat_map2(value))
    if isinstance(function, type) and issubclass(function, Function):
        raise DeclarationError(
            f"{function.__name__} is a class, and a function is an object of it", advice=f"pass {function.__name__}(…)"
        )
    if callable(function) and not isinstance(function, Function):
        raise DeclarationError(
            f"{getattr(function, '__qualname__', shown(function))} is a plain function or a foreign class, and an "
            "operator needs an object of a function class",
            advice="write a subclass, such as of MapFunction with map, or of KeyedProcessFunction with process_element",
        )
    raise DeclarationError(f"{type(function).__name__} is not a function that an operator can call")
