"""A standalone cluster on loopback: `spark-submit` brings the job there, and a worker that is killed is made up for."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pyspark
import pytest

from stateshift import Savepoint
from stateshift.spark.java import java_home
from stateshift.state.savepoint.verify import verify

pytestmark = [pytest.mark.faults, pytest.mark.slow]

KEYS = 2_000
HELPER = """
import os, pathlib, time

def text_of(x, marker):
    marker = pathlib.Path(marker)
    if not marker.exists():
        marker.write_text(str(os.getpid()))
        time.sleep(600)
    return str(x)
"""
SUBMITTED = """
import functools, sys
from pyspark.sql import SparkSession
from submitted_helper import text_of
from stateshift import Job, Operator, ValueStateDescriptor
from stateshift.spark.migrate import migrate
from stateshift.state.migration.options import MigrationOptions

source, target, marker = sys.argv[1:4]
convert = functools.partial(text_of, marker=marker)
job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=convert)])])
session = SparkSession.builder.getOrCreate()
report = migrate(source, target, job, MigrationOptions(parallelism=4), session=session)
print("written", report.states[0].written, "by", session.sparkContext.master)
session.stop()
"""
HOME = Path(pyspark.__file__).parent


class Cluster:
    """A master and workers, each a process of its own."""

    def __init__(self, folder):
        self._folder = folder
        self._processes = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.master = f"spark://127.0.0.1:{free.getsockname()[1]}"
        port = self.master.rpartition(":")[2]
        self._start("master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", "0")
        for number in range(2):
            work = ("--work-dir", folder / f"work-{number}", "--host", "127.0.0.1", "--webui-port", "0")
            self._start("worker.Worker", "--cores", "1", "--memory", "600m", *work, self.master)

    def _start(self, name, *arguments):
        with (self._folder / "log").open("a") as log:
            process = subprocess.Popen(
                [HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *map(str, arguments)],
                stdout=log, stderr=subprocess.STDOUT, cwd=self._folder, start_new_session=True,
                env=self.environment | {"SPARK_DAEMON_MEMORY": "256m"},
            )  # fmt: skip
        self._processes.append(process)

    @property
    def environment(self):
        python = {"PYSPARK_PYTHON": sys.executable, "PYTHONSAFEPATH": "1"}
        return os.environ | python | {"JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}

    @property
    def workers(self):
        return [process.pid for process in self._processes[1:]]

    def stop(self):
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(30)


@pytest.fixture
def cluster(tmp_path):
    folder = tmp_path / "cluster"
    folder.mkdir()
    started = Cluster(folder)
    yield started
    started.stop()


def ancestors_of(process):
    while process > 1:
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        yield process


def test_a_submitted_migration_outlives_a_worker_that_is_killed(cluster, counts, tmp_path, values_of):
    marker, target = tmp_path / "marker", tmp_path / "new"
    (tmp_path / "submitted.py").write_text(SUBMITTED)
    with zipfile.ZipFile(tmp_path / "helpers.zip", "w") as archive:
        archive.writestr("submitted_helper.py", HELPER)
    running = subprocess.Popen(
        [HOME / "bin" / "spark-submit", "--master", cluster.master, "--py-files", tmp_path / "helpers.zip",
         "--conf", "spark.executor.memory=512m", "--conf", "spark.ui.enabled=false",
         tmp_path / "submitted.py", counts(KEYS), target, marker],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=cluster.environment,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 180
        while not (marker.exists() and marker.read_text()):
            assert running.poll() is None, running.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)

        (killed,) = set(ancestors_of(int(marker.read_text()))) & set(cluster.workers)
        os.kill(killed, signal.SIGKILL)
        printed, errors = running.communicate(timeout=240)
    finally:
        running.kill()

    assert printed.endswith(f"written {KEYS} by {cluster.master}\n"), errors
    assert values_of(target, "counter", "count") == {key: str(key) for key in range(KEYS)}
    assert verify(Savepoint.open(target)).ok
    assert not [file for file in target.iterdir() if ".attempt-" in file.name or "claim" in file.name]
