"""Python workers killed at seeded moments, and an error in the middle of a batch: each row has one result.

Drivers are killed, too, in `tests/spark/faults/test_killed_queries.py` (make faults).
"""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from streaming_kills import COLUMNS, batches, expected, left_after_gc, results_of, sums

from stateshift.spark.streaming.carriers import CARRIERS

# Beside other tests it would kill their workers, too.
pytestmark = [pytest.mark.faults, pytest.mark.slow]


def python_workers():
    """Return the Python workers of this process's Spark: a daemon forks them."""
    parents, daemons = {}, set()
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                parents[int(folder.name)] = int(fields[1])
                if int(fields[3]) == os.getsid(0):
                    daemons.add(int(folder.name))
    return sorted(pid for pid, parent in parents.items() if parent in daemons)


@pytest.mark.parametrize("seed", range(2))
def test_killed_workers_and_an_error_change_nothing(query, seed):
    choice = random.Random(f"workers {seed}")  # noqa: S311 - no secret
    rows = batches(seed, 6, 400)
    stream = query(COLUMNS, carrier=CARRIERS[seed % 2])
    for batch in rows:
        stream.feed(*batch)
    job = stream.job()
    running = stream.start(job, sums(seed, rows)(job, stream), available_now=True)
    killed = 0
    while running.isActive and killed < 3:
        time.sleep(choice.uniform(0.2, 0.8))
        if workers := python_workers():
            with suppress(ProcessLookupError):
                os.kill(choice.choice(workers), signal.SIGKILL)
                killed += 1
    running.awaitTermination()
    assert killed

    assert expected(rows) == results_of(stream, rows)
    assert (stream.place / "has_failed").exists()


def test_a_query_that_ended_by_an_error_in_the_middle_of_a_batch_goes_on_at_its_restart(query, carrier):
    rows = batches(7, 4, 200)
    stream = query(COLUMNS, carrier=carrier)
    for batch in rows:
        stream.feed(*batch)
    build = sums(7, rows, stays=True)
    with pytest.raises(StreamingQueryException, match="ZeroDivisionError: once"):
        stream.run(build)
    (stream.place / "has_failed").touch()
    stream.run(build)

    assert expected(rows) == results_of(stream, rows)
    there, needed = left_after_gc(stream.directory)
    assert needed == there
