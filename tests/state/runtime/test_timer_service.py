"""Timers of functions: when they fire, in which order, and with which key."""

import pytest

from stateshift import KeyedProcessFunction, TimeDomain, ValueNotConvertible, ValueStateDescriptor
from stateshift.state.testing import KeyedProcessHarness


class Sets(KeyedProcessFunction):
    """Calls a method of the timer service: an element is (key, method, time)."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int, 0))

    def process_element(self, value, ctx):
        _, method, *times = value
        self.count.update(self.count.value() + 1)
        getattr(ctx.timer_service(), method)(*times)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, ctx.time_domain(), self.count.value()


def harness_of(function=None):
    return KeyedProcessHarness(function or Sets(), lambda value: value[0], str)


def fired(harness):
    return [result[:2] for result in harness.take()]


def test_timers_fire_in_time_order_with_their_key():
    harness = harness_of()
    for key, time in [("a", 30), ("b", 10), ("a", 20), ("b", 40)]:
        harness.process_element((key, "register_event_time_timer", time))
    harness.process_watermark(30)

    assert [("b", 10, TimeDomain.EVENT_TIME, 2), ("a", 20, TimeDomain.EVENT_TIME, 2)] == harness.output[:2]
    assert [("b", 10), ("a", 20), ("a", 30)] == fired(harness)
    harness.process_watermark(40)
    assert [("b", 40)] == fired(harness)


def test_the_clock_fires_timers_of_processing_time_only():
    harness = harness_of()
    harness.process_element(("a", "register_event_time_timer", 5))
    harness.process_element(("a", "register_processing_time_timer", 7))
    harness.advance_processing_time(6)
    assert [] == fired(harness)
    harness.advance_processing_time(7)

    assert [(("a", 7, TimeDomain.PROCESSING_TIME, 2), None)] == harness.records


def test_a_timer_that_is_set_twice_fires_once():
    harness = harness_of()
    for _ in range(2):
        harness.process_element(("a", "register_event_time_timer", 5))
    harness.process_watermark(5)

    assert [("a", 5)] == fired(harness)


def test_a_deleted_timer_does_not_fire():
    harness = harness_of()
    for key in "ab":
        harness.process_element((key, "register_event_time_timer", 5))
        harness.process_element((key, "register_processing_time_timer", 5))
    harness.process_element(("a", "delete_event_time_timer", 5))
    harness.process_element(("b", "delete_processing_time_timer", 5))
    harness.process_element(("a", "delete_event_time_timer", 6))
    harness.process_watermark(5)
    harness.advance_processing_time(5)

    assert [("b", 5), ("a", 5)] == fired(harness)


class SetsNext(Sets):
    """A timer sets the next one, as long as it is early."""

    def on_timer(self, timestamp, ctx):
        assert 100 == max(ctx.timer_service().current_watermark(), ctx.timer_service().current_processing_time())
        if timestamp < 13:
            again = ctx.time_domain()
            set_timer = (
                ctx.timer_service().register_event_time_timer
                if again is TimeDomain.EVENT_TIME
                else ctx.timer_service().register_processing_time_timer
            )
            set_timer(timestamp + 1)
        yield ctx.get_current_key(), timestamp


@pytest.mark.parametrize("domain", ["event", "processing"])
def test_timers_that_are_set_while_others_fire_fire_in_time_order(domain):
    harness = harness_of(SetsNext())
    for key, time in (("a", 10), ("b", 12), ("a", 101)):
        harness.process_element((key, f"register_{domain}_time_timer", time))
    (harness.process_watermark if domain == "event" else harness.advance_processing_time)(100)

    assert [10, 11, 12, 12, 13, 13] == [time for _, time in fired(harness)]


def test_a_past_timer_fires_at_the_next_watermark():
    harness = harness_of()
    harness.process_watermark(10)
    harness.process_element(("a", "register_event_time_timer", 5))
    assert [] == fired(harness)
    harness.process_watermark(11)

    assert [("a", 5)] == fired(harness)


@pytest.mark.parametrize("time", [1.5, "5", None, 1 << 63])
def test_a_time_is_an_integer_of_64_bits(time):
    with pytest.raises(ValueNotConvertible, match="is not the time of a timer"):
        harness_of().process_element(("a", "register_event_time_timer", time))


def test_timers_survive_a_restore():
    harness = harness_of()
    harness.process_element(("a", "register_event_time_timer", 5))
    harness.process_element(("b", "register_processing_time_timer", 6))
    snapshot = harness.snapshot()
    harness.process_element(("a", "delete_event_time_timer", 5))
    harness.restore(snapshot)
    harness.process_watermark(5)
    harness.advance_processing_time(6)

    assert [("a", 5), ("b", 6)] == fired(harness)


def test_the_first_processing_timer_is_known():
    harness = harness_of()
    harness.open()
    before = harness.next_processing_time()
    for time in (9, 4):
        harness.process_element(("a", "register_processing_time_timer", time))

    assert (None, 4) == (before, harness.next_processing_time())
