"""Savepoints on an object store: looked at, migrated by workers, resumed, cleaned; and a store that goes away."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from stateshift import MigrationOptions, Savepoint, TargetExists, migrate
from stateshift.state.publication.runs import names_of
from stateshift.state.publication.target_lock import claimed
from stateshift.state.savepoint.verify import verify
from stateshift.state.storage.files import Folder

pytestmark = pytest.mark.slow

KEYS = 20_000
JOB = """
import pathlib, time, uuid
from stateshift import Job, Operator, ValueStateDescriptor

MARKERS = pathlib.Path({markers!r})
calls = 0  # of this task

def convert(x):
    global calls
    calls += 1
    if calls == 2_500:
        (MARKERS / f"task-{{uuid.uuid4()}}").touch()
        if len(list(MARKERS.glob("task-*"))) > 2:
            (MARKERS / f"waits-{{uuid.uuid4()}}").touch()
            while not (MARKERS / "go").exists():
                time.sleep(0.05)
    return str(x).zfill(20)

job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=convert)])])
"""
RUN = """
import json, sys
from store_job import job
from stateshift.serializers.errors import StateShiftError
from stateshift.spark.bootstrap import StateSource, bootstrap
from stateshift.spark.migrate import migrate
from stateshift.spark.sessions import session
from stateshift.state.migration.options import MigrationOptions
from stateshift.state.publication.publish import IfTargetExists

source, target, master, first = sys.argv[1:5]
spark = session(master)
facts = {}
if first:
    rows = spark.range(1_000).selectExpr("id", "cast(id as string) as text")
    made = bootstrap(first, job, StateSource("counter", "count", rows, key_by="id", value="text"), parallelism=2)
    facts["made"] = made.states[0].entries
try:
    options = MigrationOptions(parallelism=4)
    report = migrate(source, target, job, options, session=spark, target_exists=IfTargetExists.RESUME)
    facts |= {"resumed": report.resumed, "written": report.states[0].written}
except StateShiftError as error:
    facts["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(facts))
spark.stop()
"""


@pytest.fixture
def markers(tmp_path):
    folder = tmp_path / "markers"
    folder.mkdir()
    (tmp_path / "store_job.py").write_text(JOB.format(markers=str(folder)))
    return folder


@pytest.fixture
def command(tmp_path):
    """`command("inspect", place)`: the command line in a process of its own, where the job is."""

    def run(*arguments, status=0):
        ran = subprocess.run(
            [sys.executable, "-m", "stateshift", *map(str, arguments)],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == status, ran.stderr + ran.stdout
        return ran.stdout + ran.stderr

    return run


def result_of(process, *, seconds=240):
    printed, errors = process.communicate(timeout=seconds)
    assert printed, errors
    return json.loads(printed.splitlines()[-1])


def wait_until_all_wait(process, markers, *, workers=2):
    deadline = time.monotonic() + 120
    while len(list(markers.glob("waits-*"))) < workers:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def check_result(place, values_of):
    assert values_of(place, "counter", "count") == {key: str(key).zfill(20) for key in range(KEYS)}
    assert verify(Savepoint.open(place)).ok
    files = [name.split("-")[2] if "-" in name else name for name in Folder.at(place).names()]
    assert files == [*"0123", "_metadata", "_stateshift.json"]


def test_a_savepoint_on_an_object_store_is_used_as_any_other(
    s3, upload, counts, markers, start_python, values_of, command, secret
):
    """Inspected, checked, migrated by workers, made from rows, verified; and a target that is taken is refused."""
    (markers / "go").touch()
    source, target, made = upload(counts(KEYS), "old"), s3.place("new"), s3.place("made")

    assert f"savepoint {source}" in command("inspect", source)
    assert "1 of 1 state must be rewritten" in command("check", source, "--job", "store_job:job", status=4)
    facts = result_of(start_python(RUN, source, target, "local[2,4]", made))

    assert facts == {"made": 1_000, "resumed": 0, "written": KEYS}
    check_result(target, values_of)
    assert values_of(made, "counter", "count") == {key: str(key) for key in range(1_000)}
    told = command("migrate", source, target, "--job", "store_job:job", status=2)
    assert "there is a savepoint in" in told
    with pytest.raises(TargetExists, match="lies inside the source"):
        migrate(source, s3.place("old/inside"), options=MigrationOptions(parallelism=2))
    assert secret not in told + Folder.at(target).read("_stateshift.json").decode()


@pytest.mark.faults
def test_a_store_that_goes_away_in_mid_run_and_comes_back_ends_in_the_right_result(
    s3, upload, counts, markers, start_python, values_of
):
    """The run asks again, as often as the store's client and Spark do; where that is not enough, it is resumed."""
    source, target = upload(counts(KEYS), "steady"), s3.place("returned")
    running = start_python(RUN, source, target, "local[2,4]", "")
    wait_until_all_wait(running, markers)

    s3.kill()
    (markers / "go").touch()
    time.sleep(1)  # long enough for the workers to find no server
    s3.start()
    facts = result_of(running)
    if "error" in facts:
        facts = result_of(start_python(RUN, source, target, "local[2,4]", ""))

    assert facts.get("written") == KEYS, facts
    check_result(target, values_of)


@pytest.mark.faults
def test_a_store_that_stays_away_fails_the_run_clearly_and_resume_goes_on(
    s3, upload, counts, markers, start_python, values_of
):
    source, target = upload(counts(KEYS), "gone"), s3.place("resumed")
    running = start_python(RUN, source, target, "local[2]", "")
    wait_until_all_wait(running, markers)
    s3.kill()
    (markers / "go").touch()
    failed = result_of(running)
    s3.start()
    left = Folder.at(target).names()

    assert failed["error"].startswith("StorageFailed: the store does not answer: ")
    assert "operator counter" in failed["error"]
    assert "It is unknown whether the new savepoint was published" in failed["error"]
    assert "Finished work" not in failed["error"]  # a store that does not answer does not say that there is any
    assert "_metadata" not in left
    finished = [name for name in left if name.endswith(".done")]

    facts = result_of(start_python(RUN, source, target, "local[2]", ""))

    assert facts == {"resumed": len(finished), "written": KEYS}
    check_result(target, values_of)


def test_one_run_at_a_time_is_at_work_on_an_object_store_and_what_a_dead_one_has_left_is_cleaned(s3, command):
    target = Folder.at(s3.place("dead"))
    for name in ("0" * 32 + "-keyed-0.attempt-0123456789ab", "0" * 32 + "-keyed-1.done"):
        target.write(name, b"x")
    target.write("_run-0123456789ab", json.dumps({"names": names_of(["0" * 32])}).encode())

    with claimed(target), pytest.raises(TargetExists, match="another run is in progress"), claimed(target):
        pass
    assert "removed 3 files" in command("clean", target.place)
    assert not target.names() if target.exists() else True
