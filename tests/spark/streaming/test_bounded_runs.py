"""Bounded runs: static DataFrames are processed once, and the state becomes a savepoint."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest
from pyspark.errors import PySparkException
from streaming_sessions import COLUMNS, Sessions, clicks, expected
from streaming_totals import Numbered

from stateshift import (
    DeclarationError,
    EventTimeSessionWindows,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    Savepoint,
    ValueStateDescriptor,
    WindowedStream,
)
from stateshift.serializers.errors import FunctionFailed
from stateshift.spark.streaming.carriers import APPLY_IN_PANDAS, TRANSFORM
from stateshift.state.timers import USER_TIMERS, TimeDomain, queue_name


def saved(results, place):
    return results.write.format("parquet").option("path", str(place / "out"))


def sessions(job, frame, function=None):
    return job.stream(frame, timestamp="at").key_by("user").process(function or Sessions(), uid="sessions")


def timers(savepoint, uid="sessions", domain=TimeDomain.EVENT_TIME):
    """Return the times of the timers of an operator."""
    return sorted(one.timestamp for one in savepoint.operator(uid).state(queue_name(USER_TIMERS, domain)).read_timers())


@pytest.mark.slow
def test_rows_in_any_order_have_the_results_of_a_stream_and_the_last_watermark_fires_what_is_left(query, spark):
    names, rows = query(COLUMNS), clicks(0, 400)
    frame = spark.createDataFrame(rows, COLUMNS).orderBy("user").repartition(3)
    job = names.job()

    savepoint = job.run(saved(sessions(job, frame), names.place), savepoint=names.place / "saved", position="2024")

    assert expected(rows) == names.results()
    assert timers(savepoint) == []
    assert {"position": "2024", "watermarks": {"sessions": [rows[-1][1] - 1]}, "drained": True} == savepoint.position
    assert not (names.place / "state").exists()
    assert not (names.place / "checkpoint").exists()


def test_a_run_that_does_not_drain_leaves_its_timers_to_the_stream(query, spark):
    names, rows = query(COLUMNS), clicks(0, 400)
    job = names.job()
    results = sessions(job, spark.createDataFrame(rows, COLUMNS))

    savepoint = job.run(saved(results, names.place), savepoint=names.place / "saved", drain=False)

    found = set(names.results())
    left = set(expected(rows)) - found
    assert left
    assert found < set(expected(rows))
    assert {at for kind, _, at, _ in left} <= set(timers(savepoint))
    assert savepoint.position["drained"] is False


@pytest.mark.slow
@pytest.mark.parametrize(("files", "carrier"), [
    (1, TRANSFORM),
    (7, APPLY_IN_PANDAS),
    pytest.param(50, TRANSFORM, marks=pytest.mark.faults),
    pytest.param(50, APPLY_IN_PANDAS, marks=pytest.mark.faults),
])  # fmt: skip
def test_the_same_rows_in_several_batches_have_the_results_of_a_bounded_run(query, spark, files, carrier):
    streamed, whole, rows = query(COLUMNS, carrier=carrier), query(COLUMNS), clicks(files, 700)
    whole.place = streamed.place / "whole"
    for number in range(files):
        streamed.feed(*rows[number * len(rows) // files : (number + 1) * len(rows) // files])
    job = whole.job()
    job.run(saved(sessions(job, spark.createDataFrame(rows, COLUMNS)), whole.place), savepoint=whole.place / "saved")
    streamed.run(lambda job, query: sessions(job, query.frame()))
    streamed.drain(lambda job, query: sessions(job, query.frame()))

    assert expected(rows) == whole.results() == streamed.results()
    assert [] == timers(Savepoint.open(streamed.place / "state"))


BIG = OutputTag("big", str)


@attrs.frozen
class Drawn:
    user: str
    name: str
    at: int


class Draws(KeyedProcessFunction):
    """Emits and keeps what is never the same twice."""

    def open(self, runtime_context):
        self.drawn = runtime_context.get_state(ValueStateDescriptor("drawn", str))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Drawn]:
        name = uuid.uuid4().hex
        self.drawn.update(name)
        yield Drawn(value.user, name, ctx.timestamp())
        yield BIG, name


@pytest.mark.slow
def test_all_writers_and_the_savepoint_have_the_results_of_the_same_attempts(query, spark):
    names = query(COLUMNS)
    place, job = names.place, names.job()
    frame = spark.createDataFrame([("ann", 1), ("bob", 2), ("cy", 3)], COLUMNS)
    drawn = job.stream(frame, timestamp="at").key_by("user").process(Draws(), uid="draws", side_outputs=[BIG])
    first = drawn.where("side_output is null").select("user", "name")
    second = drawn.where("side_output = 'big'").select("big").repartition(3)
    writers = [df.write.format("parquet").option("path", str(place / name)) for name, df in
               (("first", first), ("second", second))]  # fmt: skip

    savepoint = job.run(*writers, savepoint=place / "saved")

    kept = {entry.key: entry.value for entry in savepoint.operator("draws").state("drawn").read_entries()}
    assert kept == dict(map(tuple, spark.read.parquet(str(place / "first")).collect()))
    assert sorted(kept.values()) == sorted(row.big for row in spark.read.parquet(str(place / "second")).collect())
    with pytest.raises(PySparkException, match=r"results of 'draws' are there only while a bounded run"):
        drawn.collect()


@attrs.frozen
class Click:
    user: str
    at: int


class Counts(KeyedProcessFunction):
    """Counts the elements of a key."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int, default_value=0))

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        self.count.update(self.count.value() + 1)
        yield str(ctx.get_current_key()), self.count.value()


@pytest.mark.slow
def test_operators_in_a_chain_and_windows(query, spark):
    names, rows = query(COLUMNS), [("ann", 1), ("bob", 2), ("ann", 3), ("ann", 4000)]
    job = names.job()
    gap = WindowedStream(EventTimeSessionWindows.with_gap(timedelta(seconds=1)), Click)
    clicked = job.stream(spark.createDataFrame(rows, COLUMNS), timestamp="at", element_type=Click).key_by("user")
    latest = clicked.process(gap.reduce(lambda _, later: later), uid="latest", output_type=Click)
    counted = job.stream(latest).key_by("user").process(Counts(), uid="counts")

    savepoint = job.run(saved(counted, names.place), savepoint=names.place / "saved")

    assert [("ann", 1), ("ann", 2), ("bob", 1)] == names.results()
    assert {"latest", "counts"} == {one.uid for one in savepoint.operators}


RATES = MapStateDescriptor("rates", str, int)


class Converted(KeyedBroadcastProcessFunction):
    """Multiplies amounts by a rate that is broadcast."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        yield value.user, value.at * (ctx.get_broadcast_state(RATES).get("usd") or 0)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        ctx.get_broadcast_state(RATES).put(value.currency, value.rate)
        return iter(())


class Balances(KeyedCoProcessFunction):
    """Adds the elements of one input, and subtracts those of the other."""

    def open(self, runtime_context):
        self.balance = runtime_context.get_state(ValueStateDescriptor("balance", int, default_value=0))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        yield self._plus(ctx, value.at)

    def process_element2(self, value: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        yield self._plus(ctx, -value.paid)

    def _plus(self, ctx, amount):
        self.balance.update(self.balance.value() + amount)
        return ctx.get_current_key(), self.balance.value()


@pytest.mark.slow
def test_two_inputs_and_a_broadcast_one_which_comes_first(query, spark):
    names = query(COLUMNS)
    job = names.job()
    amounts = spark.createDataFrame([("ann", 10), ("bob", 20)], COLUMNS)
    rates = job.stream(spark.createDataFrame([("usd", 2)], "currency string, rate long")).broadcast()
    converted = job.stream(amounts).key_by("user").connect(rates).process(Converted(), uid="converted")
    paid = spark.createDataFrame([("ann", 3, 5), ("bob", 4, 25)], "user string, paid long, at long")
    one, other = job.stream(amounts, timestamp="at"), job.stream(paid, timestamp="at")
    balances = one.key_by("user").connect(other.key_by("user")).process(Balances(), uid="balances")

    job.run(saved(converted.union(balances), names.place), savepoint=names.place / "saved")

    in_time = [("ann", -3), ("ann", 7), ("bob", 20), ("bob", 16)]
    assert sorted([("ann", 20), ("bob", 40), *in_time], key=repr) == names.results()


class Alarm(KeyedProcessFunction):
    """Sets a timer of processing time for a time that has come, and one for a time that has not."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[int]:
        timers = ctx.timer_service()
        now = timers.current_processing_time()
        timers.register_processing_time_timer(now)
        timers.register_processing_time_timer(now + 3_600_000)
        return iter(())

    def on_timer(self, timestamp, ctx):
        yield 100


@pytest.mark.slow
def test_operator_state_and_timers_of_processing_time_that_are_not_due_are_kept(query, spark):
    names = query(COLUMNS)
    job = names.job(slots=1)
    frame = spark.createDataFrame([("ann", 1), ("bob", 2)], COLUMNS)
    numbers = job.stream(frame).process(Numbered(), uid="numbered")
    alarms = job.stream(frame).key_by("user").process(Alarm(), uid="alarm")

    savepoint = job.run(saved(numbers.union(alarms), names.place), savepoint=names.place / "saved")

    assert sorted([(1,), (2,), (100,), (100,)], key=repr) == names.results()
    assert [[2]] == savepoint.operator("numbered").state("parts").read_elements()
    assert 2 == len(timers(savepoint, "alarm", TimeDomain.PROCESSING_TIME))


class Fails(Counts):
    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        yield from super().process_element(value, ctx)
        raise ZeroDivisionError("not this one")


@pytest.mark.slow
def test_a_function_that_fails_leaves_nothing(query, spark):
    names = query(COLUMNS)
    job = names.job()
    results = job.stream(spark.createDataFrame([("ann", 1)], COLUMNS)).key_by("user").process(Fails(), uid="counts")

    with pytest.raises(FunctionFailed, match=r"key 'ann', at the element Row.*ZeroDivisionError: not this one"):
        job.run(saved(results, names.place), savepoint=names.place / "saved")
    assert [] == [path for path in names.place.iterdir() if path.name != "in"]


@pytest.mark.slow
def test_a_writer_that_fails_prevents_the_savepoint(query, spark):
    names = query(COLUMNS)
    (names.place / "out").mkdir()
    job = names.job()
    results = job.stream(spark.createDataFrame([("ann", 1)], COLUMNS)).key_by("user").process(Counts(), uid="counts")

    with pytest.raises(PySparkException, match="already exists") as failed:
        job.run(saved(results, names.place), savepoint=names.place / "saved")
    assert ["0 of 1 writers had written the results of the run, and no savepoint was."] == failed.value.__notes__
    assert ["out"] == [path.name for path in names.place.iterdir()]


def test_static_and_streaming_inputs_do_not_mix(query, spark):
    names = query(COLUMNS)
    static = spark.createDataFrame([("ann", 1)], COLUMNS)
    job = names.job()
    one, other = (job.stream(df).key_by("user") for df in (static, names.frame()))
    with pytest.raises(DeclarationError, match=r"some inputs of the job are static.*'both' is the first"):
        one.connect(other).process(Balances(), uid="both")
    results = one.process(Counts(), uid="counts")
    with pytest.raises(DeclarationError, match=r"some inputs of the job are static.*'more' is the first"):
        other.process(Counts(), uid="more")
    with pytest.raises(DeclarationError, match=r"(?s)static.*job.run"):
        job.start(results.write)
    with pytest.raises(DeclarationError, match=r"no operator with static inputs"):
        names.job().run(savepoint=names.place / "saved")
    with pytest.raises(DeclarationError, match=r"(?s)DataFrame is not the writer.*results.write"):
        job.run(results, savepoint=names.place / "saved")


def second(number):
    return datetime.fromtimestamp(number, UTC)


@pytest.mark.slow
def test_times_and_nested_columns_travel_unchanged(query, spark):
    names = query(COLUMNS)
    job = names.job()
    schema = "user string, at timestamp, parts array<struct<a: int, b: string>>, `odd name` date"
    rows = [("ann", second(1.5), [(1, "x"), (2, None)], None), ("bob", None, [], second(0).date())]
    frame = spark.createDataFrame(rows, schema)
    results = job.stream(frame, timestamp="at").key_by("user").process(Shows(), uid="shows")

    job.run(saved(results, names.place), savepoint=names.place / "saved")

    assert [("ann", 1500, "[(1, 'x'), (2, None)]"), ("bob", None, "[]")] == names.results()


class Shows(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, int | None, str]]:
        yield value.user, ctx.timestamp(), repr([tuple(part) for part in value.parts])
