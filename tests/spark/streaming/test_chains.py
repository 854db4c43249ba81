"""Several stateful operators in a query: ours after each other and side by side, and Spark's own before and after."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from stateshift import DeclarationError, KeyedProcessFunction, ValueStateDescriptor
from stateshift.spark.streaming.carriers import CARRIERS, TRANSFORM


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


def test_two_operators_in_a_chain_have_keys_of_their_own(query):
    names = query(COLUMNS, carrier=TRANSFORM)

    def chained(job, query):
        users = job.stream(query.frame()).key_by("user").process(Counts(), uid="users")
        return job.stream(users).key_by("parity").process(Counts(), uid="parities")

    feed_and_run(names, chained)

    # ann, bob, ann, ann, cy: odd, odd, even, odd, odd
    assert [("even", 1), ("odd", 1), ("odd", 2), ("odd", 3), ("odd", 4)] == names.results("name", "count")
    assert {"users", "parities"} == set(names.directory.last_epoch.carriers)


def test_two_operators_side_by_side(query):
    names = query(COLUMNS, carrier=TRANSFORM)

    def beside(job, query):
        frame = query.frame()
        users = job.stream(frame).key_by("user").process(Counts(), uid="users")
        minutes = frame.withColumn("minute", F.minute("at").cast("string"))
        return users.union(job.stream(minutes).key_by("minute").process(Counts(), uid="minutes"))

    feed_and_run(names, beside)

    counted = sorted([("ann", 1), ("ann", 2), ("ann", 3), ("bob", 1), ("cy", 1)])
    assert counted == [row for row in names.results("name", "count") if row[0].isalpha()]
    assert [(str(minute), 1) for minute in (0, 1, 2, 3, 30)] == sorted(
        (row for row in names.results("name", "count") if row[0].isdigit()), key=lambda row: int(row[0])
    )


@pytest.mark.parametrize("carrier", CARRIERS)
def test_spark_drops_duplicates_after_an_operator(query, carrier):
    names = query(COLUMNS, carrier=carrier)

    def distinct(job, query):
        return job.stream(query.frame()).key_by("user").process(Counts(), uid="users").dropDuplicates(["parity"])

    feed_and_run(names, distinct)

    assert ["even", "odd"] == [parity for (parity,) in names.results("parity")]


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


def test_an_operator_after_an_aggregation(query):
    names = query(COLUMNS, carrier=TRANSFORM)

    feed_and_run(names, after_an_aggregation)
    names.feed(("dan", at(59)))
    names.run(after_an_aggregation)

    assert [("ann", 1), ("bob", 1)] == names.results("name", "count")


def test_what_spark_refuses_is_refused_before_anything_is_written(query):
    names = query(COLUMNS)
    names.feed(("ann", at(0)))

    with pytest.raises(DeclarationError, match=r'Spark refuses the query.*\n.*carrier="transform_with_state"'):
        names.run(after_an_aggregation)
    assert not (names.place / "state").exists()
    assert not (names.place / "checkpoint").exists()


def test_a_second_operator_on_the_carrier_that_spark_allows_once_is_refused(query):
    names = query(COLUMNS)
    job = names.job()
    users = job.stream(names.frame()).key_by("user").process(Counts(), uid="users")
    with pytest.raises(DeclarationError, match=r"this is the second\n.*transform_with_state"):
        job.stream(users).key_by("parity").process(Counts(), uid="parities")
