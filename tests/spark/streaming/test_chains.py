"""Several stateful operators in a query: ours after each other and side by side, and Spark's own before and after."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from stateshift import DeclarationError, KeyedProcessFunction, ValueStateDescriptor
from stateshift.spark.streaming.carriers import APPLY_IN_PANDAS, CARRIERS, TRANSFORM


@attrs.frozen
class Count:
    name: str
    parity: str
    count: int
    at: datetime


class Counts(KeyedProcessFunction):
    """Counts the elements of a key."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int, default_value=0))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Count]:
        count = self.count.value() + 1
        self.count.update(count)
        yield Count(ctx.get_current_key(), "even" if count % 2 == 0 else "odd", count, value.at)


COLUMNS = "user string, at timestamp"


def at(minute):
    return datetime(2024, 1, 1, 0, minute, tzinfo=UTC)


def feed_and_run(names, build, **options):
    names.feed(("ann", at(0)), ("bob", at(1)), ("ann", at(2)))
    names.run(build, **options)
    names.feed(("ann", at(3)), ("cy", at(30)))
    names.run(build, **options)


def carriers(names):
    return names.directory.last_epoch.carriers


@pytest.mark.slow
@pytest.mark.parametrize("carrier", [None, TRANSFORM])
def test_two_operators_in_a_chain_have_keys_of_their_own(query, carrier):
    names = query(COLUMNS, carrier=carrier)

    def chained(job, query):
        users = job.stream(query.frame()).key_by("user").process(Counts(), uid="users")
        return job.stream(users).key_by("parity").process(Counts(), uid="parities")

    feed_and_run(names, chained)

    # ann, bob, ann, ann, cy: odd, odd, even, odd, odd
    assert [("even", 1), ("odd", 1), ("odd", 2), ("odd", 3), ("odd", 4)] == names.results("name", "count")
    assert {"users": carrier or APPLY_IN_PANDAS, "parities": TRANSFORM} == carriers(names)


class Long(KeyedProcessFunction):
    """Has a long text for each element."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, str]]:
        yield value[0], str(value[0]) * 300_000


@pytest.mark.slow
def test_results_that_are_too_many_for_memory_pass_with_either_carrier(query):
    names = query("user string", slots=1)
    names.feed(*((f"user {number}",) for number in range(20)))

    def chained(job, query):
        first = job.stream(query.frame()).key_by("user").process(Long(), uid="first")
        return job.stream(first).key_by("f0").process(Long(), uid="second")

    names.run(chained)

    assert [APPLY_IN_PANDAS, TRANSFORM] == [carriers(names)[uid] for uid in ("first", "second")]
    expected = {(f"user {number}", f"user {number}" * 300_000) for number in range(20)}
    assert expected == {tuple(row) for row in names.results()}


@pytest.mark.slow
@pytest.mark.parametrize("carrier", [None, TRANSFORM])
def test_two_operators_side_by_side(query, carrier):
    names = query(COLUMNS, carrier=carrier)

    def beside(job, query, order=("users", "minutes"), *, is_turned=False):
        frame = query.frame()
        minutes = frame.withColumn("minute", F.minute("at").cast("string"))
        made = {
            uid: job.stream({"users": frame, "minutes": minutes}[uid]).key_by(uid[:-1]).process(Counts(), uid=uid)
            for uid in order
        }
        first, second = ("minutes", "users") if is_turned else ("users", "minutes")
        return made[first].union(made[second])

    feed_and_run(names, beside)
    assert {"users": carrier or APPLY_IN_PANDAS, "minutes": TRANSFORM} == carriers(names)
    names.feed(("ann", at(40)))
    names.run(lambda job, query: beside(job, query, ("minutes", "users")))  # each on the carrier that it was on
    with pytest.raises(DeclarationError, match=r"operators (users, minutes|minutes, users), in this order"):
        names.run(lambda job, query: beside(job, query, is_turned=True))

    counted = sorted([("ann", 1), ("ann", 2), ("ann", 3), ("ann", 4), ("bob", 1), ("cy", 1)])
    assert counted == [row for row in names.results("name", "count") if row[0].isalpha()]
    assert [(str(minute), 1) for minute in (0, 1, 2, 3, 30, 40)] == sorted(
        (row for row in names.results("name", "count") if row[0].isdigit()), key=lambda row: int(row[0])
    )


@pytest.mark.slow
@pytest.mark.parametrize("carrier", CARRIERS)
def test_spark_drops_duplicates_after_an_operator(query, carrier):
    names = query(COLUMNS, carrier=carrier)

    def distinct(job, query):
        return job.stream(query.frame()).key_by("user").process(Counts(), uid="users").dropDuplicates(["parity"])

    feed_and_run(names, distinct)

    assert ["even", "odd"] == [parity for (parity,) in names.results("parity")]


@pytest.mark.slow
@pytest.mark.parametrize("carrier", CARRIERS)
def test_spark_aggregates_windows_after_an_operator(query, carrier):
    names = query(COLUMNS, carrier=carrier)

    def windows(job, query):
        users = job.stream(query.frame()).key_by("user").process(Counts(), uid="users")
        return (
            users.withWatermark("at", "0 seconds")
            .groupBy(F.window("at", "10 minutes"))
            .agg(F.sum("count").alias("sum"))
            .select("sum")
        )

    feed_and_run(names, windows)
    names.feed(("dan", at(59)))
    names.run(windows)  # without empty batches, Spark emits a window with the next rows

    assert [(1 + 1 + 2 + 3,)] == names.results("sum")


def after_an_aggregation(job, query):
    grouped = query.frame().withWatermark("at", "0 seconds").groupBy(F.window("at", "10 minutes"), "user").count()
    return (
        job.stream(grouped.select("user", F.col("window.end").alias("at")))
        .key_by("user")
        .process(Counts(), uid="users")
    )


@pytest.mark.slow
def test_an_operator_after_an_aggregation_has_the_carrier_that_spark_allows_there(query):
    names = query(COLUMNS)

    feed_and_run(names, after_an_aggregation)
    names.feed(("dan", at(59)))
    names.run(after_an_aggregation)

    assert [("ann", 1), ("bob", 1)] == names.results("name", "count")
    assert {"users": TRANSFORM} == carriers(names)


@pytest.mark.slow
def test_in_update_mode_spark_may_aggregate_after_an_operator(query):
    names = query(COLUMNS, output_mode="update")
    names.feed(("ann", at(0)), ("bob", at(1)), ("ann", at(2)))
    job = names.job()
    users = job.stream(names.frame()).key_by("user").process(Counts(), uid="users")
    writer = users.groupBy("parity").count().writeStream.format("memory").queryName("parities")
    job.start(writer, available_now=True).awaitTermination()

    assert {("odd", 2), ("even", 1)} == {tuple(row) for row in names.spark.table("parities").collect()}


def test_what_spark_refuses_is_refused_before_anything_is_written(query):
    names = query(COLUMNS, carrier=APPLY_IN_PANDAS)
    names.feed(("ann", at(0)))

    with pytest.raises(DeclarationError, match=r'Spark refuses the query.*\n.*carrier="transform_with_state"'):
        names.run(after_an_aggregation)
    assert not (names.place / "state").exists()
    assert not (names.place / "checkpoint").exists()


@pytest.mark.slow
def test_an_operator_more_is_refused_because_spark_numbers_them(query):
    names = query(COLUMNS)

    def one(job, query):
        return job.stream(query.frame()).key_by("user").process(Counts(), uid="users")

    def two(job, query):
        return job.stream(one(job, query)).key_by("parity").process(Counts(), uid="parities")

    names.feed(("ann", at(0)))
    names.run(one)
    with pytest.raises(DeclarationError, match=r"the operators users, in this order.*\n.*from a savepoint"):
        names.run(two)
    names.feed(("ann", at(1)))
    names.run(one)

    assert [("ann", 1), ("ann", 2)] == names.results("name", "count")
