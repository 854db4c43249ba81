"""Workers, executors, drivers and stores of streaming queries killed at seeded moments: each row has one result.

A seed chooses the carrier, the format of Spark's checkpoints, the rows, the victims and the moments. The sink is a
folder of Parquet files. Afterwards, `gc` leaves only what the retained batches need.
"""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from streaming_kills import BATCHES, COLUMNS, SIZE, batches, by_batch, expected, left_after_gc, results_of
from streaming_queries import Query

from stateshift.spark.streaming.carriers import CARRIERS
from stateshift.state.directory.directory import StateDirectory
from stateshift.state.storage.files import Folder

pytestmark = [pytest.mark.faults, pytest.mark.slow]

SEEDS = {
    "test_killed_workers_change_nothing": "0-3",
    "test_killed_drivers_change_nothing": "0-3",
    "test_killed_executors_change_nothing": "0-1",
    "test_a_store_that_goes_away_changes_nothing": "0-1",
    "test_a_counter_whose_drivers_are_killed_loses_and_repeats_nothing": "0-1",
}
RUN = """
import sys
sys.path.insert(0, sys.argv[1])
from streaming_kills import BATCHES, COLUMNS, RETAINED, SIZE, batches, sums
from streaming_queries import Query
from stateshift.spark.sessions import session

seed, place, carrier, format, master, state = int(sys.argv[2]), *sys.argv[3:8]
spark = session(master, conf={
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.minBatchesToRetain": RETAINED,
    "spark.sql.streaming.stateStore.providerClass":
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": format,
    "spark.task.maxFailures": "8",
})
query = Query(spark, place, COLUMNS, carrier=carrier, state=state)
query.run(sums(seed, batches(seed, BATCHES, SIZE)))
print("{}")
spark.stop()
"""
COUNTER = """
import sys
sys.path.insert(0, sys.argv[1])
from streaming_kills import RETAINED
from streaming_sources import Counter
from streaming_queries import Query
from stateshift.spark.sessions import session

place, end = sys.argv[2], int(sys.argv[3])
spark = session("local[2,8]", conf={"spark.sql.streaming.minBatchesToRetain": RETAINED})
query = Query(spark, place, "value long")
query.run(lambda job, _: job.source(Counter(end, 0.02), uid="counter", output_type=int, max_rows=500))
print("{}")
spark.stop()
"""


def committed(place):
    names = (file.name for file in (place / "checkpoint" / "commits").glob("*"))
    return max((int(name) + 1 for name in names if name.isdigit()), default=0)


def executors_of(processes):
    return sorted(pid for pid, process in processes.items() if process.is_executor)


def kill(pids):
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Killing:
    """A query of a seed whose processes are killed; it is started again until it ends by itself."""

    def __init__(self, seed, place, start, spark, *, master="local[2,8]", state=""):
        self.choice = random.Random(f"queries {seed}")  # noqa: S311 - no secret
        self.carrier, self.version = CARRIERS[seed % 2], 1 + seed // 2 % 2
        self.rows, self.place, self.state = batches(seed, BATCHES, SIZE), place, state or str(place / "state")
        self.stream = Query(spark, place, COLUMNS)
        for batch in self.rows:
            self.stream.feed(*batch)
        arguments = seed, place, self.carrier, self.version, master, self.state
        self._start = lambda: start(RUN, Path(__file__).parents[2], *arguments)
        self.driver, self.landed, self.starts = self._start(), [], 1

    def after_batches(self, part, victims=None):
        """Wait until a part of the batches is committed and there are victims, and a moment longer; whether it runs."""
        self.driver.wait_until(
            lambda: committed(self.place) >= part * BATCHES and (victims is None or victims(self.driver.processes()))
        )
        time.sleep(self.choice.uniform(0, 0.8))
        return self.driver.is_running

    def kill_one(self, name, victims):
        """Kill one of some processes."""
        if found := victims(self.driver.processes()):
            kill([self.choice.choice(found)])
            self.landed.append(name)

    def kill_driver(self):
        """Kill the driver with all that it has started, and start it again."""
        kill(self.driver.processes())
        self.landed.append("driver")
        self.driver.finish()
        self.restart()

    def restart(self):
        self.driver = self._start()
        self.starts += 1

    def check(self):
        """Wait for the end; each row has one result, and only what is needed is left."""
        for _ in range(5):
            if self.driver.finish() == {} and self.driver.process.returncode == 0:
                break
            self.restart()
        assert self.driver.process.returncode == 0, self.driver.told()
        print(f"{self.carrier}, format {self.version}, {self.starts} starts, killed {self.landed}")

        rows = by_batch(self.rows, self.stream.results())
        assert len(self.rows) - len(rows) < self.starts
        assert expected(rows) == results_of(self.stream, rows)
        assert (self.place / "has_failed").exists()
        there, needed = left_after_gc(StateDirectory.open(Folder.at(self.state)))
        assert needed == there


def test_killed_workers_change_nothing(seed, spark, start, workers_of, tmp_path):
    query = Killing(seed, tmp_path / "query", start, spark)
    for number in range(4):
        if query.after_batches((number + 0.5) / 5, workers_of):
            query.kill_one("worker", workers_of)
    query.check()
    assert query.landed


def test_killed_drivers_change_nothing(seed, spark, start, workers_of, tmp_path):
    query = Killing(seed, tmp_path / "query", start, spark)
    for number in range(3):
        if query.after_batches((number + 0.5) / 4, workers_of):
            query.kill_driver()
    query.check()
    assert query.landed


def test_killed_executors_change_nothing(seed, spark, start, workers_of, tmp_path):
    query = Killing(seed, tmp_path / "query", start, spark, master="local-cluster[2,1,1024]")
    for number in range(2):
        if query.after_batches((number + 0.5) / 3, lambda found: workers_of(found) and executors_of(found)):
            query.kill_one("executor", executors_of)
    query.check()
    assert query.landed


def test_a_store_that_goes_away_changes_nothing(seed, spark, start, s3, tmp_path):
    query = Killing(seed, tmp_path / "query", start, spark, state=s3.place(f"query-{seed}-{tmp_path.name}/state"))
    for number in range(2):
        if query.after_batches((number + 0.5) / 3):
            s3.kill()
            query.landed.append("store")
            time.sleep(query.choice.uniform(0, 5))
            s3.start()
    query.check()
    assert query.landed


def test_a_counter_whose_drivers_are_killed_loses_and_repeats_nothing(seed, spark, start, tmp_path):
    choice = random.Random(f"counter {seed}")  # noqa: S311 - no secret
    place, end, kills = tmp_path / "query", 40_000, 10
    stream, landed = Query(spark, place, "value long"), 0
    arguments = COUNTER, Path(__file__).parents[2], place, end
    driver = start(*arguments)
    for _ in range(3 * kills):
        if landed == kills:
            break
        before = committed(place)
        driver.wait_until(
            lambda running=driver, before=before: committed(place) > before or not running.is_running, seconds=900
        )
        time.sleep(choice.uniform(0, 0.5))
        if driver.is_running:
            kill(driver.processes())
            landed += 1
        driver.finish()
        driver = start(*arguments)
    for _ in range(3):  # on a busy machine, Spark waits for the process of a source in vain
        if driver.finish() == {} and driver.process.returncode == 0:
            break
        driver = start(*arguments)
    assert driver.process.returncode == 0, driver.told()
    print(f"seed {seed}: {landed} drivers killed, {committed(place)} batches")

    assert list(range(end)) == sorted(row for (row,) in stream.results())
    assert landed == kills
