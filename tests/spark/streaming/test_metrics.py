"""What a query reports of a batch: Spark's observed metrics, a printed line, and side outputs apart."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from stateshift import DeclarationError, KeyedProcessFunction, OutputTag, ValueStateDescriptor
from stateshift.spark import print_progress, split_outputs

COLUMNS = "user string, amount long, at timestamp"


@attrs.frozen
class Large:
    user: str
    amount: int


@attrs.frozen
class Total:
    user: str
    total: int


LARGE, NAMES = OutputTag("large", Large), OutputTag("a name", str)


class Metered(KeyedProcessFunction):
    """Sums amounts, with metrics of each kind, a timer, and side outputs."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", int, default_value=0))
        group = runtime_context.get_metrics_group()
        self.elements = group.counter("elements")
        self.events = group.add_group("by").meter("events")
        self.amounts = group.distribution("amounts")
        group.gauge("seven", lambda: 7)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Total]:
        self.elements.inc()
        self.events.mark_event(2)
        self.amounts.update(value.amount)
        self.total.update(self.total.value() + value.amount)
        ctx.timer_service().register_event_time_timer(ctx.timestamp())
        if value.amount > 100:
            yield LARGE, Large(value.user, value.amount)
            yield NAMES, value.user
        yield Total(value.user, self.total.value())

    def on_timer(self, timestamp, ctx):
        return iter(())


def at(second):
    return datetime.fromtimestamp(second, UTC)


def metered(job, query):
    stream = job.stream(query.frame(), timestamp="at").key_by("user")
    return stream.process(Metered(), uid="totals", side_outputs=[LARGE, NAMES])


@pytest.mark.slow
def test_a_batch_is_measured_once(query, carrier):
    visits = query(COLUMNS, carrier=carrier, slots=2)
    visits.feed(("ann", 1, at(1)), ("bob", 200, at(2)), ("ann", 3, at(3)))
    visits.feed(("cy", 4, at(2)), ("ann", 5, at(9)))
    job = visits.job()
    running = visits.start(job, metered(job, visits), available_now=True)
    running.awaitTermination()

    first, second = (one.observedMetrics["totals"] for one in running.recentProgress)
    assert (2, 3, 0, 2, 5) == counts(first)
    assert (2, 2, 1, 2, 2) == counts(second)
    assert first["opened_slots"] == 2 >= second["opened_slots"]  # a slot may come to another worker
    assert {
        "elements": 3, "by.events": 6, "amounts.count": 3, "amounts.sum": 204, "amounts.min": 1, "amounts.max": 200,
        "seven.count": 2, "seven.sum": 14, "seven.min": 7, "seven.max": 7,
    } == first["metrics"]  # fmt: skip
    assert (2, 4, 5) == tuple(second["metrics"][name] for name in ("elements", "amounts.min", "amounts.max"))
    assert (2_999, 8_999) == (first["watermark_ms"], second["watermark_ms"])
    assert 0 < second["checkpoint_bytes"] < second["state_bytes"]
    assert all(first[name] > 0 for name in ("open_ms", "process_ms", "snapshot_ms"))


def counts(row):
    return tuple(row[name] for name in ("slots", "rows", "late_rows", "timers", "results"))


@pytest.mark.slow
def test_progress_is_printed_by_batch_and_operator(query, spark):
    visits, told = query(COLUMNS), io.StringIO()
    visits.feed(("ann", 1, at(1)), ("bob", 200, at(2)))
    listener = print_progress(spark, file=told)
    try:
        visits.run(metered)
        end = time.monotonic() + 30
        while "totals" not in told.getvalue() and time.monotonic() < end:
            time.sleep(0.05)
    finally:
        spark.streams.removeListener(listener)

    (line,) = told.getvalue().splitlines()
    assert line.startswith("batch 0 in ")
    assert "  totals: 2 rows and 1 timers -> 4 results, 2 slots (2 opened), open " in line
    assert "amounts.max 200" in line


@pytest.mark.slow
def test_side_outputs_are_written_by_one_query(query):
    visits, written = query(COLUMNS), []
    visits.feed(("ann", 1, at(1)), ("bob", 200, at(2)))

    def write(batch, number):
        with split_outputs(batch) as (main, side):
            written.append((number, main.columns, rows(main), {name: rows(one) for name, one in side.items()}))
            columns = {name: one.columns for name, one in side.items()}
            assert {"large": ["user", "amount"], "a name": ["value"]} == columns

    job = visits.job()
    writer = metered(job, visits).writeStream.foreachBatch(write).trigger(availableNow=True)
    running = job.start(writer)  # the trigger of the writer says that it ends

    assert running.awaitTermination(120)
    assert [
        (0, ["user", "total"], [("ann", 1), ("bob", 200)], {"large": [("bob", 200)], "a name": [("bob",)]})
    ] == written
    assert 2 == running.lastProgress.observedMetrics["totals"]["rows"]  # it was computed once


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def test_results_without_side_outputs_cannot_be_split(spark):
    with (
        pytest.raises(DeclarationError, match=r"there are no side outputs.*\n.*side_outputs="),
        split_outputs(spark.range(1)),
    ):
        pass


def test_an_operator_is_in_its_query_once(query, carrier):
    visits = query(COLUMNS, carrier=carrier)
    visits.feed(("ann", 1, at(1)))

    def twice(job, query):
        results = metered(job, query)
        return results.where("total > 1").union(results.where("total <= 1"))

    def joined(job, query):
        results = metered(job, query)
        return results.join(results.select("user"), "user")

    def without(job, query):
        metered(job, query)
        return query.frame()

    for build in (twice, joined):
        with pytest.raises(
            DeclarationError, match=r"results of the operator 'totals' are used 2 times.*\n.*split_outputs"
        ):
            visits.run(build)
    with pytest.raises(DeclarationError, match=r"'totals' is not in the query"):
        visits.run(without)
    assert not (visits.place / "state").exists()
