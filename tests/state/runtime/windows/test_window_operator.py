"""The window operator in the harness: sums, sessions, lateness, triggers and states, on all backends."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_backends import BACKENDS
from window_jobs import contents

from stateshift import (
    AggregateFunction,
    CheckpointListener,
    CountTrigger,
    DeclarationError,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ListCheckpointed,
    ListStateDescriptor,
    NeverTrigger,
    OutputTag,
    ProcessingTimeSessionWindows,
    ProcessWindowFunction,
    PurgingTrigger,
    ReduceFunction,
    Savepoint,
    SlidingEventTimeWindows,
    StateTtlConfig,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    ValueStateDescriptor,
    WindowedStream,
    WindowFunction,
)
from stateshift.pyflink.datastream.functions import AllWindowFunction, ProcessAllWindowFunction
from stateshift.pyflink.datastream.window import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from stateshift.state.runtime.windows.functions import AllWindowApply, AllWindowProcess
from stateshift.state.testing import KeyedProcessHarness, ProcessHarness, StateMutated, TaskInfo

END = (1 << 63) - 1
LATE = OutputTag("late")
TEN = TumblingEventTimeWindows(10, 0)
EVENTS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60), st.integers(-9, 9)), max_size=30)
"""Key, time, value."""


@pytest.fixture(params=BACKENDS)
def backend(request):
    return BACKENDS[request.param]


class Add(ReduceFunction):
    def reduce(self, value1, value2):
        return value1[0], value1[1] + value2[1]


class Shown(ProcessWindowFunction):
    """Yields key, start and end of the window, and the sorted values."""

    def process(self, key, context, elements):
        yield key, context.window().start, context.window().end, sorted(value for _, value in elements)


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def windows(assigner):
    return WindowedStream(assigner, tuple[str, int])


def harness_of(operation, backend=BACKENDS["hashmap"], **options):
    return KeyedProcessHarness(operation, lambda pair: pair[0], str, backend=backend, **options)


def feed(harness, *events):
    """Process events `(key, time, value)`; a number is a watermark. Return the results since the last call."""
    for event in events:
        if isinstance(event, int):
            harness.process_watermark(event)
        else:
            harness.process_element((event[0], event[2]), event[1])
    return harness.take()


@given(events=EVENTS)
def test_the_sum_over_tumbling_windows_is_the_sum_of_all_elements(events):
    results = feed(harness_of(windows(TEN).reduce(Add())), *events, END)
    expected = Counter()
    for key, _, value in events:
        expected[key] += value

    assert expected == sum_by_key(results)


def sum_by_key(results):
    found = Counter()
    for key, value in results:
        found[key] += value
    return found


@given(events=EVENTS)
def test_an_element_is_in_each_sliding_window_over_it(events):
    results = feed(harness_of(windows(SlidingEventTimeWindows(30, 10, 0)).process(Shown())), *events, END)

    assert Counter({key: 3 * count for key, count in Counter(key for key, _, _ in events).items()}) == Counter(
        key for key, _, _, values in results for _ in values
    )
    for key, start, end, values in results:
        assert sorted(value for k, time, value in events if k == key and start <= time < end) == values


def sessions_of(events, gap):
    """The model: events in the order of their times, cut where the next one comes later than the gap."""
    found = []
    for key in sorted({key for key, _, _ in events}):
        for time, value in sorted((time, value) for k, time, value in events if k == key):
            if found and found[-1][0] == key and time <= found[-1][2]:
                last = found[-1]
                found[-1] = (key, last[1], time + gap, sorted([*last[3], value]))
            else:
                found.append((key, time, time + gap, [value]))
    return found


@settings(max_examples=50)
@given(events=EVENTS, cut=st.integers(0, 30), name=st.sampled_from(sorted(BACKENDS.keys() - {"rocksdb"})))
def test_sessions_are_those_of_the_model_in_any_order_and_over_a_restore(events, cut, name):
    harness = harness_of(windows(EventTimeSessionWindows(5)).process(Shown()), BACKENDS[name])
    feed(harness, *events[:cut])
    harness.restore(harness.snapshot())

    assert sessions_of(events, 5) == sorted(feed(harness, *events[cut:], END))


def test_sessions_merge_across_a_snapshot_and_a_restore(backend):
    harness = harness_of(
        windows(EventTimeSessionWindows(10)).aggregate(Mean(), accumulator_type=tuple[int, int]), backend
    )
    feed(harness, ("a", 0, 1), ("a", 12, 2), ("a", 40, 9))
    snapshot = harness.snapshot()

    assert [1, 2, 9] == feed(harness, END)
    harness.restore(snapshot)
    assert [5, 9] == feed(harness, ("a", 6, 12), END)
    harness.restore(harness.snapshot())
    assert [] == feed(harness, END)


def test_a_session_equal_to_a_merged_one_keeps_what_that_has():
    operation = windows(EventTimeSessionWindows.with_dynamic_gap(lambda pair: pair[1])).reduce(Add())
    harness = harness_of(operation)

    assert [("a", 25)] == feed(harness, ("a", 5, 5), ("a", 0, 10), ("a", 0, 10), END)


def test_sessions_by_the_clock(backend):
    harness = harness_of(windows(ProcessingTimeSessionWindows(10)).reduce(Add()), backend)
    for now in (0, 6, 13, 40):
        harness.advance_processing_time(now)
        harness.process_element(("a", 1))
    assert [(("a", 3), 22)] == harness.records
    harness.advance_processing_time(48)
    assert 1 == len(harness.records)
    harness.advance_processing_time(49)

    assert [("a", 3), ("a", 1)] == harness.output


def test_tumbling_windows_by_the_clock_end_with_it(backend):
    harness = harness_of(windows(TumblingProcessingTimeWindows(10, 0)).process(Shown()), backend)
    harness.process_element(("a", 1))
    harness.advance_processing_time(8)
    harness.process_element(("a", 2))
    harness.restore(harness.snapshot())
    assert [] == harness.take()
    harness.advance_processing_time(9)

    assert [("a", 0, 10, [1, 2])] == harness.take()
    assert harness.next_processing_time() is None


def test_results_have_the_last_time_of_their_window(backend):
    harness = harness_of(windows(TEN).reduce(Add()), backend)
    harness.process_element(("a", 1), 3)
    harness.process_watermark(8)
    assert [] == harness.records
    harness.process_watermark(9)

    assert [(("a", 1), 9)] == harness.records


def test_a_late_element_fires_again_within_the_allowed_lateness_and_goes_aside_beyond(backend):
    operation = windows(TEN).allowed_lateness(5).side_output_late_data(LATE).reduce(Add())
    harness = harness_of(operation, backend)

    assert [("a", 1)] == feed(harness, ("a", 1, 1), 9)
    assert [("a", 3)] == feed(harness, ("a", 2, 2), 13)
    harness.restore(harness.snapshot())
    assert [("a", 7)] == feed(harness, 13, ("a", 3, 4))
    assert [] == feed(harness, 14, ("a", 4, 8), ("a", 9, 8))
    assert [("a", 8), ("a", 8)] == harness.side_output(LATE)
    assert [("a", 5)] == feed(harness, ("a", 12, 5), 100)


def test_a_late_element_may_join_a_session_that_is_not_over(backend):
    operation = windows(EventTimeSessionWindows(10)).side_output_late_data(LATE).process(Shown())
    harness = harness_of(operation, backend)

    assert [] == feed(harness, ("a", 20, 1), 25, ("a", 12, 2))
    assert [("a", 12, 30, [1, 2])] == feed(harness, ("a", 1, 3), 40)
    assert [("a", 3)] == harness.side_output(LATE)


def test_without_a_side_output_late_elements_are_counted():
    counts = []

    class Counting(Shown):
        def open(self, runtime_context):
            counts.append(runtime_context.get_metrics_group().counter("numLateRecordsDropped"))

    harness = harness_of(windows(TEN).process(Counting()))
    feed(harness, 30, ("a", 1, 1), ("a", 2, 1), ("a", 35, 1))

    assert 2 == counts[0].get_count()


class States(ProcessWindowFunction):
    """Counts how often it was called: for each window, and for the key."""

    OF_WINDOW, OF_KEY = ValueStateDescriptor("of window", int, 0), ValueStateDescriptor("of key", int, 0)

    def process(self, key, context, elements):
        of_window = context.window_state().get_state(self.OF_WINDOW)
        of_key = context.global_state().get_state(self.OF_KEY)
        of_window.update(of_window.value() + 1)
        of_key.update(of_key.value() + 1)
        yield key, context.window().start, of_window.value(), of_key.value(), context.current_watermark()

    def clear(self, context):
        context.window_state().get_state(self.OF_WINDOW).clear()


def test_a_window_has_states_for_itself_and_shares_others_with_all_of_its_key(backend):
    harness = harness_of(windows(TEN).allowed_lateness(20).process(States()), backend)

    assert [("a", 0, 1, 1, 9)] == feed(harness, ("a", 1, 1), 9)
    harness.restore(harness.snapshot())
    assert [("a", 0, 2, 2, 9), ("a", 10, 1, 3, 19)] == feed(harness, 9, ("a", 2, 1), ("a", 12, 1), 19)
    assert [("b", 0, 1, 1, 19)] == feed(harness, ("b", 1, 1))


def test_the_states_of_a_window_are_gone_with_it(backend, tmp_path):
    harness = harness_of(windows(TEN).trigger(CountTrigger.of(2)).process(States()), backend)
    feed(harness, ("a", 1, 1), ("a", 2, 1), ("a", 3, 1), END)
    harness.snapshot(tmp_path / "savepoint")
    _, entries = contents(Savepoint.open(tmp_path / "savepoint"), "harness")

    assert {"of key"} == {state for state, _ in entries}


def test_states_of_windows_may_have_ttl(backend):
    lived = StateTtlConfig.new_builder(timedelta(milliseconds=10)).build()
    counted = ValueStateDescriptor("counted", int, 0, time_to_live=lived)

    class Counting(ProcessWindowFunction):
        def process(self, key, context, elements):
            state = context.window_state().get_state(counted)
            state.update(state.value() + 1)
            yield context.window().start, state.value()

    harness = harness_of(windows(TEN).trigger(CountTrigger.of(1)).process(Counting()), backend)
    found = []
    for now, time in [(0, 1), (5, 2), (6, 12), (14, 3), (16, 13), (24, 4)]:
        harness.advance_processing_time(now)
        found += feed(harness, ("a", time, 1))

    assert [(0, 1), (0, 2), (10, 1), (0, 3), (10, 1), (0, 1)] == found


class Fired(ProcessWindowFunction, ListCheckpointed, CheckpointListener):
    """Has operator state: how many windows fired in the subtask."""

    state_type = int

    def __init__(self):
        self.fired, self.complete = 0, []

    def process(self, key, context, elements):
        self.fired += 1
        yield key, self.fired

    def snapshot_state(self, checkpoint_id, timestamp):
        return [self.fired]

    def restore_state(self, state):
        self.fired = sum(state)

    def notify_checkpoint_complete(self, checkpoint_id):
        self.complete.append(checkpoint_id)


def test_a_window_function_may_have_operator_state():
    function = Fired()
    harness = harness_of(windows(TEN).process(function))
    assert [("a", 1), ("b", 2)] == sorted(feed(harness, ("a", 1, 1), ("b", 1, 1), 10))
    snapshot = harness.snapshot()
    harness.notify_checkpoint_complete()
    harness.restore(snapshot, function=windows(TEN).process(Fired()))

    assert [("a", 3)] == feed(harness, ("a", 11, 1), 20)
    assert [1] == function.complete


def test_windows_that_merge_have_no_states_for_themselves():
    harness = harness_of(windows(EventTimeSessionWindows(10)).process(States()))

    with pytest.raises(DeclarationError, match="'of window' cannot be kept for each window"):
        feed(harness, ("a", 1, 1), END)


class Applied(WindowFunction):
    def open(self, runtime_context):
        self.opened = True

    def apply(self, key, window, inputs):
        return [(key, window, list(inputs), self.opened)]


def test_a_window_function_gets_the_elements_or_the_one_result(backend):
    elements = harness_of(windows(TEN).apply(Applied()), backend)
    assert [("a", TimeWindow(0, 10), [("a", 1), ("a", 3)], True)] == feed(elements, ("a", 1, 1), ("a", 2, 3), 10)
    reduced = harness_of(windows(TEN).reduce(Add(), Applied()), backend)
    assert [("a", TimeWindow(0, 10), [("a", 4)], True)] == feed(reduced, ("a", 1, 1), ("a", 2, 3), 10)
    mean = harness_of(windows(TEN).aggregate(Mean(), Applied(), tuple[int, int]), backend)

    assert [("a", TimeWindow(0, 10), [2.0], True)] == feed(mean, ("a", 1, 1), ("a", 2, 3), 10)


def test_functions_of_all_windows_have_no_key():
    class Applying(AllWindowFunction):
        def open(self, runtime_context):
            self.opened = True

        def apply(self, window, inputs):
            return [(window.start, len(inputs), self.opened)]

    class Processing(ProcessAllWindowFunction):
        def process(self, context, elements):
            state = context.window_state().get_state(ValueStateDescriptor("seen", int, 0))
            state.update(state.value() + 1)
            yield context.window().start, len(elements), state.value()

        def clear(self, context):
            context.window_state().get_state(ValueStateDescriptor("seen", int, 0)).clear()

    applied = harness_of(windows(TEN).apply(AllWindowApply(Applying())))
    assert [(0, 2, True)] == feed(applied, ("a", 1, 1), ("a", 2, 3), 10)
    processed = harness_of(windows(TEN).process(AllWindowProcess(Processing())))

    assert [(0, 2, 1)] == feed(processed, ("a", 1, 1), ("a", 2, 3), 10)


def test_a_count_trigger_fires_with_all_that_is_there_and_purging_empties_it(backend):
    events = [("a", time, time) for time in range(1, 6)]
    counting = harness_of(windows(TEN).trigger(CountTrigger.of(2)).process(Shown()), backend)
    feed(counting, events[0])
    counting.restore(counting.snapshot())
    assert [("a", 0, 10, [1, 2]), ("a", 0, 10, [1, 2, 3, 4])] == feed(counting, *events[1:], END)
    purging = harness_of(windows(TEN).trigger(PurgingTrigger.of(CountTrigger.of(2))).process(Shown()), backend)

    assert [("a", 0, 10, [1, 2]), ("a", 0, 10, [3, 4])] == feed(purging, *events, END)


def test_counts_of_merging_windows_are_added(backend):
    harness = harness_of(windows(EventTimeSessionWindows(10)).trigger(CountTrigger.of(3)).process(Shown()), backend)

    assert [("a", 0, 22, [1, 2, 3])] == feed(harness, ("a", 0, 1), ("a", 12, 2), ("a", 6, 3))


def test_global_windows_never_fire_by_themselves(backend):
    silent = harness_of(windows(GlobalWindows.create()).reduce(Add()), backend)
    assert [] == feed(silent, ("a", 1, 1), END)
    counted = harness_of(windows(GlobalWindows.create()).trigger(CountTrigger.of(2)).reduce(Add()), backend)

    assert [("a", 3), ("a", 10)] == feed(counted, ("a", 1, 1), ("a", 2, 2), ("b", 3, 9), ("a", 3, 3), ("a", 4, 4), END)


def test_a_continuous_trigger_fires_at_multiples_of_its_interval_and_at_the_end(backend):
    trigger = ContinuousEventTimeTrigger.of(timedelta(milliseconds=4))
    harness = harness_of(windows(TEN).trigger(trigger).process(Shown()), backend)

    assert [] == feed(harness, ("a", 1, 1), ("a", 2, 2), 3)
    assert [("a", 0, 10, [1, 2])] == feed(harness, 4)
    harness.restore(harness.snapshot())
    assert [("a", 0, 10, [1, 2, 3])] == feed(harness, ("a", 5, 3), 8)
    assert [("a", 0, 10, [1, 2, 3])] == feed(harness, 9)
    assert [] == feed(harness, END)


def test_a_continuous_trigger_serves_windows_that_merge(backend):
    trigger = ContinuousEventTimeTrigger(20)
    harness = harness_of(windows(EventTimeSessionWindows(50)).trigger(trigger).process(Shown()), backend)

    assert [] == feed(harness, ("a", 1, 1), ("a", 70, 2), ("a", 30, 3), 19)
    assert [("a", 1, 120, [1, 2, 3])] == feed(harness, 20)
    assert 5 == len(feed(harness, END))  # at 40, 60, 80, 100 and 119


def test_a_continuous_trigger_by_the_clock(backend):
    trigger = ContinuousProcessingTimeTrigger.of(timedelta(milliseconds=4))
    harness = harness_of(windows(TumblingProcessingTimeWindows(10, 0)).trigger(trigger).process(Shown()), backend)
    fired = []
    for now in range(1, 15):
        harness.advance_processing_time(now)
        if now in {1, 6}:
            harness.process_element(("a", now))
        fired += [(now, values) for _, _, _, values in harness.take()]

    assert [(4, [1]), (8, [1, 6]), (9, [1, 6])] == fired
    assert harness.next_processing_time() is None


class EveryFive(Trigger):
    """A trigger of a user: fires five milliseconds after the first element, and empties the window then."""

    SEEN = ListStateDescriptor("seen", int)

    def on_element(self, element, timestamp, window, ctx):
        seen = ctx.get_partitioned_state(self.SEEN)
        if not seen.get():
            ctx.register_event_time_timer(timestamp + 5)
            ctx.get_metric_group().counter("begun").inc()
        seen.add(timestamp)
        if element[1] < 0:
            return TriggerResult.PURGE
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        ctx.get_partitioned_state(self.SEEN).clear()
        return TriggerResult.FIRE_AND_PURGE

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self.SEEN)
        for timestamp in ctx.get_partitioned_state(self.SEEN).get():
            ctx.register_event_time_timer(timestamp + 5)

    def clear(self, window, ctx):
        for timestamp in ctx.get_partitioned_state(self.SEEN).get():
            ctx.delete_event_time_timer(timestamp + 5)
        ctx.get_partitioned_state(self.SEEN).clear()


def test_a_trigger_of_a_user_has_timers_and_states_of_its_window(backend):
    harness = harness_of(windows(TumblingEventTimeWindows(100, 0)).trigger(EveryFive()).process(Shown()), backend)

    assert [("a", 0, 100, [1, 2])] == feed(harness, ("a", 1, 1), ("a", 3, 2), 5, 6)
    assert [("a", 0, 100, [3])] == feed(harness, ("a", 20, 3), 25)
    assert [] == feed(harness, ("a", 30, 4), ("a", 31, -1), 40)


class Mergeable(EveryFive):
    def can_merge(self):
        return True


def test_a_trigger_of_a_user_merges_its_states(backend):
    harness = harness_of(windows(EventTimeSessionWindows(50)).trigger(Mergeable()).process(Shown()), backend)

    assert [("a", 0, 130, [1, 2, 3])] == feed(harness, ("a", 80, 1), ("a", 0, 2), ("a", 40, 3), 45)


def test_value_state_cannot_be_merged():
    class Wrong(Mergeable):
        SEEN = ValueStateDescriptor("seen", int)

        def on_element(self, element, timestamp, window, ctx):
            return TriggerResult.CONTINUE

    harness = harness_of(windows(EventTimeSessionWindows(50)).trigger(Wrong()).process(Shown()))

    with pytest.raises(DeclarationError, match="cannot be merged"):
        feed(harness, ("a", 0, 1), ("a", 20, 2))


@pytest.mark.parametrize("trigger", [EveryFive(), NeverTrigger(), PurgingTrigger.of(NeverTrigger())])
def test_windows_that_merge_need_a_trigger_that_can(trigger):
    with pytest.raises(DeclarationError, match="cannot serve the windows of EventTimeSessionWindows, which merge"):
        windows(EventTimeSessionWindows(10)).trigger(trigger).reduce(Add())


def test_functions_of_another_kind_are_refused():
    with pytest.raises(DeclarationError, match="is not a ReduceFunction"):
        windows(TEN).reduce("sum")
    with pytest.raises(DeclarationError, match="neither a WindowFunction nor a ProcessWindowFunction"):
        windows(TEN).reduce(Add(), EventTimeTrigger.create())
    with pytest.raises(DeclarationError, match="agg_function"):
        windows(TEN).aggregate(Add(), accumulator_type=int)
    with pytest.raises(DeclarationError, match="accumulator has no type"):
        windows(TEN).aggregate(Mean())
    for made in (CountTrigger.of, ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger):
        with pytest.raises(DeclarationError, match="from 1, not 0"):
            made(0)
    with pytest.raises(DeclarationError, match="5 is not a timedelta"):
        ContinuousEventTimeTrigger.of(5)


class Wide(EventTimeSessionWindows):
    """An assigner of a user that merges windows into one that is over."""

    def merge_windows(self, windows, callback):
        if len(list(windows)) > 1:
            callback.merge(windows, TimeWindow(0, 1))


def test_windows_cannot_merge_into_one_that_is_over():
    harness = harness_of(windows(Wide(10)).reduce(Add()))

    with pytest.raises(DeclarationError, match=r"merged 1 windows into .* which is over"):
        feed(harness, 5, ("a", 6, 1), ("a", 30, 1))


def test_windows_follow_their_key_groups_to_another_parallelism():
    operation = windows(EventTimeSessionWindows(10)).reduce(Add())
    whole = harness_of(operation)
    keys = [f"key {number}" for number in range(20)]
    feed(whole, *((key, time, 1) for key in keys for time in (0, 18, 9)))
    snapshot, found = whole.snapshot(), []
    for index in range(3):
        part = harness_of(operation, task=TaskInfo(index=index, parallelism=3))
        part.restore(snapshot)
        results = feed(part, END)
        assert len(results) < len(keys)
        found += results

    assert sorted((key, 3) for key in keys) == sorted(found)


def test_windows_need_keys():
    with pytest.raises(DeclarationError, match="windows need a keyed stream"):
        ProcessHarness(windows(TEN).reduce(Add()))


def test_a_change_of_an_element_in_a_window_is_detected():
    class Changing(ProcessWindowFunction):
        def process(self, key, context, elements):
            elements[0].append(1)
            return elements

    operation = WindowedStream(TumblingEventTimeWindows.of(timedelta(seconds=1)), list[int])
    harness = KeyedProcessHarness(operation.allowed_lateness(50).process(Changing()), len, int, detect_mutation=True)
    harness.process_element([7, 7], 1)
    harness.process_watermark(999)

    with pytest.raises(StateMutated):
        harness.process_element([8, 8], 1)
