"""The error policy of an operator: what fails ends the query, is skipped, or goes to a side output."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import attrs
import pyarrow as pa
import pytest
from streaming_batches import BACKENDS, Batches

from stateshift import DeclarationError, KeyedProcessFunction, OutputTag, StorageFailed, ValueStateDescriptor
from stateshift.serializers.errors import FunctionFailed, ValueNotConvertible
from stateshift.spark.streaming.building import _side_serializers
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
    # HashMap checks values when a batch ends.
    rows = [row for row in ROWS if row["amount"] != 14] if backend is BACKENDS["hashmap"] else ROWS
    engine = engine_of(tmp_path, backend, FAILED, timestamp=timestamp, slots=slots)

    found = engine.batch(rows, now_ms=5)

    good = sorted((row["user"], row["total"]) for row in found if row["side_output"] is None)
    assert [("ann", 1), ("ann", 2), ("ann", 10), ("cy", 3)] == good  # an element that failed has changed the state
    failed = [row["failed"] for row in found if row["side_output"] == "failed"]
    wrong = {('"cy"', 14, "'fourteen' does not fit a long (64 bits)")} if rows is ROWS else set()
    assert {
        (None, 7, "there is a null in the key column 'user', but a key cannot be null"),
        ('"ann"', -1, "ZeroDivisionError: below nothing"),
        ('"ann"', None, "LookupError: odd"),
        ('"bob"', None, "there is a null in the column 'amount', and the field 'amount' may not be null"),
        ('"bob"', 13, "'thirteen' does not fit a long (64 bits)"),
        *wrong,
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
