"""The error policy of an operator: what fails ends the query, is skipped, or goes to a side output."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import attrs
import pyarrow as pa
import pytest
from streaming_batches import BACKENDS, Batches

from stateshift import (
    AggregateFunction,
    CountTrigger,
    DeclarationError,
    EventTimeSessionWindows,
    GlobalWindows,
    KeyedProcessFunction,
    OutputTag,
    ProcessWindowFunction,
    PurgingTrigger,
    StorageFailed,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WindowedStream,
    WindowFunction,
)
from stateshift.serializers.errors import FunctionFailed, ValueNotConvertible
from stateshift.spark.streaming.query_plan import _side_serializers
from stateshift.state.streaming.failures import as_json, check_policy

FAILED = OutputTag("failed")
SCHEMA = {"user": pa.string(), "amount": pa.int64(), "at": pa.int64()}


@attrs.frozen
class Visit:
    user: str
    amount: int
    at: int


@attrs.frozen
class Total:
    user: str
    total: int


class Poisoned(KeyedProcessFunction):
    """Sums amounts; negative ones, and timers at odd times, fail. 13 has a wrong result, and 14 a wrong value."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", int, default_value=0))

    def process_element(self, value: Visit, ctx: Any) -> Iterator[Total]:
        self.total.update("fourteen" if value.amount == 14 else self.total.value() + value.amount)
        if value.amount < 0:
            raise ZeroDivisionError("below nothing")
        ctx.timer_service().register_processing_time_timer(value.at)
        yield Total(value.user, "thirteen" if value.amount == 13 else self.total.value())

    def on_timer(self, timestamp, ctx):
        if timestamp % 2:
            raise LookupError("odd")
        yield Total(ctx.get_current_key(), timestamp)


def engine_of(place, backend, on_error, **options):
    return Batches(
        place, Poisoned(), backend, schema=SCHEMA, key=("user",), element=Visit, on_error=on_error, **options
    )


ROWS = [
    {"user": user, "amount": amount, "at": at}
    for user, amount, at in [
        ("ann", 1, 2), ("ann", -1, 4), ("ann", 10, 5), (None, 7, 6), ("bob", None, 8), ("bob", 13, 10), ("cy", 14, 12),
        ("cy", 3, 12),
    ]
]  # fmt: skip
"""One good row of each key, and one of each fault."""


@pytest.mark.parametrize("timestamp", ["", "at"], ids=["in any order", "in the order of time"])
@pytest.mark.parametrize("slots", [1, 2])
def test_what_fails_goes_to_a_side_output_and_is_counted(tmp_path, backend, timestamp, slots):
    engine = engine_of(tmp_path, backend, FAILED, timestamp=timestamp, slots=slots)

    found = engine.batch(ROWS, now_ms=5)

    good = sorted((row["user"], row["total"]) for row in found if row["side_output"] is None)
    assert [("ann", 1), ("ann", 2), ("ann", 10), ("cy", 3)] == good  # an element that failed has changed the state
    failed = [row["failed"] for row in found if row["side_output"] == "failed"]
    assert {
        (None, 7, "there is a null in the key column 'user', but a key cannot be null"),
        ('"ann"', -1, "ZeroDivisionError: below nothing"),
        ('"ann"', None, "LookupError: odd"),
        ('"bob"', None, "there is a null in the column 'amount', and the field 'amount' may not be null"),
        ('"bob"', 13, "'thirteen' does not fit a long (64 bits)"),
        ('"cy"', 14, "'fourteen' does not fit a long (64 bits)"),
    } == {(one["key"], amount_of(one["element"]), one["error"]) for one in failed}
    assert len(failed) == sum(one.errors for one in engine.measured)

    engine.new_process()
    assert [("ann", 110)] == [
        (row["user"], row["total"])
        for row in engine.batch([{"user": "ann", "amount": 100, "at": 100}], now_ms=6)
        if row["user"] == "ann"
    ]


def amount_of(element):
    return None if element is None else json.loads(element)["amount"]


def test_what_fails_is_skipped_and_counted(tmp_path, backend):
    engine = engine_of(tmp_path, backend, "skip")

    found = engine.batch(ROWS[:6], now_ms=5)

    assert [("ann", 1), ("ann", 2), ("ann", 10)] == sorted((row["user"], row["total"]) for row in found)
    assert 5 == sum(one.errors for one in engine.measured)
    assert [] == engine.batch([], now_ms=5)
    assert 0 == sum(one.errors for one in engine.measured)


def test_another_policy_goes_on_from_the_same_state(tmp_path, backend):
    first = engine_of(tmp_path, backend, "skip")
    first.batch(ROWS[:3], now_ms=5)
    first.new_process()

    again = engine_of(tmp_path, backend, "fail", before=first)

    assert [10 + 100] == [row["total"] for row in again.batch([{"user": "ann", "amount": 100, "at": 100}], now_ms=6)]


@pytest.mark.parametrize(
    ("row", "kind"), [(ROWS[1], FunctionFailed), (ROWS[3], ValueNotConvertible), (ROWS[4], ValueNotConvertible),
                      (ROWS[5], ValueNotConvertible)],
)  # fmt: skip
def test_without_a_policy_the_batch_fails_with_an_error_of_its_own_name(tmp_path, row, kind):
    engine = engine_of(tmp_path, BACKENDS["hashmap"], "fail")
    with pytest.raises(kind):
        engine.batch([row])


class Pairwise(WindowFunction):
    """Divides the second of two amounts by the first."""

    def apply(self, key, window, inputs):
        first, second = inputs
        yield f"{key} {second.amount // first.amount}"


class Broken(Poisoned):
    """Raises what is no fault of an element."""

    def __init__(self, error):
        self.error = error

    def process_element(self, value: Visit, ctx: Any) -> Iterator[Total]:
        raise self.error
        yield


@pytest.mark.parametrize(
    "error", [StorageFailed("no answer"), DeclarationError("no such state"), MemoryError()], ids=repr
)
def test_what_is_no_fault_of_an_element_is_not_passed_over(tmp_path, error):
    engine = Batches(
        tmp_path, Broken(error), BACKENDS["hashmap"], schema=SCHEMA, key=("user",), element=Visit, on_error="skip"
    )
    with pytest.raises((type(error), FunctionFailed)):
        engine.batch(ROWS[:1])


class Amounts(AggregateFunction):
    """Sums amounts; 7 cannot be added, and a sum of 100 has no result."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        if value.amount == 7:
            raise ValueError("seven")
        return accumulator + value.amount

    def get_result(self, accumulator):
        return 1000 // (100 - accumulator)

    def merge(self, acc_a, acc_b):
        if acc_a + acc_b == 1000:
            raise ValueError("a thousand")
        return acc_a + acc_b


class Ends(ProcessWindowFunction):
    """Counts the windows of a key that fired; fails afterwards if the first element is below nothing, or at its end."""

    def process(self, key, context, elements):
        fired = context.global_state().get_state(ValueStateDescriptor("fired", int, default_value=0))
        fired.update(fired.value() + 1)
        amounts = [getattr(one, "amount", one) for one in elements]
        yield f"{key} {sum(amounts)} {fired.value()}"
        if amounts[0] < 0:
            raise ValueError("below nothing")

    def clear(self, context):
        if context.window().start == 20:
            raise ValueError("not cleared")


TEN = TumblingEventTimeWindows.of(timedelta(milliseconds=10))
SESSIONS = EventTimeSessionWindows.with_gap(timedelta(milliseconds=10))


def windows_of(place, backend, operation, on_error, **options):
    return Batches(
        place, operation, backend, schema=SCHEMA, key=("user",), element=Visit, timestamp="at", slots=1, output=str,
        on_error=on_error, **options,
    )  # fmt: skip


def visits(*triples):
    return [dict(zip(("user", "amount", "at"), one, strict=True)) for one in triples]


def values_and_errors(found):
    values = sorted(row["value"] for row in found if row["side_output"] is None)
    return values, sorted((row["failed"]["key"], row["failed"]["error"]) for row in found if row["side_output"])


WINDOWS = {
    "the function of a window": (
        WindowedStream(TEN, Visit).process(Ends()),
        visits(("ann", -1, 1), ("ann", 5, 2), ("bob", 3, 3), ("ann", 8, 12)),
        ["ann 4 1", "ann 8 2", "bob 3 1"],
        [('"ann"', "ValueError: below nothing")],
    ),
    "its end": (
        WindowedStream(TEN, Visit).process(Ends()),
        visits(("ann", 1, 21), ("ann", 2, 31)),
        ["ann 1 1", "ann 2 2"],
        [('"ann"', "ValueError: not cleared")],
    ),
    "an element that cannot be added": (
        WindowedStream(TEN, Visit).aggregate(Amounts(), Ends(), int),
        visits(("ann", 1, 1), ("ann", 7, 2), ("ann", 4, 3), ("bob", 7, 4)),
        ["ann 10 1"],
        [('"ann"', "ValueError: seven"), ('"bob"', "ValueError: seven")],
    ),
    "a sum without a result": (
        WindowedStream(TEN, Visit).aggregate(Amounts(), Ends(), int),
        visits(("ann", 60, 1), ("ann", 40, 2), ("ann", 50, 12)),
        ["ann 20 1"],
        [('"ann"', "ZeroDivisionError: integer division or modulo by zero")],
    ),
    "an element of a session": (
        WindowedStream(SESSIONS, Visit).aggregate(Amounts(), Ends(), int),
        visits(("ann", 7, 1), ("ann", 1, 5), ("ann", 4, 12), ("bob", 7, 3)),
        ["ann 10 1"],
        [('"ann"', "ValueError: seven"), ('"bob"', "ValueError: seven")],
    ),
    "an element that fires a window": (
        WindowedStream(GlobalWindows.create(), Visit).trigger(PurgingTrigger.of(CountTrigger.of(2))).apply(Pairwise()),
        visits(("ann", 0, 1), ("ann", 1, 2), ("ann", 2, 3), ("ann", 3, 4)),
        ["ann 1"],
        [('"ann"', "ZeroDivisionError: integer division or modulo by zero")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("operation", "rows", "values", "errors"), WINDOWS.values(), ids=WINDOWS)
def test_windows_go_on_after_an_error_of_a_function(tmp_path, backend, operation, rows, values, errors):
    engine = windows_of(tmp_path, backend, operation, FAILED)

    found, counted = engine.batch(rows), sum(one.errors for one in engine.measured)
    engine.new_process()
    found += engine.batch(visits(("zoe", 1, 100)))

    assert (values, errors) == values_and_errors(found)
    assert len(errors) == counted + sum(one.errors for one in engine.measured)
    # Nothing is left of a window that is over: only that of the last element, and what a key has for itself.
    engine.new_process()
    assert [] == [row for row in engine.batch([], drains=True) if not str(row["value"]).startswith("zoe")]


@pytest.mark.parametrize(("operation", "rows"), [case[:2] for case in WINDOWS.values()], ids=WINDOWS)
def test_windows_end_the_query_at_an_error_without_a_policy(tmp_path, operation, rows):
    engine = windows_of(tmp_path, BACKENDS["hashmap"], operation, "fail")
    with pytest.raises(FunctionFailed, match="the function failed with"):
        engine.batch(rows + visits(("zoe", 1, 100)))


def test_windows_that_cannot_be_merged_end_the_query_with_any_policy(tmp_path, backend):
    operation = WindowedStream(SESSIONS, Visit).aggregate(Amounts(), Ends(), int)
    engine = windows_of(tmp_path, backend, operation, "skip", delay_ms=100)
    engine.batch(visits(("ann", 400, 1), ("ann", 600, 15)))
    with pytest.raises(FunctionFailed, match="a thousand"):
        engine.batch(visits(("ann", 1, 8)))


def test_a_module_that_a_worker_does_not_find_is_named_with_what_to_do(tmp_path):
    broken = Broken(ModuleNotFoundError("No module named 'shop'", name="shop"))
    engine = Batches(tmp_path, broken, BACKENDS["hashmap"], schema=SCHEMA, key=("user",), element=Visit)

    with pytest.raises(FunctionFailed, match=r"does not find 'shop': import it at the top of the module .*addPyFile"):
        engine.batch(ROWS[:1])


def test_few_bad_rows_among_many_are_found(tmp_path):
    rows = [{"user": None if number in {17, 900} else f"u{number}", "amount": 1, "at": 2 + 2 * number}
            for number in range(1000)]  # fmt: skip
    engine = engine_of(tmp_path, BACKENDS["hashmap"], "skip")
    assert 998 == len(engine.batch(rows))
    assert 2 == sum(one.errors for one in engine.measured)


@pytest.mark.parametrize("policy", ["ignore", None, OutputTag("failed", int)], ids=repr)
def test_another_policy_is_refused(policy):
    with pytest.raises(DeclarationError, match=r"on_error|FailedElement"):
        check_policy(policy)


def test_two_side_outputs_of_one_name_are_refused():
    with pytest.raises(DeclarationError, match="two side outputs with the name 'failed'"):
        _side_serializers([OutputTag("failed", int)], FAILED)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Visit("ann", 1, 2), '{"user": "ann", "amount": 1, "at": 2}'),
        (("ann", 1.5, None), '["ann", 1.5, null]'),
        (b"x", "\"b'x'\""),
        ({(1, 2): 3}, '"{(1, 2): 3}"'),
    ],
    ids=repr,
)
def test_elements_are_json(value, text):
    assert text == as_json(value)


class Pairs(Poisoned):
    """Has tuples as results."""

    def process_element(self, value: Visit, ctx: Any) -> Iterator[tuple[str, int]]:
        for total in super().process_element(value, ctx):
            yield total.user, total.total

    def on_timer(self, timestamp, ctx):
        for total in super().on_timer(timestamp, ctx):
            yield total.user, total.total


class Largest(KeyedProcessFunction):
    """Takes such tuples."""

    def open(self, runtime_context):
        self.largest = runtime_context.get_state(ValueStateDescriptor("largest", int, default_value=0))

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[tuple[str, int]]:
        user, total = value
        self.largest.update(max(self.largest.value(), total))
        yield user, self.largest.value()


@pytest.mark.slow
def test_a_query_goes_on_without_what_fails_and_tuples_go_to_the_next_operator(query, spark):
    columns = "user string, amount long, at long"
    visits, rows = query(columns, slots=1), [tuple(row.values()) for row in ROWS[:6]]
    visits.feed(*rows)

    job = visits.job()
    pairs = job.stream(visits.frame()).key_by("user").process(Pairs(), uid="pairs", on_error="skip")
    largest = job.stream(pairs).key_by("f0").process(Largest(), uid="largest")
    running = visits.start(job, largest, available_now=True)
    running.awaitTermination()

    assert ("ann", 1) in visits.results("f0", "f1")
    # -1, the null key, the null amount, the wrong result, and the timer at an odd time
    assert 5 == sum(one.observedMetrics["pairs"]["errors"] for one in running.recentProgress)

    job, out = visits.job(), str(visits.place / "bounded")
    stream = job.stream(spark.createDataFrame(rows, columns)).key_by("user")
    pairs = stream.process(Pairs(), uid="pairs", on_error=FAILED)
    saved = job.run(pairs.write.format("parquet").option("path", out), savepoint=visits.place / "saved")
    errors = [row.error for row in spark.read.parquet(out).where("side_output = 'failed'").select("failed.*").collect()]
    assert {"pairs": 5} == saved.position["errors"]
    assert 5 == len(errors)
    assert "ZeroDivisionError: below nothing" in errors
