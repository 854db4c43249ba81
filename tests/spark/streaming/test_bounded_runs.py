"""Bounded runs: static DataFrames are processed once, and the state becomes a savepoint."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from stateshift import KeyedProcessFunction, MapStateDescriptor, ValueStateDescriptor


class Sessions(KeyedProcessFunction):
    """Counts the elements of a key, and emits the count 10 s of event time after the last one; and each element."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int, default_value=0))
        self.until = runtime_context.get_state(ValueStateDescriptor("until", int, default_value=0))

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, int, int]]:
        timers = ctx.timer_service()
        if self.count.value():
            timers.delete_event_time_timer(self.until.value())
        self.count.update(self.count.value() + 1)
        self.until.update(ctx.timestamp() + 10_000)
        timers.register_event_time_timer(self.until.value())
        return iter(())

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.count.value(), timestamp
        self.count.clear()
        self.until.clear()


def second(number):
    return datetime.fromtimestamp(number, UTC)


def rows(results):
    return sorted(map(tuple, results), key=repr)


@pytest.fixture
def bounded(query, spark, tmp_path):
    """`bounded(df_builder)`"""
    names = query("user string, at timestamp")

    def run(build, **options):
        job = names.job()
        results = build(job)
        saved = job.run(
            results.write.format("parquet").option("path", str(tmp_path / "out")),
            savepoint=tmp_path / "savepoint",
            **options,
        )
        return rows(spark.read.parquet(str(tmp_path / "out")).collect()), saved

    return run


def test_sessions(bounded, spark):
    df = spark.createDataFrame([("ann", second(8)), ("bob", second(2)), ("ann", second(1)), ("cy", second(15)),
                                ("ann", second(40))], "user string, at timestamp").repartition(3)
    found, saved = bounded(
        lambda job: job.stream(df, timestamp="at").key_by("user").process(Sessions(), uid="sessions")
    )
    assert [("ann", 1, 50_000), ("ann", 2, 18_000), ("bob", 1, 12_000), ("cy", 1, 25_000)] == found
    print(saved.position if hasattr(saved, "position") else None)
