"""Processes killed at seeded moments: the right result or none, and `resume` does only what was not finished.

STATESHIFT_FAULT_SEEDS=7 makes the choices of seed 7 again: the victim and the moment. What the machine does meanwhile
is its own affair, so a moment is given by the progress of the run.
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

from stateshift import Savepoint, TargetExists
from stateshift.state.publication.publish import clean
from stateshift.state.savepoint.verify import verify
from stateshift.state.storage.files import Folder

pytestmark = [pytest.mark.faults, pytest.mark.slow]

SEEDS = {
    "test_a_migration_gives_the_right_result_or_none": "0-19",
    "test_a_bootstrap_survives_an_executor_that_is_killed": "0-9",
}
MASTER = "local-cluster[2,1,1024]"
PARALLELISM = 8
TASKS = 2 * PARALLELISM
LAST_MOMENT = 12  # finished tasks: later than that, a worker that is picked may have none left
VICTIMS = ("worker", "executor", "driver", "java of the driver")
ENCODING_S, WRITING_S = 12.0, 1.5  # about as long as each takes
MIGRATION = """
import json, os, sys, time
from contextlib import suppress
sys.path.insert(0, sys.argv[1])
from flights_v2 import job
from stateshift.spark.migrate import migrate
from stateshift.state.migration.options import MigrationOptions
from stateshift.spark.sessions import session
from stateshift.state.publication.publish import IfTargetExists

source, target, master, parallelism = sys.argv[2:6]
os.environ["STATESHIFT_EXECUTOR"] = "objects"  # by machine code a task is over before it can be killed
spark = session(master)
facts = {}
try:
    options = MigrationOptions(parallelism=int(parallelism))
    report = migrate(source, target, job, options, session=spark, target_exists=IfTargetExists.RESUME)
    facts["resumed"] = report.resumed
except Exception as error:
    facts["error"] = f"{type(error).__name__}: {error}"
with suppress(Exception):  # where its Java is gone
    time.sleep(1)  # Spark counts a moment later
    stage = spark.sparkContext.statusTracker().getStageInfo(0)
    facts["repeated"] = stage.numFailedTasks + stage.currentAttemptId
print(json.dumps(facts))
with suppress(Exception):
    spark.stop()
"""


@pytest.fixture(scope="session")
def expected(flights, flights_job, in_process, content_of, tmp_path_factory):
    """What an undisturbed migration gives."""
    target = tmp_path_factory.mktemp("expected") / "v2"
    in_process(flights, target, flights_job, parallelism=PARALLELISM)
    assert verify(Savepoint.open(target)).ok  # and so of every result that has the same bytes
    return content_of(target)


def pick(driver, victim, choice, workers_of):
    """The process to kill; None where there is none of its kind."""
    processes = driver.processes()
    found = {
        "worker": lambda: workers_of(processes),
        "executor": lambda: sorted({executor_of(processes, worker) for worker in workers_of(processes)}),
        "driver": lambda: [driver.process.pid],
        "java of the driver": lambda: [pid for pid, process in processes.items() if process.is_driver_java],
    }[victim]()
    return choice.choice(found) if found else None


def executor_of(processes, worker):
    """The Java process that a worker works for."""
    while not processes[worker].is_executor:
        worker = processes[worker].parent
    return worker


def finished_in(target):
    """The number and time of each file of a finished stream, by the name it will have; little state has no file."""
    stored = [json.loads(file.read_text())["result"]["stored"] for file in target.glob("*.done")]
    return {found["name"]: identity(target / found["attempt"]) for found in stored if found["attempt"]}


def identity(file):
    facts = file.stat()
    return facts.st_ino, facts.st_mtime_ns


def test_a_migration_gives_the_right_result_or_none(
    seed, flights, expected, start, examples, tmp_path, workers_of, content_of, facts_of, figures
):
    choice = random.Random(f"migration {seed}")  # noqa: S311 - no secret
    victim, moment, delay = VICTIMS[seed % len(VICTIMS)], choice.randint(0, LAST_MOMENT), choice.uniform(0, 0.4)
    print(f"seed {seed}: {victim}, {delay:.3f} seconds after {moment} tasks were finished")
    before, target = facts_of(flights), tmp_path / "v2"
    command = (MIGRATION, examples, flights, target, MASTER, PARALLELISM)

    driver = start(*command)
    assert driver.wait_until(lambda: workers_of(driver.processes()), pause=0.1), driver.told()
    came = driver.wait_until(lambda: len(list(target.glob("*.done"))) >= moment)
    time.sleep(delay)
    killed = pick(driver, victim, choice, workers_of) if came and driver.is_running else None
    done = len(list(target.glob("*.done")))
    in_time = killed is not None and 0 <= done < TASKS and not (target / "_metadata").exists()
    if killed is not None:
        os.kill(killed, signal.SIGKILL)
    printed = driver.finish()
    # A worker or an executor may have been between two tasks, or out of work: Spark knows.
    landed = in_time and ("driver" in victim or printed.get("repeated", 0) > 0)

    facts = {"run": "migration", "seed": seed, "victim": victim, "done": done, "landed": landed}
    figures.append(facts)
    facts |= {"result": "complete" if (target / "_metadata").exists() else "none", "resumed": "-", "seconds": 0}
    if "error" in printed:
        facts["error"] = printed["error"].splitlines()[0]
    if facts["result"] == "none":
        finished = finished_in(target)
        target.mkdir(exist_ok=True)  # a run that failed before it had anything to keep has removed it
        copy = Folder.at(shutil.copytree(target, tmp_path / "copy"))
        assert sorted(clean(copy)) == sorted(file.name for file in target.iterdir())
        assert copy.names() == ()
        again = start(*command)
        printed = again.finish()
        assert "error" not in printed, again.told()
        assert printed, again.told()
        assert printed["resumed"] >= len(finished)
        assert {name: identity(next(target.glob(f"{name}-*"))) for name in finished} == finished
        facts["resumed"] = f"{printed['resumed']} of {len(finished)} found"
    facts["seconds"] = round(time.monotonic() - driver.started)
    if facts["result"] == "complete" and not printed:  # killed between publishing and clearing up
        with suppress(TargetExists):
            clean(Folder.at(target))

    assert content_of(target) == expected
    assert facts_of(flights) == before


def test_most_kills_of_a_migration_came_while_tasks_ran(figures):
    kills = [facts for facts in figures if facts["run"] == "migration"]
    late = [facts for facts in kills if not facts["landed"]]

    assert len(late) <= len(kills) // 4, late


def test_a_bootstrap_survives_an_executor_that_is_killed(
    seed, flights, bootstrap_script, start, examples, tmp_path, workers_of, content_of, figures
):
    choice = random.Random(f"bootstrap {seed}")  # noqa: S311 - no secret
    phase, share = choice.choice(("encoding", "encoding", "writing")), choice.random()
    delay = share * {"encoding": ENCODING_S, "writing": WRITING_S}[phase]
    print(f"seed {seed}: an executor, {delay:.3f} seconds after the first sign of {phase}")
    target = tmp_path / "v1"

    driver = start(bootstrap_script, examples, target, MASTER, tmp_path / "flights.parquet")
    began = {
        "encoding": lambda: workers_of(driver.processes()),
        "writing": lambda: target.exists() and list(target.glob("*.attempt-*")),
    }[phase]
    came = driver.wait_until(began, pause=0.02)
    time.sleep(delay)
    killed = pick(driver, "executor", choice, workers_of) if came and driver.is_running else None
    in_time = killed is not None and not (target / "_metadata").exists()
    if killed is not None:
        os.kill(killed, signal.SIGKILL)
    printed = driver.finish()

    facts = {"run": "bootstrap", "seed": seed, "victim": "executor", "phase": phase, "after": f"{delay:.2f}"}
    figures.append(facts)
    facts |= {"landed": in_time and printed.get("repeated", 0) > 0, "repeated": printed.get("repeated")}
    facts |= {"result": "complete" if (target / "_metadata").exists() else "none"}
    facts["seconds"] = round(time.monotonic() - driver.started)
    if "error" in printed:
        facts["error"] = printed["error"]

    assert "error" not in printed, driver.told()
    assert content_of(target) == content_of(flights)
