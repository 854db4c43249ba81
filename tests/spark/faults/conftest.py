"""Real driver processes on a cluster of this machine, what they have started, and the figures printed at the end.

Seeds come from STATESHIFT_FAULT_SEEDS, such as `0-19` or `3,7`; a seed always makes the same choices.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import attrs
import pyspark
import pytest
from fault_seeds import chosen_seeds

from stateshift import Savepoint
from stateshift.state.savepoint.verify import verify

FIGURES = pytest.StashKey()
BOOTSTRAP = """
import json, sys, time
import pyarrow.compute as pc, pyarrow.parquet as pq
sys.path.insert(0, sys.argv[1])
import flights_v1
from flights_history import read_flights
from stateshift.spark.bootstrap import bootstrap
from stateshift.spark.sessions import session

target, master, file = sys.argv[2:5]
flights = read_flights()
pq.write_table(flights.filter(pc.is_valid(flights["tailnum"])), file)
spark = session(master)
facts = {}
try:
    report = bootstrap(target, flights_v1.job, flights_v1.sources(spark.read.parquet(file)), parallelism=4)
    facts["entries"] = sum(state.entries for state in report.states)
except Exception as error:
    facts["error"] = f"{type(error).__name__}: {error}"
time.sleep(1)  # Spark counts a moment later
tracker = spark.sparkContext.statusTracker()
stages = [stage for number in range(100) if (stage := tracker.getStageInfo(number)) is not None]
facts["repeated"] = sum(stage.numFailedTasks + stage.currentAttemptId for stage in stages)
print(json.dumps(facts))
spark.stop()
"""


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", chosen_seeds(metafunc.module.SEEDS[metafunc.function.__name__]))


@attrs.frozen
class Process:
    """A process that a driver has started."""

    pid: int
    parent: int
    command: str

    @property
    def is_executor(self):
        return "CoarseGrainedExecutorBackend" in self.command

    @property
    def is_driver_java(self):
        return "org.apache.spark.deploy.SparkSubmit" in self.command

    @property
    def is_python_of_executor(self):
        return "pyspark.daemon" in self.command


def processes_of(session):
    """All that a driver has started, itself included: all are in the session that it leads."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # it has just ended
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found[int(folder.name)] = Process(int(folder.name), int(fields[1]), command)
    return found


def workers_of(processes):
    """Python workers: Spark's Python process of each executor forks one when a task begins."""
    pythons = {pid for pid, process in processes.items() if process.is_python_of_executor}
    return sorted(pid for pid in pythons if processes[pid].parent in pythons)


class Driver:
    """A driver process with executors of its own, which writes what it says to files."""

    def __init__(self, folder, script, *arguments):
        folder.mkdir(parents=True)
        self.folder, self.started = folder, time.monotonic()
        (folder / "script.py").write_text(script, encoding="utf-8")
        (folder / "scratch").mkdir()
        scratch = str(folder / "scratch")
        java = f"{os.environ['SPARK_SUBMIT_OPTS']} -Djava.io.tmpdir={scratch}"
        with (folder / "out").open("w") as out, (folder / "errors").open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, folder / "script.py", *map(str, arguments)],
                stdout=out, stderr=errors, cwd=folder, start_new_session=True,
                env=os.environ | {"TMPDIR": scratch, "SPARK_SUBMIT_OPTS": java},
            )  # fmt: skip
        self._work = set()

    @property
    def is_running(self):
        return self.process.poll() is None

    def processes(self):
        found = processes_of(self.process.pid)
        for process in found.values():
            if process.is_executor:
                with suppress(OSError):  # Spark puts the folders of such executors into its own installation
                    self._work.add((Path("/proc") / str(process.pid) / "cwd").readlink().parent)
        return found

    def wait_until(self, condition, *, seconds=240, pause=0.005):
        """Wait; False where the driver ends first."""
        deadline = time.monotonic() + seconds
        while not condition():
            if not self.is_running:
                return False
            assert time.monotonic() < deadline, self.told()
            time.sleep(pause)
        return True

    def finish(self, *, seconds=600):
        """Wait until it and all that it has started is gone; give what it printed, {} where it was killed."""
        deadline = time.monotonic() + seconds
        while self.is_running:
            self.processes()  # the folders of its executors are noted
            assert time.monotonic() < deadline, self.told()
            time.sleep(0.5)
        deadline = time.monotonic() + 60
        while left := self.processes():
            assert time.monotonic() < deadline, left
            time.sleep(0.1)
        printed = (self.folder / "out").read_text()
        return json.loads(printed.splitlines()[-1]) if printed else {}

    def told(self):
        return (self.folder / "out").read_text() + (self.folder / "errors").read_text()

    def end(self):
        """Leave nothing behind, whatever went wrong."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(60)
        for folder in self._work:
            if folder.parent == Path(pyspark.__file__).parent / "work":
                shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def start(tmp_path):
    """`start(script, argument, …)`: a `Driver`."""
    drivers = []

    def begin(script, *arguments):
        drivers.append(Driver(tmp_path / f"driver-{len(drivers)}", script, *arguments))
        return drivers[-1]

    yield begin
    for driver in drivers:
        driver.end()


@pytest.fixture(scope="session", name="workers_of")
def _workers_of():
    return workers_of


@pytest.fixture(scope="session")
def bootstrap_script():
    return BOOTSTRAP


@pytest.fixture(scope="session")
def examples(root):
    return root / "examples"


@pytest.fixture(scope="session")
def flights(tmp_path_factory, examples):
    """The state of version 1 of the job, made from the flights of 2013 without any disturbance."""
    folder = tmp_path_factory.mktemp("flights")
    driver = Driver(folder / "driver", BOOTSTRAP, examples, folder / "v1", "local[2,4]", folder / "flights.parquet")
    try:
        facts = driver.finish()
    finally:
        driver.end()
    assert facts.get("entries") == 386_740, driver.told()
    assert verify(Savepoint.open(folder / "v1")).ok  # and so of every result that has the same bytes
    return folder / "v1"


@pytest.fixture(scope="session")
def flights_job(examples):
    """Version 2 of the job."""
    sys.path.insert(0, str(examples))
    try:
        return importlib.import_module("flights_v2").job
    finally:
        sys.path.remove(str(examples))


@pytest.fixture(scope="session")
def figures(request):
    """What the kills came to: a dict for each."""
    return request.config.stash.setdefault(FIGURES, [])


def pytest_terminal_summary(terminalreporter, config):
    for run in ("migration", "bootstrap"):
        found = [facts for facts in config.stash.get(FIGURES, []) if facts["run"] == run]
        if not found:
            continue
        terminalreporter.section(f"kills during a {run}")
        for facts in found:
            terminalreporter.line("  ".join(f"{name}={fact}" for name, fact in facts.items() if name != "run"))
        landed = Counter(facts["victim"] for facts in found if facts["landed"])
        results = Counter(facts["result"] for facts in found)
        terminalreporter.line(f"{len(found)} kills, landed while tasks ran: {landed.total()} {dict(landed)}")
        terminalreporter.line(f"results: {dict(results)}, {sum(facts['seconds'] for facts in found):.0f} seconds")
