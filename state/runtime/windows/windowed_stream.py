"""What a program declares of its windows, and the states that this means.

    state               kind                             namespace   what
    window-contents     list, reducing or aggregating    window      the elements, or what they were reduced to
    merging-window-set  list of tuple<window, window>    none        (window, the window that its contents lie under)
    window-timers       timers of both time domains      window      the trigger's, and one for the end of each window

All names and types are Flink's, so that savepoints of its window operators go on here, and back. Source: the savepoints
of Flink's window operators; Flink's documentation, "Windows".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ....serializers.errors import DeclarationError, shown
from ....serializers.hints import serializer_for
from ...timers import WINDOW_TIMERS, TimerServiceDescriptor
from ..descriptors import AggregatingStateDescriptor, ListStateDescriptor, ReducingStateDescriptor
from ..functions import Function, ReduceFunction
from .assigners import MergingWindowAssigner, WindowAssigner
from .functions import ProcessWindowFunction, WindowFunction
from .triggers import Trigger, milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from ..descriptors import StateDescriptor
    from ..functions import AggregateFunction
    from ..output_tag import OutputTag
    from ..runtime_context import RuntimeContext

    AnyWindowFunction = ProcessWindowFunction[Any, Any, Any, Any] | WindowFunction[Any, Any, Any, Any]

CONTENTS, MERGING_SET = "window-contents", "merging-window-set"


@attrs.frozen
class WindowOperation(Function):
    """A whole declaration of windows, which a `WindowedStream` returns and a harness or engine runs.

    Attributes:
        assigner: Decides which windows an element belongs to.
        trigger: Decides when windows fire.
        contents: The state of the contents.
        function: Makes the results of the contents; None: they are the result.
        lateness_ms: How long after its end a window still takes elements, in milliseconds.
        late_data: The side output of elements that come later; None: they are dropped.
    """

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any]
    contents: StateDescriptor
    function: AnyWindowFunction | None
    lateness_ms: int
    late_data: OutputTag | None

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The states of the operator, but for those of the trigger and the function; for `Operator(states=…)`."""
        window = self.assigner.get_window_serializer()
        merging = ListStateDescriptor(MERGING_SET, serializer_for(tuple[window, window]))  # type: ignore[valid-type]
        merges = isinstance(self.assigner, MergingWindowAssigner)
        return (self.contents, *self.assigner.states, *((merging,) if merges else ()))

    @property
    def keeps_elements(self) -> bool:
        """Whether the contents are the elements themselves."""
        return isinstance(self.contents, ListStateDescriptor)

    @property
    def timers(self) -> tuple[TimerServiceDescriptor, ...]:
        """The timer service of the operator; for `Operator(timers=…)`."""
        return (TimerServiceDescriptor(WINDOW_TIMERS, namespace=self.assigner.get_window_serializer()),)

    def open(self, runtime_context: RuntimeContext) -> None:
        if self.function is not None:
            self.function.open(runtime_context)

    def close(self) -> None:
        if self.function is not None:
            self.function.close()


@attrs.frozen
class WindowedStream:
    """Windows of a keyed stream; its last four methods say what becomes of their contents.

    Args:
        assigner: Decides which windows an element belongs to.
        element_type: The type hint or serializer of the elements.
        trigger: As for the method of this name.
        lateness_ms: See `allowed_lateness`.
        late_data: See `side_output_late_data`.

    Raises:
        DeclarationError: The lateness is negative, or there is no assigner or trigger where one belongs.
    """

    _assigner: WindowAssigner[Any, Any]
    _element_type: Any
    _trigger: Trigger[Any, Any] | None = attrs.field(default=None, kw_only=True)
    _lateness_ms: int = attrs.field(default=0, kw_only=True)
    _late_data: OutputTag | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self._assigner, WindowAssigner):
            raise DeclarationError(
                f"{shown(self._assigner)} is no WindowAssigner",
                advice="pass one, such as TumblingEventTimeWindows.of(Time.seconds(3))",
            )
        if not isinstance(self._trigger, Trigger | None):
            raise DeclarationError(f"{shown(self._trigger)} is no Trigger", advice="pass one, as CountTrigger.of(3)")
        if self._lateness_ms < 0:
            raise DeclarationError(f"the allowed lateness is {self._lateness_ms} ms, but cannot be negative")

    def trigger(self, trigger: Trigger[Any, Any]) -> WindowedStream:
        """Return the same with another trigger than the assigner's default."""
        return attrs.evolve(self, trigger=trigger)

    def allowed_lateness(self, time_ms: int | timedelta) -> WindowedStream:
        """Return the same where windows of event time still take elements for a while after the watermark passed them.

        Each late element fires its window again.

        Args:
            time_ms: How long, in milliseconds or as a timedelta.

        Raises:
            DeclarationError: It is negative.
        """
        return attrs.evolve(self, lateness_ms=time_ms if isinstance(time_ms, int) else milliseconds(time_ms))

    def side_output_late_data(self, output_tag: OutputTag) -> WindowedStream:
        """Return the same where elements that are too late go to a side output. Without it they are dropped.

        The metric "numLateRecordsDropped" counts what is dropped.
        """
        return attrs.evolve(self, late_data=output_tag)

    def reduce(
        self, reduce_function: Callable[[Any, Any], Any], window_function: AnyWindowFunction | None = None
    ) -> WindowOperation:
        """Reduce the elements of a window as they come.

        Args:
            reduce_function: (element, element) -> element, a plain function or a `ReduceFunction`.
            window_function: Makes the results of the reduced element; None: that is the result.

        Raises:
            DeclarationError: The functions are of another kind, or windows merge and the trigger cannot.
        """
        if not callable(reduce_function):
            raise DeclarationError(f"{shown(reduce_function)} is not a {ReduceFunction.__name__}")
        return self._operation(ReducingStateDescriptor, window_function, reduce_function, self._element_type)

    def aggregate(
        self,
        aggregate_function: AggregateFunction[Any, Any, Any],
        window_function: AnyWindowFunction | None = None,
        accumulator_type: Any = None,
    ) -> WindowOperation:
        """Add the elements of a window to an accumulator as they come; raises as `reduce`.

        Args:
            aggregate_function: Makes the accumulator and its result.
            window_function: Makes the results of that; None: that is the result.
            accumulator_type: The type hint or serializer of the accumulator; it must be given.
        """
        if accumulator_type is None:
            raise DeclarationError("the accumulator has no type", advice="pass accumulator_type=…")
        return self._operation(AggregatingStateDescriptor, window_function, aggregate_function, accumulator_type)

    def apply(self, window_function: WindowFunction[Any, Any, Any, Any]) -> WindowOperation:
        """Keep the elements of a window, and call a `WindowFunction` with all of them; raises as `reduce`."""
        return self._operation(ListStateDescriptor, window_function, self._element_type)

    def process(self, process_window_function: ProcessWindowFunction[Any, Any, Any, Any]) -> WindowOperation:
        """Keep the elements of a window, and call a `ProcessWindowFunction` with all of them; raises as `reduce`."""
        return self._operation(ListStateDescriptor, process_window_function, self._element_type)

    def _operation(self, kind: Any, function: Any, *arguments: Any) -> WindowOperation:
        assigner = self._assigner
        trigger = self._trigger or assigner.get_default_trigger(None)
        if isinstance(assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise DeclarationError(
                f"{type(trigger).__name__} cannot serve the windows of {type(assigner).__name__}, which merge",
                advice="use a trigger whose can_merge() returns True",
            )
        if not isinstance(function, WindowFunction | ProcessWindowFunction | None):
            raise DeclarationError(f"{shown(function)} is neither a WindowFunction nor a ProcessWindowFunction")
        contents = kind(CONTENTS, *arguments, namespace=assigner.get_window_serializer())
        return WindowOperation(assigner, trigger, contents, function, self._lateness_ms, self._late_data)
