"""Workers and drivers of a streaming query killed at seeded moments: each row has one result, the right one.

A seed chooses the carrier, the format of Spark's checkpoints, the rows, the victims and the moments.
"""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from streaming_kills import COLUMNS, batches, expected
from streaming_queries import Query

from stateshift.spark.streaming.carriers import CARRIERS

pytestmark = pytest.mark.faults

SEEDS = {"test_each_row_has_one_result": "0-5"}
BATCHES, SIZE = 30, 1_000
WORKERS, DRIVERS = 4, 2
RUN = """
import sys
sys.path.insert(0, sys.argv[1])
from streaming_kills import COLUMNS, batches, sums
from streaming_queries import Query
from stateshift.spark.session import session

seed, place, carrier, format = int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5]
provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
spark = session("local[2,8]", conf={
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.stateStore.providerClass": provider,
    "spark.sql.streaming.stateStore.checkpointFormatVersion": format,
})
query = Query(spark, place, COLUMNS, carrier=carrier)
query.run(sums(seed, batches(seed, int(sys.argv[6]), int(sys.argv[7]))))
print("{}")
spark.stop()
"""


def committed(place):
    names = (file.name for file in (place / "checkpoint" / "commits").glob("*"))
    return max((int(name) + 1 for name in names if name.isdigit()), default=0)


def test_each_row_has_one_result(seed, spark, start, workers_of, tmp_path):
    choice = random.Random(f"queries {seed}")  # noqa: S311 - no secret
    carrier, version = CARRIERS[seed % 2], 1 + seed // 2 % 2
    rows, place = batches(seed, BATCHES, SIZE), tmp_path / "query"
    stream = Query(spark, place, COLUMNS)
    for batch in rows:
        stream.feed(*batch)
    arguments = Path(__file__).parents[2], seed, place, carrier, version, BATCHES, SIZE
    driver, landed = start(RUN, *arguments), []
    victims = ["worker"] * WORKERS + ["driver"] * DRIVERS
    choice.shuffle(victims)
    for number, victim in enumerate(victims):
        least = number * BATCHES // (len(victims) + 1)
        driver.wait_until(
            lambda running=driver, least=least: committed(place) >= least and workers_of(running.processes())
        )
        time.sleep(choice.uniform(0, 0.8))
        if not driver.is_running:
            break
        if victim == "worker":
            with suppress(ProcessLookupError, IndexError):
                os.kill(choice.choice(workers_of(driver.processes())), signal.SIGKILL)
                landed.append(victim)
        else:
            for pid in driver.processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            landed.append(victim)
            driver.finish()
            driver = start(RUN, *arguments)
    assert driver.finish() == {}, driver.told()
    assert driver.process.returncode == 0, driver.told()
    print(f"seed {seed}: {carrier}, format {version}, killed {landed}")

    assert expected(rows) == stream.results()
    assert (place / "has_failed").exists()
