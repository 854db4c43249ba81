"""Programs on Spark have the results of a local run."""

from __future__ import annotations

from collections import Counter

import attrs
import pytest

from stateshift.pyflink.common import Duration, Time, Types, WatermarkStrategy
from stateshift.pyflink.common.watermark_strategy import TimestampAssigner
from stateshift.pyflink.datastream import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from stateshift.pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor
from stateshift.pyflink.datastream.window import TumblingEventTimeWindows

VISIT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
VISITS = [(user, number, 1000 * (number * 7 % 23)) for number, user in enumerate("abacabadabacabae" * 3)]
LATE = OutputTag("late", Types.STRING())
LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.LONG())


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


def visits(env):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(30)).with_timestamp_assigner(At())
    return env.from_collection(VISITS, VISIT).assign_timestamps_and_watermarks(strategy)


def by_user(stream):
    return stream.key_by(lambda visit: visit[0], Types.STRING())


class Reminders(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(value[2] + 60_000)
        ctx.timer_service().register_processing_time_timer(2**62)  # never fires
        if value[1] > 30:
            yield LATE, value[0]
        yield value[0], value[1]

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, self.count.value(), str(ctx.time_domain())


def timers_and_a_side_output(env):
    both = by_user(visits(env)).process(Reminders())
    return both, both.get_side_output(LATE).map(str.upper)


def windows(env):
    some = visits(env).filter(lambda visit: visit[1] % 5)
    windowed = by_user(some).window(TumblingEventTimeWindows.of(Time.seconds(7)))
    return (windowed.reduce(lambda one, two: (one[0], one[1] + two[1], max(one[2], two[2]))),)


def all_windows(env):
    every = visits(env).window_all(TumblingEventTimeWindows.of(Time.seconds(10)))
    return (every.reduce(lambda one, two: ("", one[1] + two[1], 0)),)


def a_reduce(env):
    return (by_user(visits(env)).sum(1),)


def a_reduce_of_a_batch(env):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return (by_user(env.from_collection(VISITS)).reduce(lambda one, two: (one[0], one[1] + two[1], 0)),)


class Sums(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element1(self, value, ctx):
        self.sum.update((self.sum.value() or 0) + value[1])

    def process_element2(self, value, ctx):
        yield value[0], self.sum.value() or 0


def two_inputs(env):
    asked = env.from_collection([("a", 1), ("e", 2), ("z", 3)])
    return (by_user(env.from_collection(VISITS, VISIT)).connect(by_user(asked)).process(Sums()),)


class OverLimit(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        limit = ctx.get_broadcast_state(LIMITS).get(value[0])
        if limit is not None and value[1] > limit:
            yield value

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(LIMITS).put(*value)


def a_broadcast(env):
    limits = env.from_collection([("a", 10), ("b", 20)]).broadcast(LIMITS)
    return (by_user(env.from_collection(VISITS, VISIT)).connect(limits).process(OverLimit()),)


def one_behind_the_other(env):
    (windowed,) = windows(env)
    return (windowed.key_by(lambda visit: visit[2] // 2000, Types.LONG()).reduce(lambda a, b: ("", a[1] + b[1], a[2])),)


class OddOnes(ProcessFunction):
    def process_element(self, value, ctx):
        yield (LATE, str(value)) if value % 2 else value


def without_state(env):
    one, two = env.from_collection([1, 2, 3]), env.from_collection([4, 5])
    both = one.union(two).flat_map(lambda number: [number] * number).process(OddOnes())
    return both, both.get_side_output(LATE), one.map(lambda number: -number)


@attrs.frozen
class Point:
    x: int


class Firsts(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        if not self.count.value():
            self.count.update(1)
            yield value


def values_of_a_class(env):
    points = env.from_collection([Point(1), Point(1), Point(2)]).filter(lambda point: point.x)
    pairs = points.key_by(lambda point: point.x).map(lambda point: (Point(point.x + 1), 1))
    return (pairs.key_by(lambda pair: pair[0].x, Types.LONG()).process(Firsts()),)


def no_elements(env):
    return (by_user(env.from_collection([], VISIT)).sum(1),)


def found(program, **how):
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 2})
    seen = []
    for stream in program(env):
        seen.append([])
        stream.add_sink(seen[-1].append)
    env.execute(**how)
    return [Counter(map(repr, of_one)) for of_one in seen]


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        timers_and_a_side_output,
        windows,
        all_windows,
        a_reduce,
        a_reduce_of_a_batch,
        two_inputs,
        a_broadcast,
        one_behind_the_other,
        without_state,
        values_of_a_class,
        no_elements,
    ],
)
def test_a_program_has_the_results_of_a_local_run(stateshift_spark, tmp_path, program):
    assert found(program) == found(program, spark=stateshift_spark, checkpoint=tmp_path / "checkpoint")
