"""Drivers killed while they upgrade a query: each start goes on to the end, and nothing half-begun is an epoch.

A seed chooses the carrier, the rows and the moments; each upgrade is tried again until it is through, then comes the
next one.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from streaming_queries import Query
from streaming_upgrades import COLUMNS, batch, build, expected

from stateshift import Savepoint
from stateshift.spark.streaming.carriers import CARRIERS

pytestmark = pytest.mark.faults

SEEDS = {"test_an_upgrade_that_is_killed_is_done_by_the_next_start": "0-3"}
KILLS = 5
RUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from streaming_queries import Query
from streaming_upgrades import COLUMNS, build
from stateshift.spark.sessions import session

version, place, carrier = int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
spark = session("local[2,4]", conf={"spark.sql.shuffle.partitions": "2"})
query = Query(spark, place, COLUMNS, carrier=carrier)
query.run(build(version, place), on_incompatible="migrate")
print("{}")
spark.stop()
"""


def names(place, folder):
    """The names in a folder of the state directory."""
    return {path.name for path in (place / "state" / folder).iterdir()}


def test_an_upgrade_that_is_killed_is_done_by_the_next_start(seed, spark, start, tmp_path):
    choice = random.Random(f"upgrades {seed}")  # noqa: S311 - no secret
    carrier, place = CARRIERS[seed % 2], tmp_path / "query"
    stream = Query(spark, place, COLUMNS, carrier=carrier)
    stream.feed(*batch(seed, 1))
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    stream.run(build(1, place))
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    sys.path.remove(str(place))
    version, landed = 2, []
    stream.feed(*batch(seed, version))
    while len(landed) < KILLS:
        before, bases, epochs = Savepoint.open(place / "state").query, names(place, "bases"), names(place, "epochs")
        driver = start(RUN, Path(__file__).parents[2], version, place, carrier)
        assert driver.wait_until(lambda known=bases: names(place, "bases") - known), driver.told()
        time.sleep(choice.uniform(0, 3))
        for pid in driver.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        driver.finish()
        now = Savepoint.open(place / "state").query
        if now.batch > before.batch:
            assert f"{now.epoch}.json" in names(place, "epochs") - epochs
            landed.append((version, "through"))
            version += 1
            stream.feed(*batch(seed, version))
        else:
            assert before.epoch == now.epoch
            landed.append((version, "begun" if names(place, "epochs") - epochs else "migrating"))
    driver = start(RUN, Path(__file__).parents[2], version, place, carrier)
    assert driver.finish() == {}, driver.told()
    assert driver.process.returncode == 0, driver.told()
    print(f"seed {seed}: {carrier}, killed {landed}")

    assert expected(seed, version) == stream.results()
    # Each batch has rows, or is the one by which an upgrade is committed before the first rows come.
    assert version - 1 <= Savepoint.open(place / "state").query.batch <= 2 * (version - 1)
