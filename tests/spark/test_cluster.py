"""A cluster, with JVMs of its own: what a task needs travels there, and a killed executor is made up for."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pyspark
import pytest

from stateshift import Savepoint
from stateshift.state.savepoint.verify import verify

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JOB = """
import os, pathlib, time
from stateshift import Job, Operator, ValueStateDescriptor

MARKER = pathlib.Path({marker!r})

def convert(x):
    if not MARKER.exists():
        MARKER.write_text(str(os.getpid()))
        time.sleep(600)
    return str(x)

job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=convert)])])
"""
RUN = """
import sys
from cluster_job import job
from stateshift.spark.migrate import migrate
from stateshift.state.migration.options import MigrationOptions

report = migrate(sys.argv[1], sys.argv[2], job, MigrationOptions(parallelism=4), master="local-cluster[2,1,1024]")
print("written", report.states[0].written)
"""
KEYS = 2_000


@pytest.fixture
def folder_of():
    """`folder_of(executor)`: Spark puts the working folders of such executors into its own installation.

    Those of this application are removed at the end, and no others: another run may be at work.
    """
    found = []

    def note(executor):
        found.append(Path(f"/proc/{executor}/cwd").readlink().parent)
        return found[-1]

    yield note
    for folder in found:
        assert folder.parent == Path(pyspark.__file__).parent / "work"
        shutil.rmtree(folder)


def parent_of(process, name):
    """The nearest process above one that is called `name`."""
    while process > 1:
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        if Path(f"/proc/{process}/comm").read_text().strip() == name:
            return process
    raise AssertionError(name)


def test_an_executor_that_is_killed_is_made_up_for(counts, tmp_path, start_python, values_of, folder_of):
    marker, target = tmp_path / "marker", tmp_path / "new"
    (tmp_path / "cluster_job.py").write_text(JOB.format(marker=str(marker)))
    running = start_python(RUN, counts(KEYS), target)
    deadline = time.monotonic() + 180
    while not (marker.exists() and marker.read_text()):
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)

    worker = int(marker.read_text())
    executor = parent_of(worker, "java")
    folder_of(executor)
    os.kill(executor, signal.SIGKILL)
    printed, _ = running.communicate(timeout=240)

    assert printed == f"written {KEYS}\n"
    assert values_of(target, "counter", "count") == {key: str(key) for key in range(KEYS)}
    assert verify(Savepoint.open(target)).ok
    assert not [file for file in target.iterdir() if ".attempt-" in file.name or file.suffix == ".done"]
