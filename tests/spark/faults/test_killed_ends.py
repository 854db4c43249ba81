"""Bounded runs and drains killed at seeded moments: each result is there once, a savepoint only with all of them."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from streaming_queries import Query
from streaming_sessions import COLUMNS, clicks, expected

from stateshift import Savepoint
from stateshift.spark.streaming.carriers import CARRIERS

pytestmark = pytest.mark.faults

SEEDS = {
    "test_a_drain_whose_driver_is_killed_has_each_result_once": "0-3",
    "test_a_bounded_run_whose_workers_and_driver_are_killed_has_all_results_or_no_savepoint": "0-3",
}
START = """
import sys
sys.path.insert(0, sys.argv[1])
from streaming_queries import Query
from streaming_sessions import COLUMNS, Sessions, clicks
from stateshift.spark.sessions import session

seed, place, carrier = int(sys.argv[2]), sys.argv[3], sys.argv[4]
spark = session("local[2,8]", conf={"spark.sql.shuffle.partitions": "2"})
query = Query(spark, place, COLUMNS, carrier=carrier)
def sessions(job, frame):
    return job.stream(frame, timestamp="at").key_by("user").process(Sessions(), uid="sessions")
"""
DRAIN = (
    START
    + """
query.run(lambda job, query: sessions(job, query.frame()))
(query.place / "processed").touch()
query.drain(lambda job, query: sessions(job, query.frame()))
print("{}")
spark.stop()
"""
)
RUN = (
    START
    + """
job = query.job(slots=4)
results = sessions(job, spark.createDataFrame(clicks(seed, 30_000), COLUMNS).repartition(4))
(query.place / "processed").touch()
job.run(results.write.mode("overwrite").format("parquet").option("path", place + "/out"), savepoint=place + "/saved")
print("{}")
spark.stop()
"""
)


def kill(driver):
    for pid in driver.processes():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    driver.finish()


def test_a_drain_whose_driver_is_killed_has_each_result_once(seed, spark, start, tmp_path):
    choice = random.Random(f"drains {seed}")  # noqa: S311 - no secret
    place, rows = tmp_path / "query", clicks(seed, 300)
    stream = Query(spark, place, COLUMNS)
    stream.feed(*rows[:150])
    stream.feed(*rows[150:])
    arguments = Path(__file__).parents[2], seed, place, CARRIERS[seed % 2]
    driver = start(DRAIN, *arguments)
    for _ in range(3):
        driver.wait_until((place / "processed").exists)
        time.sleep(choice.uniform(0, 4))
        kill(driver)
        (place / "processed").unlink()
        driver = start(DRAIN, *arguments)
    assert driver.finish() == {}, driver.told()

    assert expected(rows) == stream.results()


def test_a_bounded_run_whose_workers_and_driver_are_killed_has_all_results_or_no_savepoint(
    seed, spark, start, workers_of, tmp_path
):
    choice = random.Random(f"bounded {seed}")  # noqa: S311 - no secret
    place, rows = tmp_path / "query", clicks(seed, 30_000)
    stream = Query(spark, place, COLUMNS)
    place.mkdir()
    arguments = Path(__file__).parents[2], seed, place, CARRIERS[0]
    driver = start(RUN, *arguments)
    for victim in ("driver", "worker", "worker"):
        driver.wait_until(lambda running=driver: (place / "processed").exists() or not running.is_running)
        time.sleep(choice.uniform(0, 3))
        if victim == "driver":
            kill(driver)
            if (place / "saved" / "_metadata").exists():
                break
            (place / "processed").unlink()
            driver = start(RUN, *arguments)
        elif workers := workers_of(driver.processes()):
            with suppress(ProcessLookupError):
                os.kill(choice.choice(workers), signal.SIGKILL)
    else:
        assert driver.finish() == {}, driver.told()

    assert expected(rows) == stream.results()
    counted = sum(1 for _ in Savepoint.open(place / "saved").operator("sessions").state("count").read_entries())
    assert 0 == counted
    assert not (place / "state").exists() or [] == list((place / "state" / "bounded").glob("*/*"))
