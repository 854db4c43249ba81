"""Functions of every kind in the harness: what they are called with, and where their results go."""

import pytest

from stateshift import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    DeclarationError,
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    TimeDomain,
    ValueNotConvertible,
    ValueStateDescriptor,
)
from stateshift.state.runtime.functions import Function
from stateshift.state.testing import KeyedProcessHarness, ProcessHarness, TaskInfo, TwoInputHarness

LATE = OutputTag("late", int)


def first(value):
    return value[0]


class Doubled(MapFunction):
    def map(self, value):
        return 2 * value


class Twice(FlatMapFunction):
    def flat_map(self, value):
        yield value
        yield value


class Even(FilterFunction):
    def filter(self, value):
        return value % 2 == 0


class Nothing(FlatMapFunction):
    def flat_map(self, value):
        return None


class Stamped(ProcessFunction):
    def process_element(self, value, ctx: "ProcessFunction.Context"):
        service = ctx.timer_service()
        yield value, ctx.timestamp(), service.current_watermark(), service.current_processing_time()
        if value < 0:
            yield LATE, value
            yield OutputTag("late"), value - 1


@pytest.mark.parametrize(
    ("function", "expected"),
    [(Doubled(), [2, 4]), (Twice(), [1, 1, 2, 2]), (Even(), [2]), (Nothing(), [])],
    ids=lambda value: type(value).__name__,
)
def test_a_function_without_keys_makes_results(function, expected):
    assert expected == ProcessHarness(function).process_elements(1, 2)


def test_a_result_has_the_time_stamp_of_its_element():
    harness = ProcessHarness(Doubled())
    harness.process_element(1, 5)
    harness.process_element(2)

    assert [(2, 5), (4, None)] == harness.records


def test_a_process_function_knows_the_times_and_has_side_outputs():
    harness = ProcessHarness(Stamped())
    harness.process_element(1, 5)
    harness.process_watermark(7)
    harness.advance_processing_time(9)
    harness.process_element(-1)

    assert [(1, 5, -(1 << 63), 0), (-1, None, 7, 9)] == harness.output
    assert [-1, -2] == harness.side_output(LATE)


def test_timers_need_keys():
    class Sets(ProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value)

    with pytest.raises(DeclarationError, match="timers need a keyed stream"):
        ProcessHarness(Sets()).process_element(1)


class Lifecycle(MapFunction):
    def __init__(self):
        self.calls = []

    def open(self, runtime_context):
        self.calls.append("open")

    def map(self, value):
        self.calls.append(value)

    def close(self):
        self.calls.append("close")


def test_a_function_is_opened_before_and_closed_after_its_elements():
    function = Lifecycle()
    with ProcessHarness(function) as harness:
        harness.process_elements(1, 2)
    harness.close()

    assert ["open", 1, 2, "close"] == function.calls


class CountsOfBoth(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int, 0))

    def process_element1(self, value, ctx: "KeyedCoProcessFunction.Context"):
        self.count.update(self.count.value() + 1)
        yield ctx.get_current_key(), "one", self.count.value()

    def process_element2(self, value, ctx: "KeyedCoProcessFunction.Context"):
        self.count.update(self.count.value() + 10)
        ctx.timer_service().register_event_time_timer(10)
        yield ctx.get_current_key(), "two", self.count.value()

    def on_timer(self, timestamp, ctx: "KeyedCoProcessFunction.OnTimerContext"):
        yield ctx.get_current_key(), ctx.time_domain(), ctx.timestamp()


def test_two_keyed_inputs_share_states_and_the_slower_watermark():
    harness = TwoInputHarness(CountsOfBoth(), first, lambda value: value, str)
    harness.process_element1(("a", 1))
    harness.process_element2("a")
    harness.process_element2("b")
    assert [("a", "one", 1), ("a", "two", 11), ("b", "two", 10)] == harness.take()
    harness.process_watermark1(20)
    assert ([], -(1 << 63)) == (harness.take(), harness.current_watermark())
    harness.process_watermark2(10)
    harness.process_watermark2(5)

    assert [(key, TimeDomain.EVENT_TIME, 10) for key in "ab"] == sorted(harness.take())
    assert 10 == harness.current_watermark()


class Both(CoMapFunction):
    def map1(self, value):
        return "one", value

    def map2(self, value):
        return "two", value


class BothFlat(CoFlatMapFunction):
    def flat_map1(self, value):
        return ["one"] * value

    def flat_map2(self, value):
        yield from ["two"] * value


class BothProcessed(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield "one", ctx.timestamp()

    def process_element2(self, value, ctx):
        yield "two", ctx.timestamp()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (Both(), [("one", 1), ("two", 2)]),
        (BothFlat(), ["one", "two", "two"]),
        (BothProcessed(), [("one", 5), ("two", 6)]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_two_inputs_without_keys(function, expected):
    harness = TwoInputHarness(function, None, None, None)
    harness.process_element1(1, 5)
    harness.process_element2(2, 6)

    assert expected == harness.output


class FirstOfKey(FilterFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", bool))

    def filter(self, value):
        is_first = self.seen.value() is None
        self.seen.update(True)
        return is_first


def test_a_plain_function_of_a_keyed_stream_has_keyed_state():
    assert [("a", 1), ("b", 2)] == KeyedProcessHarness(FirstOfKey(), first, str).process_elements(
        ("a", 1), ("b", 2), ("a", 3)
    )


def test_a_function_that_needs_keys_is_refused_without():
    with pytest.raises(DeclarationError, match="CountsOfBoth needs a keyed stream"):
        TwoInputHarness(CountsOfBoth(), None, None, None)


def test_a_function_with_two_inputs_is_refused_for_one():
    with pytest.raises(DeclarationError, match="Both has 2 inputs, but 1 are given"):
        ProcessHarness(Both())


def test_a_function_of_no_known_kind_is_refused():
    with pytest.raises(DeclarationError, match="Function is not a function that an operator can call"):
        ProcessHarness(Function())


class Asks(KeyedProcessFunction):
    def __init__(self, *asked):
        self.asked = asked

    def open(self, runtime_context):
        self.found = [getattr(runtime_context, method)(descriptor) for method, descriptor in self.asked]

    def process_element(self, value, ctx):
        return None


def opened(*asked):
    function = Asks(*asked)
    KeyedProcessHarness(function, first, str).open()
    return function.found


def test_one_name_has_one_handle():
    one, other = opened(*[("get_state", ValueStateDescriptor("s", int)) for _ in range(2)])

    assert one is other


def test_another_type_under_a_name_is_an_error_that_names_both():
    with pytest.raises(DeclarationError, match=r"value state of long.*value state of string"):
        opened(("get_state", ValueStateDescriptor("s", int)), ("get_state", ValueStateDescriptor("s", str)))


def test_another_kind_under_a_name_is_an_error_that_names_both():
    with pytest.raises(DeclarationError, match=r"value state of long.*list state of list<long>"):
        opened(("get_state", ValueStateDescriptor("s", int)), ("get_list_state", ListStateDescriptor("s", int)))


def test_a_descriptor_of_another_kind_than_the_method_is_refused():
    with pytest.raises(DeclarationError, match="is not a ValueStateDescriptor"):
        opened(("get_state", MapStateDescriptor("s", str, int)))


def test_keyed_state_needs_a_keyed_stream():
    class Wants(MapFunction):
        def open(self, runtime_context):
            runtime_context.get_state(ValueStateDescriptor("s", int))

        def map(self, value):
            return value

    with pytest.raises(DeclarationError, match="the state 's' needs a keyed stream"):
        ProcessHarness(Wants()).open()


def test_state_cannot_be_accessed_in_open():
    class Reads(Asks):
        def open(self, runtime_context):
            super().open(runtime_context)
            self.found[0].value()

    with pytest.raises(DeclarationError, match="without a current key"):
        KeyedProcessHarness(Reads(("get_state", ValueStateDescriptor("s", int))), first, str).open()


def test_a_function_knows_its_subtask():
    class Knows(MapFunction):
        def open(self, runtime_context):
            self.context = runtime_context

        def map(self, value):
            self.context.get_metrics_group().counter("elements").inc()
            return value

    function = Knows()
    task = TaskInfo(name="count", index=1, parallelism=2, max_parallelism=4, attempt=3, job_parameters={"mode": "fast"})
    ProcessHarness(function, task=task).process_elements(1, 2)
    context = function.context

    assert ("count", "count (2/2)") == (context.get_task_name(), context.get_task_name_with_subtasks())
    assert (1, 2, 4) == (
        context.get_index_of_this_subtask(),
        context.get_number_of_parallel_subtasks(),
        context.get_max_number_of_parallel_subtasks(),
    )
    assert 3 == context.get_attempt_number()
    assert ("fast", "none") == (context.get_job_parameter("mode", "slow"), context.get_job_parameter("x", "none"))
    assert 2 == context.get_metrics_group().counter("elements").get_count()


def test_a_key_of_another_subtask_is_refused():
    task = TaskInfo(index=1, parallelism=2)

    with pytest.raises(ValueNotConvertible, match="the key 'c' is in key group"):
        KeyedProcessHarness(FirstOfKey(), first, str, task=task).process_element(("c", 1))
