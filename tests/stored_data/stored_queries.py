"""Queries of a user: functions on Spark in two versions, a source, and queries of Spark alone, which `write_queries.py`
stores.

It is copied beside what it stored. Only what is public is used, as a user would.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import attrs
from pyspark.sql import functions as F  # noqa: N812 - as its users write it

from stateshift import (
    Field,
    Job,
    KeyedProcessFunction,
    ListCheckpointed,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    SourceFunction,
    ValueStateDescriptor,
    record,
)

PLACE = "/tmp/stateshift-stored-queries"  # noqa: S108 - state directories have the places of their checkpoints
COLUMNS = "user string, amount long, at long"


@attrs.frozen
class Payment:
    user: str
    amount: int
    at: int


@attrs.frozen
class Account:
    user: str
    total: int


@record(aliases=["stored_queries.Account"])
@attrs.frozen
class AccountNow:
    user: str
    amount: Annotated[int, Field(aliases=["total"])]
    payments: int = 7


STATES = [
    ValueStateDescriptor("account", Account),
    ListStateDescriptor("amounts", int),
    MapStateDescriptor("by day", int, float),
]
STATES_NOW = [ValueStateDescriptor("account", AccountNow), *STATES[1:]]


class Accounts(KeyedProcessFunction):
    """Keeps an account and more of each user, and sets a timer for each payment, a minute after it."""

    states, account, name = STATES, Account, "total"

    def open(self, runtime_context):
        self.value = runtime_context.get_state(self.states[0])
        self.amounts = runtime_context.get_list_state(self.states[1])
        self.days = runtime_context.get_map_state(self.states[2])

    def process_element(self, payment: Payment, ctx: Any) -> Iterator[str]:
        before = self.value.value()
        total = (0 if before is None else getattr(before, self.name)) + payment.amount
        after = self.account(payment.user, total) if before is None else attrs.evolve(before, **{self.name: total})
        self.value.update(after)
        self.amounts.add(payment.amount)
        self.days.put(payment.amount % 3, payment.amount / 4)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)
        yield repr(after)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        yield f"{ctx.get_current_key()} at {timestamp}: {self.value.value()}"


class AccountsNow(Accounts):
    states, account, name = STATES_NOW, AccountNow, "amount"


job = Job([Operator("accounts", key=str, states=STATES)])
job_now = Job([Operator("accounts", key=str, states=STATES_NOW)])

STATES_MORE = [*STATES, ValueStateDescriptor("more", str)]
STATES_BOTH = [*STATES_NOW, ValueStateDescriptor("more", str)]
job_more = Job([Operator("accounts", key=str, states=STATES_MORE)])
job_both = Job([Operator("accounts", key=str, states=STATES_BOTH)])


@attrs.frozen
class Reading:
    digit: int
    number: int


class Counter(SourceFunction, ListCheckpointed):
    """Emits the numbers 0, 1, 2, and so on, with their last digits."""

    state_type = int

    def __init__(self, end):
        self.next, self.end, self.is_running = 0, end, True

    def run(self, ctx):
        while self.is_running and self.next < self.end:
            with ctx.get_checkpoint_lock():
                ctx.collect(Reading(self.next % 10, self.next))
                self.next += 1

    def cancel(self):
        self.is_running = False

    def snapshot_state(self, checkpoint_id, timestamp):
        return [self.next]

    def restore_state(self, state):
        (self.next,) = state


class Sums(KeyedProcessFunction):
    """Adds up what a source emits, by the last digit."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", int))

    def process_element(self, value: Reading, ctx: Any) -> Iterator[str]:
        self.sum.update((self.sum.value() or 0) + value.number)
        yield f"{value.digit}: {self.sum.value()}"


sums_job = Job([Operator("sums", key=int, states=[ValueStateDescriptor("sum", int)])])

# Queries of Spark alone


def rows(spark, folder="in"):
    place = Path(PLACE, os.environ.get("STORED_QUERY", ""), folder)
    place.mkdir(parents=True, exist_ok=True)
    return spark.readStream.schema("k string, n int, w int, at timestamp").json(str(place))


def sums(spark):
    return rows(spark).groupBy("k").agg(F.sum("n")).writeStream.outputMode("update")


def sums_of_another(spark):
    return rows(spark).groupBy("k").agg(F.sum("w")).writeStream.outputMode("update")


def maxima(spark):
    return rows(spark).groupBy("k").agg(F.max("n")).writeStream.outputMode("update")


def sums_and_counts(spark):
    return rows(spark).groupBy("k").agg(F.count("*"), F.sum("n")).writeStream.outputMode("update")


def windows(spark):
    late = rows(spark).withWatermark("at", "5 minutes")
    return late.groupBy(F.window("at", "10 minutes"), "k").agg(F.avg("n")).writeStream.outputMode("update")


def shorter_windows(spark):
    late = rows(spark).withWatermark("at", "5 minutes")
    return late.groupBy(F.window("at", "5 minutes"), "k").agg(F.avg("n")).writeStream.outputMode("update")


def distinct(spark):
    return rows(spark).dropDuplicates(["k", "n"]).writeStream.outputMode("append")


def distinct_keys(spark):
    return rows(spark).dropDuplicates(["k"]).writeStream.outputMode("append")


def joined(spark, kept="n"):
    left = rows(spark).withWatermark("at", "5 minutes")
    right = rows(spark, "other").select(F.col("k").alias("l"), F.col("w").alias("v"), F.col("at").alias("then"))
    right = right.withWatermark("then", "5 minutes")
    both = F.expr("k = l and then between at and at + interval 10 minutes")
    return left.join(right, both).select("k", kept, "v").writeStream.outputMode("append")


def joined_on_another(spark):
    return joined(spark, "w")


def with_names(spark):
    """A join with a static side, before an aggregation."""
    names = spark.createDataFrame([("a", "Ada"), ("b", "Bob")], "k string, name string")
    return rows(spark).join(names, "k").groupBy("name").agg(F.sum("n")).writeStream.outputMode("update")


def with_names_by_maximum(spark):
    names = spark.createDataFrame([("a", "Ada"), ("b", "Bob")], "k string, name string")
    return rows(spark).join(names, "k").groupBy("name").agg(F.max("n")).writeStream.outputMode("update")
