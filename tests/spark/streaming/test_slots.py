"""Slots from batch to batch: state, time, side outputs, and what the engine may do to them."""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Iterator
from typing import Any

import attrs
import pyarrow as pa
import pytest
import streaming_batches
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from streaming_batches import BACKENDS, Batches, close_slots
from streaming_kills import left_after_gc

from stateshift import (
    CheckpointedFunction,
    CheckpointListener,
    DeclarationError,
    HashMapStateBackend,
    KeyedProcessFunction,
    ListStateDescriptor,
    OutputTag,
    ValueNotConvertible,
    ValueStateDescriptor,
)
from stateshift.serializers.errors import FunctionFailed
from stateshift.serializers.hints import serializer_for
from stateshift.spark.streaming import slot_runs
from stateshift.spark.streaming.blobs import milliseconds
from stateshift.spark.streaming.elements import ElementReader
from stateshift.spark.streaming.lanes import in_order
from stateshift.spark.streaming.query_plan import Input, output_hint
from stateshift.state.columnar.live_values import live_values, result_columns, result_kind
from stateshift.state.directory.manifest import Manifest
from stateshift.state.entry_keys import encode
from stateshift.state.key_groups import key_group, key_hasher
from stateshift.state.streaming.slot import InputSpec


@attrs.frozen
class Visit:
    user: str
    amount: int
    at: int = 0


@attrs.frozen
class Total:
    user: str
    total: int


SCHEMA = {"user": pa.string(), "amount": pa.int64(), "at": pa.int64()}
BIG = OutputTag("big", int)


class Totals(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", int, default_value=0))

    def process_element(self, value: Visit, ctx: Any) -> Iterator[Total]:
        self.total.update(self.total.value() + value.amount)
        yield Total(value.user, self.total.value())
        if value.amount > 100:
            yield BIG, value.amount


def visits(*pairs):
    return [{"user": user, "amount": amount, "at": 0} for user, amount in pairs]


def totals(place, backend, **options):
    return Batches(place, Totals(), backend, schema=SCHEMA, key=("user",), element=Visit, side=[BIG], **options)


def main_results(rows):
    return sorted((row["user"], row["total"]) for row in rows if row["side_output"] is None)


def test_state_goes_on_from_batch_to_batch_in_one_process_and_in_others(tmp_path, backend):
    engine = totals(tmp_path, backend)

    first = engine.batch(visits(("ann", 1), ("bob", 2), ("ann", 3)))
    second = engine.batch(visits(("ann", 4), ("cy", 5)))
    engine.new_process()
    third = engine.batch(visits(("ann", 6), ("bob", 7), ("cy", 8)))

    assert [("ann", 1), ("ann", 4), ("bob", 2)] == main_results(first)
    assert [("ann", 8), ("cy", 5)] == main_results(second)
    assert [("ann", 14), ("bob", 9), ("cy", 13)] == main_results(third)


def test_a_batch_that_was_not_committed_is_as_if_it_had_not_been(tmp_path, backend):
    engine = totals(tmp_path, backend)
    engine.batch(visits(("ann", 1), ("bob", 2)))

    once = engine.batch(visits(("ann", 10)), commits=False)
    again = engine.batch(visits(("ann", 10)))

    assert main_results(once) == main_results(again) == [("ann", 11)]


class Waits(Totals):
    """The first attempt stands still at one element, until there is a file that says that the second one is done."""

    def __init__(self, place):
        self.place = place

    def process_element(self, value: Visit, ctx: Any) -> Iterator[Total]:
        yield from super().process_element(value, ctx)
        if value.amount == 10 and not (self.place / "waits").exists():
            (self.place / "waits").touch()
            while not (self.place / "goes on").exists():
                time.sleep(0.01)


@pytest.mark.parametrize("committed", ["the first", "the second"])
def test_of_two_attempts_at_once_the_one_that_was_not_committed_leaves_nothing(tmp_path, backend, committed):
    engine = Batches(tmp_path / "state", Waits(tmp_path), backend, schema=SCHEMA, key=("user",), element=Visit,
                     side=[BIG], slots=1, retained=0)  # fmt: skip
    engine.batch(visits(("ann", 1)))
    results = {}

    def first():
        results["the first"] = engine.batch(visits(("ann", 10)), commits=False)
        manifests["the first"] = set(engine.written.values())

    manifests = {}
    thread = threading.Thread(target=first)
    thread.start()
    while not (tmp_path / "waits").exists():
        time.sleep(0.01)
    results["the second"] = engine.batch(visits(("ann", 10)), commits=False)
    manifests["the second"] = set(engine.written.values())
    (tmp_path / "goes on").touch()
    thread.join()
    (engine.committed[engine.groups[0]],) = manifests[committed]
    engine.commit()
    after = engine.batch(visits(("ann", 100)))
    engine.batch(visits(("ann", 1000)))

    assert [("ann", 11)] == main_results(results["the first"]) == main_results(results["the second"])
    assert [("ann", 111)] == main_results(after)
    there, needed = left_after_gc(engine.directory)
    assert needed == there
    engine.new_process()
    assert [("ann", 1112)] == main_results(engine.batch(visits(("ann", 1))))


def test_side_outputs_are_rows_with_a_tag(tmp_path, backend):
    engine = totals(tmp_path, backend)

    rows = engine.batch(visits(("ann", 500)))

    assert [
        {"user": "ann", "total": 500, "side_output": None, "big": None},
        {"user": None, "total": None, "side_output": "big", "big": 500},
    ] == rows


def test_a_side_output_that_was_not_declared_is_refused(tmp_path, backend):
    engine = Batches(tmp_path, Totals(), backend, schema=SCHEMA, key=("user",), element=Visit,
                     side=[OutputTag("other", int)])  # fmt: skip
    with pytest.raises(DeclarationError, match="side output 'big', which is not declared"):
        engine.batch(visits(("ann", 500)))


def test_a_null_key_is_refused_with_its_column(tmp_path, backend):
    engine = totals(tmp_path, backend)
    with pytest.raises(ValueNotConvertible, match="null in the key column 'user'"):
        engine.batch([{"user": None, "amount": 1, "at": 0}])


class Fails(Totals):
    def process_element(self, value: Visit, ctx: Any) -> Iterator[Total]:
        yield from super().process_element(value, ctx)
        if value.amount < 0:
            raise ZeroDivisionError("below nothing")


def test_after_an_exception_in_the_middle_of_a_batch_nothing_of_it_is_seen(tmp_path, backend):
    engine = Batches(tmp_path, Fails(), backend, schema=SCHEMA, key=("user",), element=Visit, side=[BIG], slots=1)
    engine.batch(visits(("ann", 1)))

    with pytest.raises(FunctionFailed):
        engine.batch(visits(("ann", 10), ("bob", -1)))

    assert [("ann", 3)] == main_results(engine.batch(visits(("ann", 2))))


def test_an_error_of_a_function_names_operator_key_and_element(tmp_path, backend):
    engine = Batches(tmp_path, Fails(), backend, schema=SCHEMA, key=("user",), element=Visit, side=[BIG])
    with pytest.raises(FunctionFailed) as raised:
        engine.batch(visits(("bob", -1)))
    first, *code = str(raised.value).splitlines()
    assert first == (
        "in operator 'operator', key 'bob', at the element Visit(user='bob', amount=-1, at=0): the function failed with"
        " ZeroDivisionError: below nothing"
    )
    assert "in process_element" in code[0]
    assert "state/streaming" not in str(raised.value)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


class Delays(Totals):
    """Sets timers of event time, for which elements need time stamps."""

    def process_element(self, value: Visit, ctx: Any) -> Iterator[Total]:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1000)
        yield Total(value.user, 0)


def test_an_error_for_want_of_time_stamps_says_how_elements_get_them(tmp_path):
    engine = Batches(tmp_path, Delays(), BACKENDS["hashmap"], schema=SCHEMA, key=("user",), element=Visit)
    with pytest.raises(FunctionFailed, match=r"unsupported operand(?s:.*)stream\(df, timestamp=…\)"):
        engine.batch(visits(("bob", 1)))


class Windowed(KeyedProcessFunction):
    """Counts the elements of a key until event time has passed them by 10 ms, then emits (key, count, time)."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int, default_value=0))
        self.times = runtime_context.get_list_state(ListStateDescriptor("times", int))

    def process_element(self, value: Visit, ctx: Any) -> Iterator[tuple[str, int, int]]:
        self.count.update(self.count.value() + 1)
        self.times.add(ctx.timestamp())
        ctx.timer_service().register_event_time_timer(ctx.timestamp() // 10 * 10 + 10)
        return iter(())

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.count.value(), timestamp
        self.count.clear()


def windowed(place, backend, **options):
    options = {"delay_ms": 0, "slots": 3, **options}
    return Batches(place, Windowed(), backend, schema=SCHEMA, key=("user",), element=Visit, timestamp="at", **options)


def at(user, time):
    return {"user": user, "amount": 1, "at": time}


def test_a_timer_fires_in_the_batch_whose_rows_pass_it_and_in_all_slots(tmp_path, backend):
    engine = windowed(tmp_path, backend)

    assert engine.batch([at("ann", 1), at("bob", 5), at("cy", 9)]) == []
    fired = engine.batch([at("dan", 11)])

    assert [("ann", 1, 10), ("bob", 1, 10), ("cy", 1, 10)] == sorted(tuple(row.values()) for row in fired)


def test_rows_are_processed_in_the_order_of_their_times_and_timers_fire_between_them(tmp_path, backend):
    engine = windowed(tmp_path, backend)

    fired = engine.batch([at("ann", 25), at("ann", 3), at("ann", 11), at("ann", 4)])

    assert [("ann", 2, 10), ("ann", 1, 20)] == [tuple(row.values()) for row in fired]


@pytest.mark.parametrize("in_order", [True, False])
def test_what_slots_did_in_a_batch_is_measured(tmp_path, backend, in_order):
    engine = windowed(tmp_path, backend)
    object.__setattr__(engine.runner, "spec", attrs.evolve(engine.spec, in_order=in_order))

    engine.batch([at("ann", 1), at("bob", 5), at("cy", 9)])
    assert [0, 3, 0, 3] == sums(engine, "late_rows", "rows", "timers", "opened_slots")
    engine.batch([at("dan", 21), at("ann", 8), at("bob", 9), at("cy", 3)])
    assert [2, 4, 3, 0] == sums(engine, "late_rows", "rows", "results", "opened_slots")  # cy's 3 and ann's 8 are late
    assert {20} == {one.watermark_ms for one in engine.measured}
    engine.new_process()
    engine.batch([at("dan", 21)], commits=False)
    assert [0, 1, 0, 3] == sums(engine, "late_rows", "rows", "results", "opened_slots")
    is_whole = [one.checkpoint_bytes == one.state_bytes for one in engine.measured]
    assert sums(engine, "state_bytes") > [0]
    assert all(is_whole) == (backend is HashMapStateBackend)


def test_a_batch_in_which_slots_do_nothing_has_their_size_and_event_time(tmp_path, backend):
    """A gauge that is made of these figures does not fall between batches with rows."""
    engine = windowed(tmp_path, backend)
    engine.batch([at("ann", 1), at("bob", 5), at("cy", 9)])
    before = [(one.state_bytes, one.watermark_ms) for one in engine.measured]

    assert [] == engine.batch(only=engine.groups)
    assert before == [(one.state_bytes, one.watermark_ms) for one in engine.measured]
    assert [0, 0, 0] == sums(engine, "rows", "checkpoint_bytes", "opened_slots")
    assert {} == engine.written


def test_every_slot_runs_at_its_first_call_after_a_start(tmp_path, backend):
    """Names in a type may be others than before: all slots describe it alike after a batch, whatever woke one."""
    engine = windowed(tmp_path, backend)
    engine.batch([at("ann", 1)])
    started_again = windowed(tmp_path, backend, before=engine)

    started_again.batch(only=engine.groups)
    assert sorted(engine.groups) == sorted(started_again.written)
    started_again.batch(only=engine.groups)
    assert {} == started_again.written


def sums(engine, *names):
    return [sum(getattr(one, name) for one in engine.measured) for name in names]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 7)), min_size=1, max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=6),
    restarts=st.sets(st.integers(0, 8)),
)
def test_the_same_rows_in_any_number_of_batches_have_the_same_results(tmp_path_factory, steps, cuts, restarts):
    """Without late rows: the rows are in the order of their times, and are cut into batches anywhere."""
    from stateshift import HashMapStateBackend

    now, rows = 0, []
    for user, step in steps:
        now += step
        rows.append(at(user, now))
    rows.append(at("end", now + 100))
    results = []
    for places in ([], sorted({cut for cut in cuts if 0 < cut < len(rows)})):
        engine = windowed(tmp_path_factory.mktemp("state"), HashMapStateBackend)
        found = []
        for number, (start, end) in enumerate(zip([0, *places], [*places, len(rows)], strict=True)):
            if number in restarts:
                engine.new_process()
            found += [tuple(row.values()) for row in engine.batch(rows[start:end])]
        results.append(sorted(found))
    assert results[0] == results[1]


class Alarm(KeyedProcessFunction):
    def process_element(self, value: Visit, ctx: Any) -> Iterator[tuple[str, int]]:
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 1000)
        return iter(())

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


def test_a_timer_of_processing_time_says_when_the_slot_is_to_be_woken(tmp_path, backend):
    engine = Batches(tmp_path, Alarm(), backend, schema=SCHEMA, key=("user",), element=Visit, slots=1)

    engine.batch([at("ann", 0)], now_ms=5000)
    (group,) = engine.wakes
    assert engine.wakes == {group: 6000}
    engine.new_process()
    rows = engine.batch([], now_ms=6000, only=[group])

    assert [("ann", 6000)] == [tuple(row.values()) for row in rows]
    assert engine.wakes == {group: None}


class Listens(Totals, CheckpointedFunction, CheckpointListener):
    def __init__(self):
        self.restored, self.complete, self.snapshots = None, [], 0

    def initialize_state(self, context):
        self.restored = context.is_restored()
        self.seen = context.get_operator_state_store().get_list_state(ListStateDescriptor("seen", int))

    def snapshot_state(self, context):
        self.snapshots += 1
        self.seen.update([context.get_checkpoint_id()])

    def notify_checkpoint_complete(self, checkpoint_id):
        self.complete.append(checkpoint_id)

    def process_element(self, value: Visit, ctx: Any) -> Iterator[tuple[bool, list[int], list[int]]]:
        yield self.restored, list(self.complete), list(self.seen.get())


def test_the_life_of_a_function(tmp_path, backend):
    def listening():
        return Batches(tmp_path, Listens(), backend, schema=SCHEMA, key=("user",), element=Visit, slots=1)

    engine = listening()
    first, second = (engine.batch(visits(("ann", 1)))[0] for _ in range(2))
    engine.new_process()
    other = listening()
    other.committed, other.number = engine.committed, engine.number
    (third,) = other.batch(visits(("ann", 1)))

    assert [False, [], []] == list(first.values())
    assert [False, [1], [1]] == list(second.values())
    assert [True, [2], [2]] == list(third.values())


def test_files_that_no_retained_batch_needs_are_deleted(tmp_path, backend):
    engine = totals(tmp_path, backend, retained=3, slots=1)
    for number in range(30):
        engine.batch(visits(*((f"user {number % 5} {index}", index) for index in range(50))))
        if not number % 7:
            engine.new_process()

    needed = {name for manifest in engine.manifests for name in manifest.files()}
    there = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert needed <= there
    manifests = [name for name in there if name.startswith("manifests/")]
    assert len(manifests) <= 6
    retained = [Manifest.from_bytes((tmp_path / name).read_bytes()) for name in manifests]
    files = {name for name in there if name.startswith("shared/") or ("-keyed-" in name and "manifests/" not in name)}
    assert files == {name for manifest in retained for name in manifest.files()}
    engine.new_process()
    assert len(engine.batch(visits(("user 0 1", 1)))) == 1


def test_times_become_milliseconds_rounded_down():
    micros = pa.array([1_999, -1, None, 0], pa.timestamp("us", "UTC"))
    assert [1, -1, None, 0] == milliseconds(micros).to_pylist()
    assert [3000] == milliseconds(pa.array([3], pa.timestamp("s"))).to_pylist()
    assert [7] == milliseconds(pa.array([7], pa.int32())).to_pylist()


@attrs.frozen
class Inner:
    name: str
    accurate: float | None = None  # before `name` in the bytes, whose fields are sorted


@attrs.frozen
class Outer:
    number: int
    inner: Inner | None
    many: list[Inner]
    by_name: dict[str, int]
    pair: tuple[int, str]
    flag: bool = False


@given(st.lists(st.builds(
    Outer, st.integers(-(2**63), 2**63 - 1),
    inner=st.none() | st.builds(Inner, st.text(max_size=5), st.none() | st.floats(allow_nan=False)),
    many=st.lists(st.builds(Inner, st.text(max_size=3)), max_size=3),
    by_name=st.dictionaries(st.text(max_size=3), st.integers(-5, 5), max_size=3),
    pair=st.tuples(st.integers(0, 9), st.text(max_size=2)), flag=st.booleans(),
), max_size=6))  # fmt: skip
@settings(deadline=None, max_examples=60)
def test_results_as_columns_and_columns_as_elements_are_inverse(values):
    serializer = serializer_for(Outer)
    column = result_columns(serializer, values)
    assert column.type == result_kind(serializer)
    assert ["number", "inner", "many", "by_name", "pair", "flag"] == [field.name for field in column.type]
    assert ["name", "accurate"] == [field.name for field in column.type.field("inner").type]
    assert values == live_values(serializer, column)


class Orders(KeyedProcessFunction):
    """Emits the amounts of a key so far."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", int))

    def process_element(self, value: Visit, ctx: Any) -> Iterator[tuple[str, list[int]]]:
        self.seen.add(value.amount)
        yield ctx.get_current_key(), self.seen.get()


@given(st.lists(st.tuples(st.sampled_from(["ann", "bob", "", "ä"]), st.integers(0, 9)), max_size=12))
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_without_time_stamps_the_elements_of_a_key_come_together_in_their_order(tmp_path_factory, pairs):
    place = tmp_path_factory.mktemp("state")
    engine = Batches(place, Orders(), BACKENDS["hashmap"], schema=SCHEMA, key=("user",), element=Visit, slots=1)

    rows = [tuple(row.values()) for row in engine.batch(visits(*pairs))]

    text = serializer_for(str)
    users = sorted(
        {user for user, _ in pairs}, key=lambda user: (key_group(key_hasher(text)(user), 8), encode(text, user))
    )
    expected = []
    for wanted in users:
        amounts = [amount for user, amount in pairs if user == wanted]
        expected += [(wanted, amounts[: end + 1]) for end in range(len(amounts))]
    assert [(user, seen) for user, seen in rows] == expected


@given(st.lists(st.tuples(st.integers(0, 1), st.none() | st.integers(-9, 9)), max_size=40), st.integers(1, 400))
@settings(deadline=None, max_examples=40)
def test_rows_come_in_the_order_of_their_times_also_where_only_a_few_are_held(rows, most_bytes):
    serializer = serializer_for(int)
    readers = [ElementReader(serializer, ("number",), None, (), time) for time in ("at", "at")]
    kind = pa.schema({"number": pa.int64(), "at": pa.int64()})
    parts = [
        (index, pa.RecordBatch.from_pydict({"number": [number], "at": [at]}, schema=kind))
        for number, (index, at) in enumerate(rows)
    ]
    for index in (0, 1):
        wanted = [(at, number) for number, (one, at) in enumerate(rows) if one == index]
        sequences = in_order([part for part in parts if part[0] == index], readers, most_bytes)
        found = [[(time, value) for elements in sequence for time, _, _, value in elements] for sequence in sequences]
        assert all(one == sorted(one, key=time_of) for one in found)
        assert sorted((row for one in found for row in one), key=lambda row: row[1]) == wanted


def time_of(row):
    return (-(1 << 63) if row[0] is None else row[0], row[1])


@pytest.mark.parametrize(
    "keys",
    [[0.0, -0.0, 1.5, -0.0, 0.0], [b"a", b"", b"a"], [True, False, True], ["é", "e", "", "é"], [7, -(1 << 40), 7]],
    ids=["float", "bytes", "bool", "text", "int"],
)
def test_keys_that_have_other_bytes_are_other_keys(keys):
    serializer = serializer_for(type(keys[0]))
    reader = ElementReader(serializer, ("key",), serializer, ("key",), "")
    found = reader.read_by_key(0, pa.RecordBatch.from_pydict({"key": keys}), serializer, 300)
    rows = [(repr(key), repr(value)) for _, _, key, value in found]
    assert all(key == value for key, value in rows)
    assert sorted(map(repr, keys)) == sorted(key for key, _ in rows)
    assert len({repr(key) for key, *_ in found.runs}) == len(found.runs)
    assert_runs(found, serializer)


def assert_runs(elements, serializer):
    """Assert that the runs of elements are what a backend makes of their keys one by one."""
    hashed = key_hasher(serializer)
    assert elements.runs == [
        (key, key_group(hashed(key), 300), encode(serializer, key), count) for key, _, _, count in elements.runs
    ]
    assert [(group, data) for _, group, data, _ in elements.runs] == sorted(run[1:3] for run in elements.runs)


@given(st.lists(st.tuples(st.text(max_size=3), st.integers(-2, 2)), min_size=1, max_size=20))
def test_keys_of_several_columns_come_in_runs_with_their_bytes_and_key_groups(keys):
    serializer = serializer_for(tuple[str, int])
    reader = ElementReader(serializer_for(int), ("value",), serializer, ("name", "number"), "")
    names, numbers = zip(*keys, strict=True)
    rows = {"name": names, "number": pa.array(numbers, pa.int64()), "value": range(len(keys))}
    found = reader.read_by_key(0, pa.RecordBatch.from_pydict(rows), serializer, 300)
    assert_runs(found, serializer)
    wanted = {key: [at for at, one in enumerate(keys) if one == key] for key in keys}
    assert wanted == {key: [value for _, _, other, value in found if other == key] for key in keys}


class Counts(KeyedProcessFunction):
    """Emits each key and how many elements of it there were."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int, default_value=0))

    def process_element(self, value: Visit, ctx: Any) -> Iterator[str]:
        self.count.update(self.count.value() + 1)
        yield f"{ctx.get_current_key()} {self.count.value()}"


def test_an_enum_as_key_whose_members_have_another_order_now_finds_its_state(tmp_path, backend, monkeypatch):
    """The state goes on with the numbers of the stored order."""

    def engine(order, before=None):
        colours = enum.Enum("Colour", [(name, name.lower()) for name in order])
        colours.__module__, colours.__qualname__ = __name__, "Colour"
        monkeypatch.setattr(streaming_batches, "key_serializer", lambda *_: serializer_for(colours))
        options = {"schema": SCHEMA, "key": ("user",), "element": Visit, "output": str, "slots": 1, "before": before}
        return Batches(tmp_path / "state", Counts(), backend, **options)

    first = engine(["RED", "BLUE"])
    assert len(first.batch(visits(("RED", 1), ("RED", 1), ("BLUE", 1)))) == 3
    close_slots()
    second = engine(["GREEN", "BLUE", "RED"], first)
    found = [row["value"] for row in second.batch(visits(("RED", 1), ("BLUE", 1), ("GREEN", 1)))]
    assert sorted(found) == ["BLUE 2", "GREEN 1", "RED 3"]


@attrs.frozen
class Odd:
    number: int = attrs.field(validator=attrs.validators.in_([1, 3, 5]))


def test_a_key_that_cannot_be_built_is_named():
    serializer = serializer_for(Odd)
    reader = ElementReader(serializer_for(int), ("value",), serializer, ("key",), "")
    keys = pa.array([{"number": 3}, {"number": 4}, {"number": 5}], pa.struct({"number": pa.int64()}))
    with pytest.raises(ValueNotConvertible) as caught:
        reader.read_by_key(0, pa.RecordBatch.from_pydict({"key": keys, "value": [1, 2, 3]}), serializer, 128)
    assert "4" in caught.value.where["key"]


def test_results_become_rows_before_all_of_them_are_there(tmp_path, monkeypatch):
    monkeypatch.setattr(slot_runs, "_MOST_RESULTS", 3)
    engine = totals(tmp_path, BACKENDS["hashmap"], slots=1)
    engine.packing = [attrs.evolve(one, blob_bytes=1) for one in engine.packing]
    batches = [visits((f"user {number}", 500), (f"user {number}", 1)) for number in range(9)]

    rows = engine.batch([row for some in batches for row in some], rows_at_once=2)

    assert main_results(rows) == sorted((f"user {number}", total) for number in range(9) for total in (500, 501))
    assert sum(row["side_output"] == "big" for row in rows) == 9


class Yields(Totals):
    """Has another result for one of the elements."""

    def __init__(self, result):
        self.result = result

    def process_element(self, value: Visit, ctx: Any) -> Iterator[Total]:
        yield self.result if value.user == "bob" else Total(value.user, 0)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (None, r"returned None where .*Total is declared"),
        (Total("bob", None), r"null in the field 'total'(?s:.*)path \$\.total"),
        (Total("bob", 2.5), r"2\.5 does not fit a long(?s:.*)path \$\.total"),
        (Total(b"bob", 1), r"b'bob' is not a string(?s:.*)path \$\.user"),
        ((BIG, "many"), r"'many' does not fit a long"),
    ],
    ids=repr,
)
def test_a_wrong_result_is_refused_with_its_field_operator_key_and_element(tmp_path, result, words):
    engine = Batches(
        tmp_path, Yields(result), BACKENDS["hashmap"], schema=SCHEMA, key=("user",), element=Visit, side=[BIG], slots=1
    )  # fmt: skip
    with pytest.raises(ValueNotConvertible, match=words) as refused:
        engine.batch(visits(("ann", 1), ("bob", 2), ("cy", 3)))
    element = "Visit(user='bob', amount=2, at=0)"
    assert f"operator operator, key 'bob', element {element}" in str(refused.value)


def test_a_null_that_an_element_may_not_have_is_refused_with_its_row(tmp_path, backend):
    engine = totals(tmp_path, backend)
    with pytest.raises(ValueNotConvertible, match="a null in the column 'amount'") as refused:
        engine.batch(visits(("ann", 1), ("bob", None), ("cy", 2)))
    row = "{'user': 'bob', 'amount': None, 'at': 0}"
    assert f"operator operator, key 'bob', element {row}" in str(refused.value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Total("ann", "7"), "7"),
        (Total("ann", 1 << 70), "1180591620717411303424"),
        (Total("ann", None), "total"),
        (Total("ann", 7.5), "7.5"),
        (Total(b"ann", 7), "is not a string"),
        (Inner("x"), "is not a"),
    ],
    ids=repr,
)
def test_a_result_that_is_not_of_its_type_is_refused(value, words):
    with pytest.raises(ValueNotConvertible, match=words):
        result_columns(serializer_for(Total), [value])


class Unreadable(Totals):
    def process_element(self, value: "Nowhere", ctx: Any) -> Iterator[Total]:  # noqa: F821, UP037
        yield Total("", 0)


def test_an_annotation_that_cannot_be_read_is_refused_with_what_to_do():
    with pytest.raises(DeclarationError, match=r"(?s)Nowhere.*cannot be read.*pass output_type"):
        output_hint(type("F", (), {"process_element": Returns.process_element})(), None)
    assert output_hint(Unreadable(), None) is Total


class Returns:
    def process_element(self, value: Any, ctx: Any) -> "Iterator[Nowhere]":  # noqa: F821, UP037
        return iter(())


def test_a_plain_element_takes_the_only_column_and_never_the_first_of_several():
    def columns(element, **fields):
        schema = pa.schema(fields)
        given = Input(None, element, "at", InputSpec())
        return type("Given", (Input,), {"schema": schema})(*attrs.astuple(given, recurse=False))._columns(
            serializer_for(element)
        )

    assert columns(str, word=pa.string()) == columns(str, word=pa.string(), at=pa.int64()) == ("word",)
    assert columns(Total, total=pa.int64(), user=pa.string(), more=pa.int64()) == ("total", "user")
    with pytest.raises(DeclarationError, match=r"2 columns for them: word, other"):
        columns(str, word=pa.string(), other=pa.string())


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"user": pa.string()}, "an element: there is no column for the field 'amount', and it has no default\n"),
        ({"user": pa.string(), "amount": pa.string()}, "an element: amount: is a string, and long is declared\n"),
    ],
)
def test_columns_that_do_not_fit_are_refused_with_those_there_are(columns, words):
    schema = pa.schema(columns)
    reader = ElementReader(serializer_for(Visit), tuple(schema.names), None, (), "")
    with pytest.raises(DeclarationError) as refused:
        reader.check(schema)
    assert words in str(refused.value)
    assert f"the columns are {', '.join(columns)}" in str(refused.value)
