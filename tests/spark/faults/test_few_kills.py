"""A driver killed at a seeded moment of a short run; longer ones are in `test_kills.py` (make faults).

STATESHIFT_FAULT_SEEDS=0-19 makes other choices: the victim, the moment, and how long after it.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from contextlib import suppress

import pytest

from stateshift import IfTargetExists, MigrationOptions, TargetExists, migrate
from stateshift.state.publication.publish import clean
from stateshift.state.storage.files import Folder

pytestmark = pytest.mark.slow

SEEDS = {"test_a_killed_process_leaves_the_right_result_or_none": "0"}
VICTIMS = {"driver": "local[2,4]", "executor": "local-cluster[1,2,1024]", "worker": "local[2,4]"}
KEYS, PARALLELISM = 4_000, 8
JOB = """
import time
from stateshift import Job, Operator, ValueStateDescriptor

def convert(x):
    time.sleep(0.0003)
    return str(x).zfill(100)

job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=convert)])])
"""
RUN = """
import sys
sys.path.insert(0, sys.argv[1])
from slow_job import job
from stateshift.spark.migrate import migrate
from stateshift.state.migration.options import MigrationOptions
from stateshift.state.publication.publish import IfTargetExists

options = MigrationOptions(parallelism=int(sys.argv[5]))
report = migrate(*sys.argv[2:4], job, options, master=sys.argv[4], target_exists=IfTargetExists.RESUME)
print("{}")
"""


def victim_of(driver, kind, choice, workers_of):
    processes = driver.processes()
    found = {
        "driver": lambda: [driver.process.pid],
        "executor": lambda: [pid for pid, process in processes.items() if process.is_executor],
        "worker": lambda: workers_of(processes),
    }[kind]()
    return choice.choice(sorted(found)) if found else None


def finished_in(target):
    """When the files of finished streams were written, by what they will be called."""
    found = [json.loads(file.read_text())["result"]["stored"] for file in target.glob("*.done")]
    return {stored["name"]: (target / stored["attempt"]).stat().st_mtime_ns for stored in found if stored["attempt"]}


def test_a_killed_process_leaves_the_right_result_or_none(
    seed, spark, counts, load, users_folder, start, tmp_path, workers_of, content_of, facts_of, in_process
):
    choice = random.Random(f"few {seed}")  # noqa: S311 - no secret
    kind, moment, delay = list(VICTIMS)[seed % 3], choice.randint(0, PARALLELISM - 2), choice.uniform(0, 0.1)
    source, target, job = counts(KEYS), tmp_path / "new", load("slow_job", slow_job=JOB).job
    in_process(source, tmp_path / "expected", job, parallelism=PARALLELISM)
    before, expected = facts_of(source), content_of(tmp_path / "expected")

    driver = start(RUN, users_folder, source, target, VICTIMS[kind], PARALLELISM)
    driver.wait_until(lambda: workers_of(driver.processes()) and len(list(target.glob("*.done"))) >= moment)
    time.sleep(delay)
    killed = victim_of(driver, kind, choice, workers_of) if driver.is_running else None
    if killed is not None:
        os.kill(killed, signal.SIGKILL)
    driver.finish()

    if not (target / "_metadata").exists():
        finished = finished_in(target)
        copy = Folder.at(shutil.copytree(target, tmp_path / "copy"))
        assert sorted(clean(copy)) == sorted(file.name for file in target.iterdir())
        assert copy.names() == ()
        options = MigrationOptions(parallelism=PARALLELISM)
        report = migrate(source, target, job, options, session=spark, target_exists=IfTargetExists.RESUME)
        assert report.resumed >= len(finished)
        kept = {name: next(target.glob(f"{name}-*")).stat().st_mtime_ns for name in finished}
        assert kept == finished
    elif kind == "driver":  # maybe killed between publishing and clearing up
        with suppress(TargetExists):
            clean(Folder.at(target))

    assert content_of(target) == expected
    assert facts_of(source) == before
