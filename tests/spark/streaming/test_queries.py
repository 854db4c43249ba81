"""Queries on Spark, on both carriers: state over batches and restarts, time, side outputs, several inputs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import attrs
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from streaming_queries import BY_CARRIER
from streaming_totals import Numbered

from stateshift import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ValueStateDescriptor,
)


@attrs.frozen
class Visit:
    user: str
    amount: int


@attrs.frozen
class Total:
    user: str
    total: int
    last: Visit
    seen: list[int]


BIG = OutputTag("big", Visit)


class Totals(KeyedProcessFunction):
    """Emits for each element the total of its user, with what value, list and map state have."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", int, default_value=0))
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Visit))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", int))
        self.by_amount = runtime_context.get_map_state(MapStateDescriptor("by_amount", int, int))

    def process_element(self, value: Visit, ctx: Any) -> Iterator[Total]:
        self.total.update(self.total.value() + value.amount)
        self.seen.add(value.amount)
        self.by_amount.put(value.amount, (self.by_amount.get(value.amount) or 0) + 1)
        yield Total(value.user, self.total.value(), self.last.value() or value, sorted(self.by_amount.keys()))
        self.last.update(value)
        if value.amount > 100:
            yield BIG, value


def totals(job, query):
    return job.stream(query.frame()).key_by("user").process(Totals(), uid="totals", side_outputs=[BIG])


@pytest.mark.slow
def test_a_query_has_no_more_partitions_than_slots_or_cores(query, spark):
    visits = query("user string, amount long", slots=3)
    spark.conf.set("spark.sql.shuffle.partitions", "200")
    visits.feed(("ann", 1), ("bob", 2))
    visits.run(totals)

    partitions = max(3, spark.sparkContext.defaultParallelism)
    assert visits.directory.last_epoch.partitions == partitions
    stored = [path for path in (visits.place / "checkpoint/state/0").iterdir() if path.name.isdigit()]
    assert len(stored) == partitions
    assert spark.conf.get("spark.sql.shuffle.partitions") == "200"


def test_state_of_all_kinds_lasts_over_batches_and_restarts(query, carrier):
    visits = query("user string, amount long", carrier=carrier)
    visits.feed(("ann", 1), ("bob", 2), ("ann", 3))
    visits.feed(("ann", 500), ("cy", 4))
    visits.run(totals)
    visits.feed(("bob", 7), ("ann", 3))
    visits.run(totals)

    rows = visits.results()

    main = [
        (user, total, (last.user, last.amount), tuple(seen))
        for user, total, last, seen, tag, big in rows
        if tag is None
    ]
    assert main == sorted([
        ("ann", 1, ("ann", 1), (1,)),
        ("ann", 4, ("ann", 1), (1, 3)),
        ("ann", 504, ("ann", 3), (1, 3, 500)),
        ("ann", 507, ("ann", 500), (1, 3, 500)),
        ("bob", 2, ("bob", 2), (2,)),
        ("bob", 9, ("bob", 2), (2, 7)),
        ("cy", 4, ("cy", 4), (4,)),
    ])  # fmt: skip
    assert [("big", ("ann", 500))] == [(row[4], tuple(row[5])) for row in rows if row[4] is not None]


@attrs.frozen
class FromProcess:
    user: str
    pid: int


class Processes(KeyedProcessFunction):
    """Emits whether an element came from another process, and what this one calls its pool."""

    def process_element(self, value: FromProcess, ctx: Any) -> Iterator[tuple[bool, str]]:
        yield value.pid != os.getpid(), os.environ.get("STATESHIFT_WORKERS", "")


def test_workers_that_hold_state_do_nothing_else(query, carrier):
    visits = query("user string", carrier=carrier)
    visits.feed(*((f"user {number}",) for number in range(8)))
    visits.feed(*((f"user {number}",) for number in range(8)))

    def with_process(batches):
        for batch in batches:
            here = pa.array([os.getpid()] * batch.num_rows, pa.int64())
            yield pa.RecordBatch.from_arrays([batch.column(0), here], names=["user", "pid"])

    def made(job, query):
        rows = query.frame().mapInArrow(with_process, "user string, pid long")
        return job.stream(rows).key_by("user").process(Processes(), uid="processes")

    visits.run(made)
    assert [(True, "slots")] * 16 == [tuple(row[:2]) for row in visits.results()]


class Sessions(KeyedProcessFunction):
    """Counts the elements of a key, and emits the count 10 s of event time after the last one."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int, default_value=0))
        self.until = runtime_context.get_state(ValueStateDescriptor("until", int, default_value=0))

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, int, int]]:
        timers = ctx.timer_service()
        if self.count.value():
            timers.delete_event_time_timer(self.until.value())
        self.count.update(self.count.value() + 1)
        self.until.update(max(ctx.timestamp() + 10_000, self.until.value()))
        timers.register_event_time_timer(self.until.value())
        return iter(())

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.count.value(), timestamp
        self.count.clear()
        self.until.clear()


def second(number):
    return datetime.fromtimestamp(number, UTC)


@pytest.mark.slow
def test_timers_of_event_time_fire_in_the_batch_that_passes_them(query, carrier):
    clicks = query("user string, at timestamp", carrier=carrier)

    def sessions(job, query):
        return job.stream(query.frame(), timestamp="at").key_by("user").process(Sessions(), uid="sessions")

    clicks.feed(("ann", second(1)), ("bob", second(2)), ("ann", second(8)))
    clicks.feed(("cy", second(15)))
    clicks.run(sessions)
    assert [("bob", 1, 12_000)] == clicks.results()
    clicks.feed(("ann", second(40)), ("ann", second(17)))
    clicks.run(sessions)

    assert [("ann", 3, 27_000), ("bob", 1, 12_000), ("cy", 1, 25_000)] == clicks.results()


class Alarm(KeyedProcessFunction):
    """Emits a key half a second after its element."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, bool]]:
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 500)
        yield value.user, False

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), ctx.timer_service().current_processing_time() >= timestamp


@pytest.mark.slow
def test_a_timer_of_processing_time_wakes_a_slot_without_rows(query, carrier):
    visits = query("user string", carrier=carrier)
    visits.feed(("ann",), ("bob",))
    job = visits.job()
    results = job.stream(visits.frame()).key_by("user").process(Alarm(), uid="alarm")
    writer = results.writeStream.format("memory").queryName("alarms").trigger(processingTime="200 milliseconds")
    running = job.start(writer)
    end = time.monotonic() + 60

    while len(rows := visits.spark.table("alarms").collect()) < 4 and time.monotonic() < end and running.isActive:
        time.sleep(0.1)

    assert sorted(tuple(row) for row in rows) == [("ann", False), ("ann", True), ("bob", False), ("bob", True)]
    running.stop()


@attrs.frozen
class Payment:
    country: str
    user: str
    paid: int


class Balances(KeyedCoProcessFunction):
    """Keeps a balance of amounts and payments."""

    def open(self, runtime_context):
        self.balance = runtime_context.get_state(ValueStateDescriptor("balance", int, default_value=0))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[tuple[str, str, int]]:
        yield self._plus(ctx, value.amount)

    def process_element2(self, value: Payment, ctx: Any) -> Iterator[tuple[str, str, int]]:
        yield self._plus(ctx, -value.paid)

    def _plus(self, ctx, amount):
        self.balance.update(self.balance.value() + amount)
        return *ctx.get_current_key(), self.balance.value()


@pytest.mark.slow
@BY_CARRIER
def test_two_inputs_with_a_key_of_two_columns(query, carrier):
    amounts = query("country string, user string, amount long", carrier=carrier)
    paid = pa.schema({"country": pa.string(), "user": pa.string(), "paid": pa.int64()})

    def balances(job, query):
        own = job.stream(query.frame()).key_by("country", "user")
        other = job.stream(query.frame("paid", "country string, user string, paid long")).key_by("country", "user")
        return own.connect(other).process(Balances(), uid="balances")

    amounts.feed(("de", "ann", 10), ("fr", "ann", 20))
    amounts.run(balances)
    amounts.feed(("de", "ann", 3), into="paid", schema=paid)
    amounts.run(balances)

    assert [("de", "ann", 10), ("de", "ann", 7), ("fr", "ann", 20)] == amounts.results()


RATES = MapStateDescriptor("rates", str, int)


class Converted(KeyedBroadcastProcessFunction):
    """Multiplies amounts by a rate that is broadcast."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        yield value.user, value.amount * (ctx.get_broadcast_state(RATES).get(value.currency) or 0)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        ctx.get_broadcast_state(RATES).put(value.currency, value.rate)
        return iter(())


@pytest.mark.slow
@BY_CARRIER
def test_a_broadcast_input_reaches_all_slots_and_lasts(query, carrier):
    amounts = query("user string, currency string, amount long", carrier=carrier)
    rates = pa.schema({"currency": pa.string(), "rate": pa.int64()})

    def converted(job, query):
        broadcast = job.stream(query.frame("rates", "currency string, rate long")).broadcast()
        return job.stream(query.frame()).key_by("user").connect(broadcast).process(Converted(), uid="converted")

    amounts.feed(("usd", 2), ("eur", 3), into="rates", schema=rates)
    amounts.run(converted)
    amounts.feed(*((user, "usd", 1) for user in "abcdefgh"))
    amounts.run(converted)
    amounts.feed(*((user, "eur", 1) for user in "abcdefgh"))
    amounts.run(converted, slots=3)

    assert sorted([(user, rate) for user in "abcdefgh" for rate in (2, 3)]) == sorted(amounts.results())


@pytest.mark.slow
@BY_CARRIER
def test_a_function_without_keys_has_operator_state_which_is_dealt_out_anew(query, carrier):
    visits = query("user string", carrier=carrier)

    def numbered(job, query):
        return job.stream(query.frame()).process(Numbered(), uid="numbered")

    visits.feed(("ann",), ("bob",))
    visits.run(numbered, slots=1)
    visits.feed(("cy",))
    visits.run(numbered, slots=1)
    assert [(1,), (2,), (3,)] == visits.results()
    visits.feed(("dan",), ("eve",))
    visits.run(numbered, slots=2)  # the only part is dealt to the first slot, and a file is read by the first task
    visits.feed(("fay",))
    visits.run(numbered, slots=1)

    assert [(1,), (2,), (3,), (4,), (5,), (6,)] == visits.results()


@pytest.mark.slow
def test_a_job_may_be_started_again(query):
    visits = query("user string, amount long")
    visits.feed(("ann", 1))
    job = visits.job()
    results = job.stream(visits.frame()).key_by("user").process(Totals(), uid="totals", side_outputs=[BIG])
    visits.start(job, results, available_now=True).awaitTermination()
    visits.feed(("ann", 2))
    visits.start(job, results, available_now=True).awaitTermination()

    assert [("ann", 1), ("ann", 3)] == visits.results("user", "total")


class Scaled(Totals):
    """Has the state of `Totals`, and fails at an amount, or emits totals times a factor."""

    def __init__(self, factor, fails_at=None):
        self.factor, self.fails_at = factor, fails_at

    def process_element(self, value: Visit, ctx: Any) -> Iterator[tuple[str, int]]:
        for result in super().process_element(value, ctx):
            if value.amount == self.fails_at:
                raise ZeroDivisionError("not this one")
            yield value.user, result.total * self.factor


@pytest.mark.slow
@BY_CARRIER
def test_a_query_that_failed_goes_on_with_corrected_code(query, carrier):
    visits = query("user string, amount long", carrier=carrier)

    def scaled(*arguments):
        return lambda job, query: job.stream(query.frame()).key_by("user").process(Scaled(*arguments), uid="totals")

    visits.feed(("ann", 1))
    visits.run(scaled(1))
    visits.feed(("ann", 2), ("bob", 3), ("ann", 4))
    with pytest.raises(StreamingQueryException) as failed:
        visits.run(scaled(1, 3))
    first, code, *_ = str(failed.value).splitlines()
    assert first == (
        "in operator 'totals', key 'bob', at the element Visit(user='bob', amount=3): the function failed with"
        " ZeroDivisionError: not this one"
    )
    assert "in process_element" in code
    assert "Streaming Query" not in str(failed.value)
    assert "Streaming Query" in str(failed.value.__cause__)
    assert [("ann", 1)] == visits.results()
    visits.run(scaled(10))

    assert [("ann", 1), ("ann", 30), ("ann", 70), ("bob", 30)] == visits.results()


MONEY = """
from collections.abc import Iterator
from typing import Any
import attrs
from stateshift import KeyedProcessFunction, TypeSerializer, TypeSerializerConfigSnapshot, ValueStateDescriptor
from stateshift import register_serializer, register_snapshot

@attrs.frozen
class Money:
    units: int

@attrs.frozen
class MoneySerializer(TypeSerializer[Money]):
    def serialize(self, value, target):
        target.write_long(value.units)
    def deserialize(self, source):
        return Money(source.read_long())
    def snapshot_configuration(self):
        return MoneySnapshot()

@register_snapshot
@attrs.define
class MoneySnapshot(TypeSerializerConfigSnapshot[Money]):
    snapshot_id = "stateshift/acme.streamed-money"
    def write(self, target): pass
    def read(self, source): pass
    def restore_serializer(self):
        return MoneySerializer()

register_serializer(Money, MoneySerializer())

class Purse(KeyedProcessFunction):
    def open(self, runtime_context):
        self.money = runtime_context.get_state(ValueStateDescriptor("money", Money, Money(0)))
    def process_element(self, value: Any, ctx: Any) -> Iterator[int]:
        self.money.update(Money(self.money.value().units + value.amount))
        yield self.money.value().units
"""


@pytest.mark.slow
def test_a_users_own_serializer_is_known_to_the_workers(query, load):
    purse = load("streamed_money", streamed_money=MONEY).Purse
    live = query("user string, amount long")
    for rows in ([("ann", 1), ("bob", 2)], [("ann", 3)]):
        live.feed(*rows)
        live.run(lambda job, one: job.stream(one.frame()).key_by("user").process(purse(), uid="purse"))

    assert [(1,), (2,), (4,)] == live.results()
