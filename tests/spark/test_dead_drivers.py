"""A driver that is killed or interrupted: nothing is published, no process is left, and the next run succeeds."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from stateshift import (
    Job,
    MigrationOptions,
    Operator,
    Savepoint,
    StateSource,
    TargetExists,
    ValueStateDescriptor,
    bootstrap,
    migrate,
)
from stateshift.state.savepoint.verify import verify

ENTRIES = 20_000
JOB = """
import os, pathlib, time
from stateshift import Job, Operator, ValueStateDescriptor

MARKERS = pathlib.Path({markers!r})
calls = 0

def convert(x):
    global calls
    calls += 1
    if calls == 15_000 and not (MARKERS / "go").exists():
        (MARKERS / f"waits-{{os.getpid()}}").touch()
        while not (MARKERS / "go").exists():
            time.sleep(0.05)
    return str(x).zfill(500)

job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=convert)])])
"""
RUN = """
import sys
from blocking_job import job
from stateshift.spark.migrate import migrate

try:
    report = migrate(sys.argv[1], sys.argv[2], job, master="local[2,4]")
except KeyboardInterrupt:
    print("interrupted")
    raise SystemExit(130)
print("migrated", report.states[0].written)
"""


@pytest.fixture
def markers(tmp_path):
    folder = tmp_path / "markers"
    folder.mkdir()
    (tmp_path / "blocking_job.py").write_text(JOB.format(markers=str(folder)))
    return folder


def wait_for(condition, *, seconds=120):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def waiting_worker(process, markers):
    """The process id of the worker that is in the middle; the driver must be alive."""

    def look():
        assert process.poll() is None, process.communicate()
        return [int(marker.name.removeprefix("waits-")) for marker in markers.glob("waits-*")]

    return wait_for(look)[0]


def in_session(session):
    """Processes that the driver has started, itself included: all are in the session that it leads."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(folder.name))
    return found


def is_gone(process):
    return not Path(f"/proc/{process}").exists()


@pytest.mark.slow
def test_a_killed_driver_publishes_nothing_and_the_same_command_then_succeeds(
    counts, markers, tmp_path, start_python, facts_of, values_of
):
    """K01 and K02 on Spark; at each step that writes, in process: `tests/harness/test_runs.py`."""
    source, target = counts(ENTRIES), tmp_path / "new"
    before = facts_of(source)
    dying = start_python(RUN, source, target)
    worker = waiting_worker(dying, markers)
    with pytest.raises(TargetExists, match=f"another run is in progress in .*, process {dying.pid}, since "):
        migrate(source, target, options=MigrationOptions(parallelism=3))
    os.kill(dying.pid, signal.SIGKILL)
    dying.wait(timeout=60)
    left = sorted(file.name for file in target.iterdir())

    wait_for(lambda: not in_session(dying.pid), seconds=30)
    assert is_gone(worker)
    assert [".attempt-" in name for name in left] == [True, False, False]
    assert [name.partition("-")[0] for name in left[1:]] == ["_claim", "_run"]
    assert facts_of(source) == before

    (markers / "go").touch()
    again = start_python(RUN, source, target)
    printed = again.communicate(timeout=120)

    assert printed == (f"migrated {ENTRIES}\n", "")
    names = [file.name for file in target.iterdir()]
    assert sorted(name.split("-")[2] if "-" in name else name for name in names) == [
        "0",
        "_metadata",
        "_stateshift.json",
    ]
    assert values_of(target, "counter", "count") == {key: str(key).zfill(500) for key in range(ENTRIES)}
    assert verify(Savepoint.open(target)).ok
    assert facts_of(source) == before
    assert list((tmp_path / "scratch").iterdir()) == []


BOOTSTRAP = """
import sys
from stateshift import Job, Operator, ValueStateDescriptor
from stateshift.spark.bootstrap import StateSource, bootstrap

job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str)])])

def sources(spark):
    rows = spark.range(int(sys.argv[2])).selectExpr("id", "lpad(id, 500, '0') as text")
    return [StateSource("counter", "count", rows, key_by="id", value="text")]

report = bootstrap(sys.argv[1], job, sources, master="local[2,4]")
print("made", report.states[0].entries)
"""


@pytest.mark.faults
@pytest.mark.slow
def test_a_driver_killed_in_a_bootstrap_publishes_nothing_and_another_then_succeeds(
    tmp_path, start_python, values_of, spark
):
    rows, target = 100_000, tmp_path / "new"
    dying = start_python(BOOTSTRAP, target, rows)

    def is_writing():
        assert dying.poll() is None, dying.communicate()
        return target.exists() and [file for file in target.iterdir() if ".attempt-" in file.name]

    wait_for(is_writing)
    os.kill(dying.pid, signal.SIGKILL)
    dying.wait(timeout=60)
    wait_for(lambda: not in_session(dying.pid), seconds=30)

    assert not (target / "_metadata").exists()
    assert [file for file in target.iterdir() if ".attempt-" in file.name]
    assert list((tmp_path / "scratch").iterdir()) == []

    job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str)])])
    history = spark.range(rows).selectExpr("id", "lpad(id, 500, '0') as text")
    report = bootstrap(target, job, StateSource("counter", "count", history, key_by="id", value="text"))

    assert report.states[0].entries == rows
    names = [file.name for file in target.iterdir()]
    assert {name.split("-")[2] if "-" in name else name for name in names} >= {"0", "_metadata", "_stateshift.json"}
    assert not [name for name in names if ".attempt-" in name or "_claim-" in name]
    assert values_of(target, "counter", "count") == {key: str(key).zfill(500) for key in range(rows)}
    assert verify(Savepoint.open(target)).ok


@pytest.mark.slow
def test_an_interrupt_publishes_nothing_and_leaves_no_process_running(
    counts, markers, tmp_path, start_python, facts_of
):
    """As Ctrl-C does it: the signal goes to the whole process group of the driver."""
    source, target = counts(ENTRIES), tmp_path / "new"
    before = facts_of(source)
    process = start_python(RUN, source, target)
    worker = waiting_worker(process, markers)
    files = [file for file in target.iterdir() if ".attempt-" in file.name]

    os.killpg(process.pid, signal.SIGINT)
    printed = process.communicate(timeout=60)

    assert (process.returncode, printed) == (130, ("interrupted\n", ""))
    assert len(files) == 1
    assert not target.exists()
    assert facts_of(source) == before
    wait_for(lambda: not in_session(process.pid), seconds=30)
    assert is_gone(worker)
    assert list((tmp_path / "scratch").iterdir()) == []


FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20))
sys.path.insert(0, sys.argv[3])
from wide_job import job
from stateshift.serializers.errors import StorageFailed
from stateshift.spark.migrate import migrate

try:
    migrate(sys.argv[1], sys.argv[2], job, master="local[2,4]")
except StorageFailed as error:
    print(error)
"""
WIDE = """
from stateshift import Job, Operator, ValueStateDescriptor

def wide(x):
    return str(x).zfill(500)

job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=wide)])])
"""


@pytest.mark.slow
def test_a_store_that_takes_no_more_is_reported_as_the_system_says_it(counts, tmp_path, start_python, users_folder):
    """No process may write a file of more than 2 MiB, and the result has 5: as on a full disk."""
    (users_folder / "wide_job.py").write_text(WIDE)
    process = start_python(FULL, counts(10_000), tmp_path / "new", users_folder)

    printed, errors = process.communicate(timeout=120)

    assert errors == ""
    assert "File too large" in printed
    assert f"savepoint {tmp_path / 'new'}" in printed
    assert "operator counter" in printed
    assert printed.endswith("Nothing was published: the target has no _metadata. Nothing was written to the source.\n")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_a_java_process_that_dies_is_reported_as_such(counts, markers, tmp_path, start_python, facts_of):
    """As by a machine that runs out of memory. What py4j logs of it on stderr is not ours."""
    source, target = counts(ENTRIES), tmp_path / "new"
    before = facts_of(source)
    told = RUN.replace("except KeyboardInterrupt:\n    print(", "except Exception as error:\n    print(error or ")
    process = start_python(told, source, target)
    worker = waiting_worker(process, markers)
    (java,) = [pid for pid in in_session(process.pid) if Path(f"/proc/{pid}/comm").read_text() == "java\n"]

    os.kill(java, signal.SIGKILL)
    printed, _ = process.communicate(timeout=60)

    assert printed.splitlines()[:2] == [
        "Spark's Java process has ended: it was killed, or ran out of memory",
        f"  where: savepoint {source}",
    ]
    assert printed.endswith("Nothing was published: the target has no _metadata. Nothing was written to the source.\n")
    assert process.returncode == 130
    assert not target.exists()
    assert facts_of(source) == before
    wait_for(lambda: not in_session(process.pid), seconds=30)
    assert is_gone(worker)
