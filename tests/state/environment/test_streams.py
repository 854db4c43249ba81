"""Programs of streams, run in this process."""

from __future__ import annotations

import math
from collections import Counter
from traceback import extract_tb

import pytest

from stateshift.pyflink.common import Duration, Row, Time, Types, WatermarkStrategy
from stateshift.pyflink.common.watermark_strategy import TimestampAssigner
from stateshift.pyflink.datastream import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    RuntimeExecutionMode,
    SinkFunction,
    SourceFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from stateshift.pyflink.datastream.functions import AllWindowFunction, ProcessAllWindowFunction
from stateshift.pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor
from stateshift.pyflink.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from stateshift.serializers.errors import DeclarationError, ValueNotConvertible
from stateshift.serializers.pickled.serializers import PickleSerializer

WORDS = ["to be or not", "to be"]


class Totals(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        yield value[0], total


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.mark.parametrize("parallelism", [1, 2, 7])
@pytest.mark.parametrize("key_type", [None, Types.STRING()])
def test_words_are_counted_at_any_parallelism(env, parallelism, key_type):
    env.set_parallelism(parallelism)
    words = env.from_collection(WORDS).flat_map(str.split).map(lambda word: (word, 1))
    counts = words.key_by(lambda pair: pair[0], key_type).process(Totals())

    expected = {("to", 1), ("be", 1), ("or", 1), ("not", 1), ("to", 2), ("be", 2)}
    assert sorted(expected) == sorted(counts.execute_and_collect())


def test_only_what_was_declared_since_the_last_run_is_run(env, capsys):
    numbers = env.from_collection([1, 2, 3])
    numbers.map(lambda number: number + 1).print()
    env.execute()
    numbers.filter(lambda number: number > 2).print("large")
    env.execute("second")

    assert ["2", "3", "4", "large> 3"] == capsys.readouterr().out.splitlines()
    with pytest.raises(DeclarationError, match="nothing to run"):
        env.execute()


def test_the_subtask_is_printed_where_there_are_several(env, capsys):
    env.from_collection([1, 2]).rebalance().print().set_parallelism(2)
    env.execute()

    assert ["1> 1", "2> 2"] == capsys.readouterr().out.splitlines()


def test_typed_elements_are_printed_as_flink_does(env, capsys):
    pair = Types.TUPLE([Types.STRING(), Types.BOOLEAN()])
    env.from_collection([("a", True)], pair).print()
    env.from_collection([("a", True)]).print()
    env.from_collection([("a", 7)], Types.ROW([Types.STRING(), Types.INT()])).print()
    env.execute()

    assert ["(a,true)", "('a', True)", "+I[a,7]"] == capsys.readouterr().out.splitlines()


def test_an_element_has_the_type_of_its_stream(env):
    named = Types.ROW_NAMED(["id", "rate"], [Types.INT(), Types.FLOAT()])
    found = env.from_collection([(1, 110.1)], named).map(lambda row: row.rate).execute_and_collect(limit=1)

    assert [110.0999984741211] == found
    with pytest.raises(ValueNotConvertible):
        env.from_collection(["one"], Types.INT())
    with pytest.raises(ValueNotConvertible) as refused:
        env.from_collection(["one"]).map(lambda text: text, Types.INT()).name("Numbers").execute_and_collect()
    assert "Numbers" in str(refused.value)


@pytest.mark.parametrize(
    ("type_info", "given", "expected"),
    [
        (Types.LONG(), True, 1),
        (Types.TUPLE([Types.STRING(), Types.DOUBLE()]), ["a", 2], ("a", 2.0)),
        (Types.FLOAT(), 0.1, 0.10000000149011612),
        (Types.LIST(Types.INT()), (1, 2), [1, 2]),
    ],
)
def test_a_value_is_what_it_is_read_as(env, type_info, given, expected):
    (found,) = env.from_collection([given], type_info).execute_and_collect()
    (mapped,) = env.from_collection([given]).map(lambda value: value, type_info).execute_and_collect()

    assert [(expected, type(expected))] * 2 == [(found, type(found)), (mapped, type(mapped))]


@pytest.mark.parametrize(
    ("type_info", "given"), [(Types.BYTE(), 128), (Types.INT(), -(2**31) - 1), (Types.STRING(), 1)]
)
def test_a_value_that_does_not_fit_its_type_is_refused(env, type_info, given):
    with pytest.raises(ValueNotConvertible):
        env.from_collection([given]).map(lambda value: value, type_info).execute_and_collect()


def test_fields_are_summed_and_compared(env):
    def results(method, elements, position, type_info=None):
        keyed = env.from_collection(elements, type_info).key_by(lambda value: value[0])
        return list(getattr(keyed, method)(position).execute_and_collect())

    values = [("a", 3, "x"), ("a", 1, "y"), ("a", 1, "z"), ("a", 9, "v")]
    named = Types.ROW_NAMED(["key", "n"], [Types.STRING(), Types.INT()])

    assert [3, 4, 5, 14] == [value[1] for value in results("sum", values, 1)]
    assert ("a", 1, "x") == results("min", values, 1)[-1]
    assert ("a", 9, "x") == results("max", values, 1)[-1]
    assert ("a", 1, "y") == results("min_by", values, 1)[-1]
    assert ("a", 9, "v") == results("max_by", values, 1)[-1]
    assert [Row("a", 1), Row("a", 3)] == results("sum", [("a", 1), ("a", 2)], "n", named)
    assert [1, 3] == list(env.from_collection([1, 2]).key_by(lambda _: 0).sum().execute_and_collect())
    with pytest.raises(DeclarationError, match="has no field 1"):
        list(env.from_collection([1, 2]).key_by(lambda _: 0).sum(1).execute_and_collect())


def test_in_batch_mode_reduce_has_one_result_for_a_key(env):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    reduced = env.from_collection([("a", 1), ("b", 2), ("a", 3)]).key_by(lambda value: value[0])

    assert {("a", 4), ("b", 2)} == set(reduced.reduce(lambda one, two: (one[0], one[1] + two[1])).execute_and_collect())


def test_input_ends_with_the_largest_watermark(env):
    class AtEnd(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(10**15)
            ctx.timer_service().register_processing_time_timer(10**15)

        def on_timer(self, timestamp, ctx):
            yield ctx.get_current_key(), timestamp, ctx.time_domain().name

    fired = env.from_collection([1, 2]).key_by(lambda value: value, Types.LONG()).process(AtEnd())

    assert [(1, 10**15, "EVENT_TIME"), (2, 10**15, "EVENT_TIME")] == sorted(fired.execute_and_collect())


def test_timers_of_processing_time_fire_between_elements(env):
    class Waiting(KeyedProcessFunction):
        def process_element(self, value, ctx):
            if value == 0:
                ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time())
                self.fired = False

        def on_timer(self, timestamp, ctx):
            yield "fired"

    class UntilFired(SourceFunction):
        def run(self, ctx):
            number = 0
            while True:
                ctx.collect(number)
                number += 1

        def cancel(self):
            pass

    found = env.add_source(UntilFired()).key_by(lambda _: 0, Types.INT()).process(Waiting())

    assert ["fired"] == found.execute_and_collect(limit=1)


def counted(key, context, elements):
    return [(key, context.window().start, context.window().end, len(list(elements)))]


class CountInWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        return counted(key, context, elements)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_windows_of_event_time(env, parallelism):
    env.set_parallelism(parallelism)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    windows = (
        env.from_collection([("hi", 1), ("hi", 4), ("yo", 2), ("hi", 15)])
        .assign_timestamps_and_watermarks(strategy)
        .key_by(lambda value: value[0], Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(5)))
    )
    output_type = Types.TUPLE([Types.STRING(), Types.INT(), Types.INT(), Types.INT()])
    found = windows.process(CountInWindow(), output_type).execute_and_collect()
    reduced = windows.reduce(lambda one, two: (one[0], one[1] + two[1])).execute_and_collect()

    assert [("hi", 0, 5, 2), ("hi", 15, 20, 1), ("yo", 0, 5, 1)] == sorted(found)
    assert [("hi", 5), ("hi", 15), ("yo", 2)] == sorted(reduced, key=lambda pair: (pair[0], pair[1]))


def test_windows_of_a_stream_without_keys(env):
    class Sum(AllWindowFunction):
        def apply(self, window, inputs):
            return [("sum", sum(number for _, number in inputs))]

    class Count(ProcessAllWindowFunction):
        def process(self, context, elements):
            yield context.window().start, len(list(elements))

    class Mean(AggregateFunction):
        def create_accumulator(self):
            return 0, 0

        def add(self, value, accumulator):
            return accumulator[0] + value[1], accumulator[1] + 1

        def get_result(self, accumulator):
            return accumulator[0] / accumulator[1]

        def merge(self, acc_a, acc_b):
            return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]

    env.set_parallelism(3)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    stream = env.from_collection([("a", 1), ("b", 3), ("a", 12)]).assign_timestamps_and_watermarks(strategy)
    windows = stream.window_all(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    sessions = stream.key_by(lambda _: "one").window(EventTimeSessionWindows.with_gap(Time.milliseconds(10)))

    assert [("sum", 4), ("sum", 12)] == list(windows.apply(Sum()).execute_and_collect())
    assert [(0, 2), (10, 1)] == list(windows.process(Count()).execute_and_collect())
    assert [2.0, 12.0] == list(
        windows.aggregate(Mean(), accumulator_type=Types.TUPLE([int, int])).execute_and_collect()
    )
    assert [16 / 3] == list(sessions.aggregate(Mean()).execute_and_collect())


class Event:
    def __init__(self, number):
        self.number = number


def test_elements_of_any_class_are_kept_in_memory_and_written_with_a_type_only(env, tmp_path):
    class Numbers(WindowFunction):
        def apply(self, key, window, inputs):
            return [[event.number for event in inputs]]

    def program(type_info=None):
        keyed = env.from_collection([Event(1), Event(2), Event(3)], type_info).key_by(lambda _: 0, Types.INT())
        return keyed.count_window(2).apply(Numbers())

    assert [[1, 2]] == list(program().execute_and_collect())
    program()
    with pytest.raises(ValueNotConvertible, match="which the serializer does not list"):
        env.execute(savepoint=tmp_path / "sp")
    program(PickleSerializer(Event))
    env.execute(savepoint=tmp_path / "typed")


def test_count_windows(env):
    class Sum(WindowFunction):
        def apply(self, key, window, inputs):
            return [(key, sum(number for number, _ in inputs))]

    keyed = env.from_collection([(1, "a"), (2, "b"), (3, "a"), (4, "a"), (5, "a")]).key_by(lambda pair: pair[1])

    assert [("a", 4), ("a", 9)] == list(keyed.count_window(2).apply(Sum()).execute_and_collect())
    assert [("a", 4), ("a", 7), ("a", 9)] == list(keyed.count_window(2, 1).apply(Sum()).execute_and_collect())


class WithWatermarks(SourceFunction):
    """Emits time stamps, and a watermark where the number is negative."""

    def __init__(self, *numbers):
        self.numbers = numbers

    def run(self, ctx):
        for number in self.numbers:
            if number < 0:
                ctx.emit_watermark(-number)
            else:
                ctx.collect_with_timestamp(("k", number), number)

    def cancel(self):
        pass


def test_late_elements_go_to_their_side_output(env):
    late = OutputTag("late")
    windows = env.add_source(WithWatermarks(1, 12, -10, 2, -30, 3)).key_by(lambda value: value[0], Types.STRING())
    main = (
        windows.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        .allowed_lateness(5)
        .side_output_late_data(late)
        .process(CountInWindow())
    )
    seen = []
    main.get_side_output(late).add_sink(seen.append)

    assert [("k", 0, 10, 1), ("k", 0, 10, 2), ("k", 10, 20, 1)] == list(main.execute_and_collect())
    assert [("k", 3)] == seen


def test_event_time_is_that_of_the_slowest_input(env):
    one, two = env.add_source(WithWatermarks(1, -100)), env.add_source(WithWatermarks(2, 3, -4))
    windows = one.union(two).window_all(TumblingEventTimeWindows.of(Time.milliseconds(10)))

    assert [("k", 6)] == list(windows.reduce(lambda a, b: (a[0], a[1] + b[1])).execute_and_collect())


def test_an_idle_input_does_not_hold_event_time_back(env):
    class Times(ProcessFunction):
        def process_element(self, value, ctx):
            yield value, ctx.timer_service().current_watermark()

    class Endless(SourceFunction):
        def run(self, ctx):
            while True:
                ctx.collect(("busy", 100))

        def cancel(self):
            pass

    env.get_config().set_auto_watermark_interval(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    busy = env.add_source(Endless()).assign_timestamps_and_watermarks(strategy)
    # It is read when the first one has ended, so nothing comes of it.
    idle = env.from_collection([]).assign_timestamps_and_watermarks(strategy.with_idleness(Duration.of_millis(2)))
    seen = busy.union(idle).process(Times()).filter(lambda pair: pair[1] == 99)

    assert [(("busy", 100), 99)] == seen.execute_and_collect(limit=1)


def test_side_outputs(env):
    odd = OutputTag("odd", Types.STRING())

    class Sort(ProcessFunction):
        def process_element(self, value, ctx):
            if value % 2:
                yield odd, f"odd {value}"
            else:
                yield value

    sorted_out = env.from_collection(range(5)).process(Sort())
    seen = []
    sorted_out.get_side_output(odd).sink_to(seen.append)

    assert [0, 2, 4] == list(sorted_out.execute_and_collect())
    assert ["odd 1", "odd 3"] == seen


@pytest.mark.parametrize("parallelism", [1, 4])
def test_connected_streams_share_the_state_of_a_key(env, parallelism):
    class Join(KeyedCoProcessFunction):
        def open(self, runtime_context):
            self.name = runtime_context.get_state(ValueStateDescriptor("name", Types.STRING()))

        def process_element1(self, value, ctx):
            self.name.update(value[1])

        def process_element2(self, value, ctx):
            yield self.name.value(), value[1]

    env.set_parallelism(parallelism)
    names = env.from_collection([(1, "ada"), (2, "bob")])
    visits = env.from_collection([(2, "x"), (1, "y"), (3, "z")])
    both = names.connect(visits).key_by(lambda value: value[0], lambda value: value[0], Types.INT())

    assert {("bob", "x"), ("ada", "y"), (None, "z")} == set(both.process(Join()).execute_and_collect())


def test_connected_streams_without_keys(env):
    class Both(CoMapFunction):
        def map1(self, value):
            return "first", value

        def map2(self, value):
            return "second", value

    class Beside(CoProcessFunction):
        def process_element1(self, value, ctx):
            yield value

        def process_element2(self, value, ctx):
            yield -value

    one, two = env.from_collection([1]), env.from_collection([2])

    assert [("first", 1), ("second", 2)] == list(one.connect(two).map(Both()).execute_and_collect())
    assert [1, -2] == list(one.connect(two).process(Beside()).execute_and_collect())


RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


@pytest.mark.parametrize("parallelism", [1, 3])
def test_broadcast_state_is_in_every_subtask(env, parallelism):
    class Apply(BroadcastProcessFunction):
        def process_element(self, value, ctx):
            yield value * ctx.get_broadcast_state(RULES).get("factor")

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(RULES).put(*value)

    class ApplyKeyed(KeyedBroadcastProcessFunction):
        def process_element(self, value, ctx):
            yield ctx.get_current_key(), value * ctx.get_broadcast_state(RULES).get("factor")

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(RULES).put(*value)

    env.set_parallelism(parallelism)
    rules = env.from_collection([("factor", 10)]).broadcast(RULES)  # declared first, so it is read first
    numbers = env.from_collection([1, 2, 3])
    plain = numbers.connect(rules).process(Apply())
    keyed = numbers.key_by(lambda value: value % 2, Types.INT()).connect(rules).process(ApplyKeyed())

    assert [10, 20, 30] == sorted(plain.execute_and_collect())
    assert [(0, 20), (1, 10), (1, 30)] == sorted(keyed.execute_and_collect())


def test_a_program_chooses_the_subtask(env):
    class Where(MapFunction):
        def open(self, runtime_context):
            self.index = runtime_context.get_index_of_this_subtask()

        def map(self, value):
            return value, self.index

    numbers = env.from_collection([5, 7, 8])
    chosen = numbers.partition_custom(lambda key, count: key % count, lambda value: value)
    everywhere = numbers.broadcast()

    assert [(5, 2), (7, 1), (8, 2)] == sorted(chosen.map(Where()).set_parallelism(3).execute_and_collect())
    assert {5: 3, 7: 3, 8: 3} == Counter(
        value for value, _ in everywhere.map(Where()).set_parallelism(3).execute_and_collect()
    )


def test_each_subtask_has_a_function_of_its_own_and_plain_ones_are_called_as_they_are(env):
    class Remember(MapFunction):
        def __init__(self):
            self.seen = []

        def map(self, value):
            self.seen.append(value)
            return len(self.seen)

    function, seen = Remember(), []
    env.from_collection([1, 2, 3, 4]).rebalance().map(function).set_parallelism(2).add_sink(seen.append)
    env.execute()

    assert [1, 1, 2, 2] == sorted(seen)
    assert [] == function.seen


def test_a_sink_function_is_opened_and_closed(env):
    calls = []

    class Sink(SinkFunction):
        def open(self, runtime_context):
            calls.append("open")

        def invoke(self, value):
            calls.append(value)

        def close(self):
            calls.append("close")

    env.from_collection([1]).add_sink(Sink())
    env.execute()

    assert ["open", 1, "close"] == calls


def test_errors_name_operator_and_element(env):
    env.from_collection([1, 0]).map(lambda value: 1 / value).name("Inverse").print()
    with pytest.raises(ZeroDivisionError) as raised:
        env.execute()

    assert ["  where: operator Inverse, element 0"] == raised.value.__notes__


class Wrong(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return str(value)


def test_a_time_stamp_that_is_none_is_told_of_its_assigner(env):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Wrong())
    env.from_collection([1]).map(str).name("Before").assign_timestamps_and_watermarks(strategy).print()
    with pytest.raises(DeclarationError, match=r"'1' is no time stamp\n  where: operator Timestamps/Watermarks, ele"):
        env.execute()


def test_an_error_shows_the_frames_of_the_program(env):
    def inverse(value):
        return 1 / value

    for function, names in ((inverse, ["inverse"]), (int, ["map"])):
        env.from_collection(["a" if function is int else 0]).map(function).print()
        with pytest.raises((ZeroDivisionError, ValueError)) as raised:
            env.execute()

        found = [frame.name for frame in extract_tb(raised.value.__traceback__)]
        assert [*names] == found[found.index("execute") + 1 :]


def test_every_error_of_an_operator_with_a_uid_has_the_uid(env):
    class Opens(KeyedProcessFunction):
        def open(self, runtime_context):
            raise KeyError("no")

        def process_element(self, value, ctx):
            pass

    for function in (Opens(), Opens):
        env.from_collection([1]).key_by(str, Types.STRING()).process(function).name("Named").uid("opens").print()
        with pytest.raises((KeyError, DeclarationError)) as raised:
            env.execute()

        assert "operator opens" in "\n".join([str(raised.value), *getattr(raised.value, "__notes__", ())])


def test_a_type_without_parentheses_is_told_where_it_is_written(env):
    numbers = env.from_collection([1])
    for declare in (
        lambda: env.from_collection([1], Types.LONG),
        lambda: numbers.map(str, Types.STRING),
        lambda: numbers.key_by(str, Types.STRING),
        lambda: ValueStateDescriptor("v", Types.LIST(Types.LONG)),
        lambda: Types.ROW_NAMED(["a"], [Types.LONG]),
    ):
        with pytest.raises(DeclarationError, match=r"Types\.[A-Z]+ is a function, not a type\n  what to do: call it"):
            declare()


def test_what_cannot_be_is_refused_when_it_is_declared(env):
    numbers = env.from_collection([1])
    with pytest.raises(DeclarationError, match=r"timedelta.* is no WindowAssigner"):
        numbers.key_by(str).window(Time.seconds(3))
    with pytest.raises(DeclarationError, match="3 is no Trigger"):
        numbers.window_all(TumblingEventTimeWindows.of(Time.seconds(3))).trigger(3)
    with pytest.raises(DeclarationError, match="no MapFunction"):
        numbers.map(MapFunction)
    with pytest.raises(DeclarationError, match="no operator of its own"):
        numbers.union(numbers).uid("both")
    with pytest.raises(DeclarationError, match="one of two connected streams has keys"):
        numbers.key_by(lambda value: value).connect(numbers).process(Totals())
    with pytest.raises(DeclarationError, match="no source that runs here"):
        env.add_source([1, 2])
    with pytest.raises(DeclarationError, match="not a key of the configuration"):
        env.configure({"parallelism.defautl": 2})
    for refused in (numbers.map(abs).set_parallelism(0), numbers.map(abs).set_max_parallelism(0)):
        with pytest.raises(DeclarationError, match="is not possible"):
            refused.execute_and_collect()
    with pytest.raises(DeclarationError, match="two operators have the uid 'same'"):
        numbers.map(abs).uid("same").map(abs).uid("same").execute_and_collect()


def test_an_endless_source_is_stopped_when_there_is_enough(env):
    class Endless(SourceFunction):
        def run(self, ctx):
            number = 0
            while True:
                try:
                    ctx.collect(number)
                except Exception:  # noqa: BLE001 - what a program may do
                    ctx.collect(math.nan)
                number += 1

        def cancel(self):
            pass

    assert [0, 2, 4] == env.add_source(Endless()).filter(lambda number: number % 2 == 0).execute_and_collect(limit=3)


def test_a_union_of_different_types_is_refused():
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers, texts = env.from_collection([1], Types.INT()), env.from_collection(["x"], Types.STRING())

    with pytest.raises(DeclarationError, match="a union of different types: int, string"):
        numbers.union(texts)
