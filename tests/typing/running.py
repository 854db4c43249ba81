"""Functions with state as a user types them: what `make types` must see of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any, assert_type

from stateshift import (
    BroadcastProcessFunction,
    BroadcastState,
    FunctionInitializationContext,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    KeyedStateStore,
    MapStateDescriptor,
    OperatorStateStore,
    OutputTag,
    ProcessWindowFunction,
    ReadOnlyBroadcastState,
    ReducingStateDescriptor,
    RuntimeContext,
    StateTtlConfig,
    TimerService,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    ValueState,
    ValueStateDescriptor,
    WindowedStream,
    WindowOperation,
)
from stateshift.state.testing import HarnessSnapshot, KeyedProcessHarness

LATE = OutputTag("late", int)


class Counts(KeyedProcessFunction):
    count: ValueState[int]

    def open(self, runtime_context: RuntimeContext) -> None:
        ttl = StateTtlConfig.new_builder(timedelta(days=1)).update_ttl_on_read_and_write().build()
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int, 0, time_to_live=ttl))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", str, bool))
        self.most = runtime_context.get_reducing_state(ReducingStateDescriptor("most", max, int))

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        assert_type(self.count.value(), int | None)
        self.count.update((self.count.value() or 0) + value[1])
        self.seen[value[0]] = True
        assert_type(ctx.timer_service().current_watermark(), int)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1)
        yield LATE, value

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[int]:
        yield len(ctx.time_domain()) + timestamp


harness = KeyedProcessHarness(Counts(), lambda value: value[0], str, detect_mutation=True)
harness.process_element(("a", 1), 5)
assert_type(harness.output, list[Any])
assert_type(harness.snapshot(), HarnessSnapshot)


RULES = MapStateDescriptor("rules", str, int)


class Rules(BroadcastProcessFunction[str, tuple[str, int], int]):
    def process_element(self, value: str, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[int]:
        rules: ReadOnlyBroadcastState[str, int] = ctx.get_broadcast_state(RULES)
        yield rules.get(value) or 0

    def process_broadcast_element(self, value: tuple[str, int], ctx: BroadcastProcessFunction.Context) -> None:
        rules: BroadcastState[str, int] = ctx.get_broadcast_state(RULES)
        rules.put(*value)


class KeyedRules(KeyedBroadcastProcessFunction[str, str, tuple[str, int], int]):
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        operator_states: OperatorStateStore = context.get_operator_state_store()
        keyed_states: KeyedStateStore = context.get_keyed_state_store()
        self.rules = operator_states.get_broadcast_state(RULES)
        self.last = keyed_states.get_state(ValueStateDescriptor("last", str))

    def process_element(self, value: str, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> None:
        timers: TimerService = ctx.timer_service()
        timers.register_event_time_timer(1)
        self.last.update(value)

    def process_broadcast_element(self, value: tuple[str, int], ctx: KeyedBroadcastProcessFunction.Context) -> None:
        self.rules.put(*value)


class Records(ProcessWindowFunction[int, int, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[int]
    ) -> Iterator[int]:
        record = context.global_state().get_state(ValueStateDescriptor("record", int, 0))
        assert_type(record.value(), int | None)
        assert_type(context.window(), TimeWindow)
        yield context.current_watermark() + sum(elements)

    def clear(self, context: ProcessWindowFunction.Context[TimeWindow]) -> None:
        context.window_state().get_state(ValueStateDescriptor("times", int)).clear()


class Never(Trigger[int, TimeWindow]):
    def on_element(
        self, element: int, timestamp: int | None, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        ctx.register_event_time_timer(window.max_timestamp() + ctx.get_current_watermark())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(ReducingStateDescriptor("most", max, int))

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None: ...


windows = WindowedStream(TumblingEventTimeWindows.of(timedelta(minutes=1)), int).allowed_lateness(5).trigger(Never())
assert_type(windows.process(Records()), WindowOperation)
assert_type(windows.side_output_late_data(LATE).reduce(max, Records()), WindowOperation)
assert_type(TumblingEventTimeWindows.of(timedelta(minutes=1)), TumblingEventTimeWindows)
