"""A query is drained: its last batch ends event time, and the results of what fires are there exactly once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from streaming_queries import BY_CARRIER
from streaming_sessions import COLUMNS, Fails, Sessions, clicks, expected

from stateshift import DeclarationError, KeyedProcessFunction
from stateshift.spark.streaming.carriers import TRANSFORM


def sessions(function=None):
    return lambda job, query: (
        job.stream(query.frame(), timestamp="at").key_by("user").process(function or Sessions(), uid="sessions")
    )


@pytest.fixture
def ended(query):
    """`ended(carrier=…)`: a query that has processed its rows, and those rows."""

    def run(function=None, **options):
        names, rows = query(COLUMNS, **options), clicks(1, 60)
        names.feed(*rows[:30])
        names.feed(*rows[30:])
        names.run(sessions(function))
        return names, rows

    return run


@pytest.mark.slow
@BY_CARRIER
def test_what_is_left_fires_once_and_the_query_can_go_on(ended, carrier):
    names, rows = ended(carrier=carrier)
    before = names.results()
    names.drain(sessions())
    drained = names.results()
    names.drain(sessions())
    again = names.results()
    later = [("ann", rows[-1][1] + 10_000), ("ann", rows[-1][1] + 10_100), ("bob", rows[-1][1] + 30_000)]
    names.feed(*later)
    names.run(sessions())

    assert set(before) < set(expected(rows))
    assert expected(rows) == drained == again
    ann = [row for row in expected(later) if row[1] == "ann"]
    bob = ("element", "bob", later[-1][1], 1)
    assert sorted([*drained, *ann, bob], key=repr) == names.results()


@pytest.mark.slow
def test_a_batch_that_drains_drains_again_when_it_is_repeated(ended, query):
    names, rows = ended(Fails(query(COLUMNS).place))
    function = Fails(names.place)
    (names.place / "fails").touch()
    with pytest.raises(StreamingQueryException, match="not now"):
        names.drain(sessions(function))
    (names.place / "fails").unlink()
    with pytest.raises(DeclarationError, match=r"(?s)cannot be drained with 3 slots.*slots=2"):
        names.run(sessions(function), slots=3)
    names.feed(("zoe", rows[-1][1] + 1))
    names.run(sessions(function))  # the batch is repeated, and then the new row is processed

    zoe = ("element", "zoe", rows[-1][1] + 1, 1)
    assert sorted([*expected(rows), zoe], key=repr) == names.results()


@pytest.mark.slow
@BY_CARRIER
def test_a_driver_that_dies_after_the_sink_has_the_results_writes_none_a_second_time(ended, carrier):
    names, rows = ended(carrier=carrier)
    names.drain(sessions())
    commits = names.place / "checkpoint" / "commits"
    last = max(int(file.name) for file in commits.glob("[0-9]*"))
    for name in (str(last), f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    names.drain(sessions())
    names.feed(("zoe", rows[-1][1] + 1))
    names.run(sessions())

    zoe = ("element", "zoe", rows[-1][1] + 1, 1)
    assert sorted([*expected(rows), zoe], key=repr) == names.results()


@pytest.mark.slow
def test_a_query_that_was_stopped_in_a_batch_finishes_it_before_it_is_drained(query):
    names, rows = query(COLUMNS), clicks(2, 60)
    function = Fails(names.place)
    names.feed(*rows[:20])
    names.run(sessions(function))
    (names.place / "fails").touch()
    names.feed(*rows[20:])
    with pytest.raises(StreamingQueryException, match="not now"):
        names.run(sessions(function))
    (names.place / "fails").unlink()
    names.drain(sessions(function))

    assert expected(rows) == names.results()


@pytest.mark.slow
def test_a_chain_of_operators_is_drained_in_one_batch(query):
    names, rows = query(COLUMNS, carrier=TRANSFORM), clicks(3, 40)

    def chained(job, query):
        first = sessions()(job, query).toDF("kind", "user", "at", "count")
        ended = first.where("kind = 'session'").select("user", "at")
        return job.stream(ended, timestamp="at").key_by("user").process(Sessions(), uid="second")

    names.feed(*rows)
    names.run(chained)
    names.drain(chained)

    of_first = sorted((row[2], row[1]) for row in expected(rows) if row[0] == "session")
    assert expected([(user, at) for at, user in of_first]) == names.results()


@pytest.mark.slow
def test_a_query_without_a_committed_batch_and_one_with_other_slots_are_refused(ended, query):
    with pytest.raises(DeclarationError, match=r"has no committed batch, so nothing is left to fire\n.*start it first"):
        query(COLUMNS).drain(sessions())
    names, _ = ended()
    with pytest.raises(DeclarationError, match=r"(?s)cannot be drained with 3 slots.*slots=2"):
        names.drain(sessions(), slots=3)
    assert 1 == names.directory.last_epoch.number


class Alarm(KeyedProcessFunction):
    """Emits a key when its element comes, and again some time later."""

    def __init__(self, after_ms):
        self.after_ms = after_ms

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, str]]:
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + self.after_ms)
        yield "element", value.user

    def on_timer(self, timestamp, ctx):
        yield "timer", ctx.get_current_key()


def alarms(after_ms):
    return lambda job, query: job.stream(query.frame()).key_by("user").process(Alarm(after_ms), uid="alarm")


@pytest.mark.slow
def test_a_query_that_ends_has_fired_the_timers_that_were_due_also_without_rows(query, carrier):
    names = query(COLUMNS, carrier=carrier)
    names.feed(("ann", 1))
    names.run(alarms(1))
    before = names.results()
    time.sleep(0.01)
    names.run(alarms(1))
    after = names.results()
    names.run(alarms(1))

    assert [("element", "ann")] == before
    assert [("element", "ann"), ("timer", "ann")] == after == names.results()


@pytest.mark.slow
@BY_CARRIER
def test_a_query_that_is_started_again_wakes_its_slots_without_rows(query, carrier):
    names = query(COLUMNS, carrier=carrier)
    names.feed(("ann", 1))
    names.run(alarms(2000))
    job = names.job()
    writer = names.writer(alarms(2000)(job, names)).trigger(processingTime="100 milliseconds")
    running, end = job.start(writer), time.monotonic() + 120
    while len(names.results()) < 2 and time.monotonic() < end and running.isActive:
        time.sleep(0.2)
    running.stop()

    assert [("element", "ann"), ("timer", "ann")] == names.results()
