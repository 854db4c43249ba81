"""Functions with state as a user types them: what `make types` must see of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, assert_type

from stateshift import (
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    RuntimeContext,
    StateTtlConfig,
    ValueState,
    ValueStateDescriptor,
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
