"""Examples that people know: of Flink's documentation, of the seed of this project, and those that PyFlink ships."""

import ast
import os
import threading
from datetime import timedelta
from pathlib import Path

import attrs
import pytest
from live_backends import BACKENDS

from stateshift import (
    AggregateFunction,
    AggregatingStateDescriptor,
    CheckpointedFunction,
    FlatMapFunction,
    FoldingStateDescriptor,
    KeyedProcessFunction,
    ListCheckpointed,
    ListStateDescriptor,
    MapFunction,
    RuntimeContext,
    SourceFunction,
    StateTtlConfig,
    ValueStateDescriptor,
    serializer_for,
)
from stateshift.pyflink.common import Duration, Time, Types
from stateshift.state.testing import KeyedProcessHarness, ProcessHarness, SourceHarness, TaskInfo, snapshot_together

BACKEND = pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)


class CountWindowAverage(FlatMapFunction):
    """The average of every two elements of a key."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("average", tuple[int, int], (0, 0)))

    def flat_map(self, value):
        count, total = self.sum.value()
        count, total = count + 1, total + value[1]
        self.sum.update((count, total))
        if count >= 2:
            self.sum.clear()
            yield value[0], total // count


@BACKEND
def test_the_count_window_average(backend):
    harness = KeyedProcessHarness(CountWindowAverage(), lambda value: value[0], int, backend=backend)

    assert [(1, 4), (1, 5)] == harness.process_elements((1, 3), (1, 5), (1, 7), (1, 4), (1, 2))
    assert [(1, 5)] == harness.process_elements((1, 8))  # with the 2 that was left


def averages_in_place(initial):
    """The same with an accumulator that is changed in place, as programs in Java do it."""

    class InPlace(CountWindowAverage):
        def open(self, runtime_context):
            self.sum = initial(runtime_context)

        def flat_map(self, value):
            average = self.sum.value()
            average[0] += 1
            average[1] += value[1]
            self.sum.update(average)
            if average[0] >= 2:
                self.sum.clear()
                yield value[0], average[1] // average[0]

    return InPlace()


OF_A_DAY = StateTtlConfig.new_builder(timedelta(days=1)).build()


@BACKEND
@pytest.mark.parametrize("options", [{}, {"time_to_live": OF_A_DAY}], ids=["plain", "ttl"])
def test_a_default_that_is_changed_is_that_of_one_access(backend, options):
    function = averages_in_place(
        lambda context: context.get_state(ValueStateDescriptor("average", list[int], [0, 0], **options))
    )
    harness = KeyedProcessHarness(function, lambda value: value[0], int, backend=backend)

    assert [(1, 4), (1, 5), (2, 7)] == harness.process_elements((1, 3), (1, 5), (2, 6), (1, 7), (1, 4), (2, 8), (3, 1))


@pytest.mark.filterwarnings("ignore:FoldingStateDescriptor")
@BACKEND
@pytest.mark.parametrize("options", [{}, {"time_to_live": OF_A_DAY}], ids=["plain", "ttl"])
def test_the_initial_value_of_folding_is_that_of_one_key(backend, options):
    def appended(texts, text):
        texts.append(text)
        return texts

    class Folds(FlatMapFunction):
        def open(self, runtime_context):
            descriptor = FoldingStateDescriptor("texts", [], appended, list[str], **options)
            self.texts = runtime_context.get_folding_state(descriptor)

        def flat_map(self, value):
            self.texts.add(value[1])
            yield value[0], list(self.texts.get())

    harness = KeyedProcessHarness(Folds(), lambda value: value[0], int, backend=backend)

    assert [(1, ["a"]), (2, ["b"]), (1, ["a", "c"])] == harness.process_elements((1, "a"), (2, "b"), (1, "c"))


class Texts(AggregateFunction):
    """Its accumulator is the result."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


@BACKEND
@pytest.mark.parametrize("options", [{}, {"time_to_live": OF_A_DAY}], ids=["plain", "ttl"])
def test_a_result_does_not_change_with_the_accumulator(backend, options):
    class Collects(FlatMapFunction):
        def open(self, runtime_context):
            descriptor = AggregatingStateDescriptor("texts", Texts(), list[str], **options)
            self.texts = runtime_context.get_aggregating_state(descriptor)

        def flat_map(self, value):
            self.texts.add(value)
            yield self.texts.get()

    harness = KeyedProcessHarness(Collects(), lambda _: "key", str, backend=backend)

    assert [["a"], ["a", "b"]] == harness.process_elements("a", "b")


@attrs.define
class Place:
    """A key that can be changed."""

    name: str


@BACKEND
def test_a_key_object_that_was_changed_is_another_key(backend):
    harness = KeyedProcessHarness(CountWindowAverage(), lambda value: value[0], Place, backend=backend)
    place = Place("here")
    harness.process_element((place, 1))
    place.name = "there"
    harness.process_element((place, 5))
    place.name = "here"

    assert [(Place("here"), 2)] == harness.process_elements((place, 3))


class BufferingSink(MapFunction, CheckpointedFunction):
    """Sends elements by the three, and keeps those in between."""

    def __init__(self, redistribution):
        self.redistribution = redistribution
        self.buffered, self.sent = [], []

    def map(self, value):
        self.buffered.append(value)
        if len(self.buffered) == 3:
            self.sent.append(self.buffered)
            self.buffered = []

    def snapshot_state(self, context):
        self.checkpointed_state.clear()
        for element in self.buffered:
            self.checkpointed_state.add(element)

    def initialize_state(self, context):
        descriptor = ListStateDescriptor("buffered-elements", tuple[str, int])
        self.checkpointed_state = getattr(context.get_operator_state_store(), self.redistribution)(descriptor)
        if context.is_restored():
            self.buffered += self.checkpointed_state.get()


@pytest.mark.parametrize(
    ("redistribution", "expected"),
    [
        ("get_list_state", [[("a", 1)], [("b", 2)]]),
        ("get_union_list_state", [[("a", 1), ("b", 2)], [("a", 1), ("b", 2)]]),
    ],
)
def test_the_buffering_sink_at_twice_the_parallelism(redistribution, expected):
    one = ProcessHarness(BufferingSink(redistribution))
    one.process_elements(("x", 7), ("y", 8), ("z", 9), ("a", 1), ("b", 2))
    assert [[("x", 7), ("y", 8), ("z", 9)]] == one._function.sent
    two = [
        ProcessHarness(BufferingSink(redistribution), task=TaskInfo(index=index, parallelism=2)) for index in range(2)
    ]
    for harness in two:
        harness.restore(one.snapshot())

    assert expected == [harness._function.buffered for harness in two]


class CounterSource(SourceFunction, ListCheckpointed):
    """Emits 0, 1, 2, and so on, exactly once."""

    state_type = int

    def __init__(self):
        self.offset = 0
        self.is_running = True

    def run(self, ctx):
        lock = ctx.get_checkpoint_lock()
        while self.is_running:
            with lock:
                ctx.collect(self.offset)
                self.offset += 1

    def cancel(self):
        self.is_running = False

    def snapshot_state(self, checkpoint_id, timestamp):
        return [self.offset]

    def restore_state(self, state):
        for offset in state:
            self.offset = offset


def emitted(harness, count):
    """Wait for so many elements."""
    enough = threading.Event()
    for _ in range(1000):
        if len(harness.records) >= count or enough.wait(0.01):
            return


def test_a_snapshot_of_the_counter_source_sees_both_or_neither():
    harness = SourceHarness(CounterSource())
    harness.start()
    taken = []
    for _ in range(20):
        emitted(harness, len(harness.records) + 50)
        with harness.lock:
            taken.append((harness.snapshot(), len(harness.records)))
    harness.stop()
    snapshot, count = taken[10]
    assert list(range(len(harness.records))) == harness.output
    harness.records = harness.records[:count]
    harness.restore(snapshot, function=CounterSource())
    harness.start()
    emitted(harness, count + 100)
    harness.close()

    assert list(range(len(harness.records))) == harness.output
    assert len(harness.records) > count


def test_sources_at_another_parallelism_take_their_share():
    two = [SourceHarness(CounterSource(), task=TaskInfo(index=index, parallelism=2)) for index in range(2)]
    for number, harness in enumerate(two):
        harness._function.offset = number + 5
    one = SourceHarness(CounterSource())
    one.restore(snapshot_together(two))

    assert 6 == one._function.offset


def test_an_error_of_a_source_is_raised_when_it_is_stopped():
    class Fails(CounterSource):
        def run(self, ctx):
            ctx.emit_watermark(4)
            ctx.collect_with_timestamp("a", 5)
            raise ZeroDivisionError

    harness = SourceHarness(Fails())
    harness.start()
    emitted(harness, 1)
    with pytest.raises(ZeroDivisionError):
        harness.stop()

    assert ([("a", 5)], [4]) == (harness.records, harness.watermarks)


class Totals(KeyedProcessFunction):
    """The total of each key, which is forgotten a second after its last use."""

    def open(self, runtime_context: RuntimeContext):
        total = ValueStateDescriptor("total", Types.FLOAT())
        builder = StateTtlConfig.new_builder(Time.seconds(1)).set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
        total.enable_time_to_live(builder.disable_cleanup_in_background().build())
        self.total = runtime_context.get_state(total)

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        self.total.update((self.total.value() or 0) + value[-1])
        yield value[0], self.total.value()


class TotalsLater(Totals):
    """The same, emitted two seconds after each element."""

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        list(super().process_element(value, ctx))
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 2000)

    def on_timer(self, timestamp: int, ctx: "KeyedProcessFunction.OnTimerContext"):
        yield ctx.get_current_key(), self.total.value()


def shipped(name):
    """The function of an example that PyFlink ships: its classes as they are, with our names in place of its imports.

    STATESHIFT_PYFLINK is a folder with the package `pyflink`.
    """
    if "STATESHIFT_PYFLINK" not in os.environ:
        pytest.skip("STATESHIFT_PYFLINK names no folder with the package pyflink")
    place = Path(os.environ["STATESHIFT_PYFLINK"]) / "pyflink" / "examples" / "datastream" / f"{name}.py"
    tree = ast.parse(place.read_text(encoding="utf-8"))
    classes = [item for item in tree.body if isinstance(item, ast.ClassDef)]
    names = {
        "KeyedProcessFunction": KeyedProcessFunction, "RuntimeContext": RuntimeContext, "Time": Time,
        "StateTtlConfig": StateTtlConfig, "TimestampAssigner": object, "Types": Types,
        "ValueStateDescriptor": ValueStateDescriptor,
    }  # fmt: skip
    exec(compile(ast.Module(classes, []), str(place), "exec"), names)  # noqa: S102 - a file of PyFlink
    return names["Sum"]()


@BACKEND
@pytest.mark.parametrize("function", [Totals, lambda: shipped("state_access")], ids=["ours", "PyFlink's"])
def test_an_example_of_state(backend, function):
    harness = KeyedProcessHarness(function(), lambda value: value[0], str, backend=backend)
    found = harness.process_elements(("ada", 110.1), ("bob", 30.2), ("ada", 20.0), ("bob", 53.1))
    harness.advance_processing_time(1000)
    found += harness.process_elements(("ada", 1.5))

    assert ["ada", "bob", "ada", "bob", "ada"] == [name for name, _ in found]
    assert pytest.approx([110.1, 30.2, 130.1, 83.3, 1.5], rel=1e-6) == [total for _, total in found]


@BACKEND
@pytest.mark.parametrize("function", [TotalsLater, lambda: shipped("event_time_timer")], ids=["ours", "PyFlink's"])
def test_an_example_of_timers(backend, function):
    harness = KeyedProcessHarness(function(), lambda value: value[1], str, backend=backend)
    for time, name, amount in [(1000, "ada", 110.1), (4000, "bob", 30.2), (3000, "ada", 20.0), (2000, "bob", 53.1)]:
        harness.process_element((time, name, amount), time)
        harness.process_watermark(time - 2001)
    harness.process_watermark((1 << 63) - 1)
    found = sorted((time, name, round(total, 3)) for (name, total), time in harness.records)

    assert [(3000, "ada", 130.1), (4000, "bob", 83.3), (5000, "ada", 130.1), (6000, "bob", 83.3)] == found


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        (Types.LONG(), "long"), (Types.INT(), "int"), (Types.SHORT(), "short"), (Types.BYTE(), "byte"),
        (Types.FLOAT(), "float"), (Types.DOUBLE(), "double"), (Types.BOOLEAN(), "boolean"), (Types.STRING(), "string"),
        (Types.CHAR(), "char"), (Types.TUPLE([Types.INT(), Types.STRING()]), "tuple<int, string>"),
        (Types.LIST(Types.INT()), "list<int>"), (Types.MAP(Types.STRING(), Types.LONG()), "map<string, long>"),
        (Types.PRIMITIVE_ARRAY(Types.INT()), "array<int>"),
    ],
)  # fmt: skip
def test_pyflink_s_words_are_hints(word, hint):
    assert hint == serializer_for(word).describe()


def test_pyflink_s_durations_are_timedeltas():
    units = ["milliseconds", "seconds", "minutes", "hours", "days"]
    of = [Duration.of_millis, Duration.of_seconds, Duration.of_minutes, Duration.of_hours, Duration.of_days]
    expected = [timedelta(**{unit: 3}) for unit in units]

    assert expected == [getattr(Time, unit)(3) for unit in units] == [duration(3) for duration in of]
