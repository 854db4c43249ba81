"""`resume` finishes what a killed driver began, and does not do the finished streams again."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from stateshift import (
    IfTargetExists,
    Job,
    Operator,
    Savepoint,
    SavepointWriter,
    TargetExists,
    ValueStateDescriptor,
    check,
    migrate,
)
from stateshift.compat.planner import plan
from stateshift.state.migration.preparation import Preparation
from stateshift.state.migration.rescale import reshape
from stateshift.state.migration.run import publish_result, split
from stateshift.state.migration.run_task import perform
from stateshift.state.publication.runs import names_of
from stateshift.state.savepoint.verify import verify
from stateshift.state.storage.files import Folder

pytestmark = pytest.mark.slow

JOB = """
import pathlib, time
from stateshift import Job, Operator, ValueStateDescriptor

FOLDER = pathlib.Path({folder!r})

def convert(x):
    with (FOLDER / "converted").open("a") as log:
        log.write("x")
    while x == {last} and not (FOLDER / "go").exists():
        time.sleep(0.05)
    return str(x)

job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=convert)])])
"""
RUN = """
import sys
from resumed_job import job
from stateshift.spark.migrate import migrate
from stateshift.state.publication.publish import IfTargetExists

report = migrate(sys.argv[1], sys.argv[2], job, master="local[1,4]", target_exists=IfTargetExists.RESUME)
print("resumed", report.resumed, "written", sum(count.written for count in report.states))
"""
KEYS, SUBTASKS = 400, 8


@pytest.fixture
def source(tmp_path):
    job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", int)])])
    with SavepointWriter(tmp_path / "old", job, parallelism=SUBTASKS) as writer:
        for key in range(KEYS):
            writer.put("counter", "count", key, key)
    return tmp_path / "old"


def test_a_resumed_run_does_only_what_was_not_finished(source, tmp_path, start_python):
    stuck = next(Savepoint.open(source).operator("counter").state("count").read_entries()).value
    (tmp_path / "resumed_job.py").write_text(JOB.format(folder=str(tmp_path), last=stuck))
    target = tmp_path / "new"
    dying = start_python(RUN, source, target)
    deadline = time.monotonic() + 120
    while len(done := list(target.glob("*.done")) if target.exists() else []) < SUBTASKS // 2:
        assert dying.poll() is None, dying.communicate()
        assert time.monotonic() < deadline, sorted(target.iterdir())
        time.sleep(0.05)
    os.kill(dying.pid, signal.SIGKILL)
    dying.wait(timeout=60)
    finished = len(done)
    (tmp_path / "go").touch()
    (tmp_path / "converted").unlink()

    again = start_python(RUN, source, target)
    printed, errors = again.communicate(timeout=180)

    assert errors == ""
    words = printed.split()
    assert int(words[1]) >= finished
    assert (words[2], words[3]) == ("written", str(KEYS))
    assert len((tmp_path / "converted").read_text()) < KEYS
    result = Savepoint.open(target)
    assert {e.key: e.value for e in result.operator("counter").state("count").read_entries()} == {
        key: str(key) for key in range(KEYS)
    }
    assert verify(result).ok
    assert not list(target.glob("*.done"))


def to_text(value):
    return str(value)


def to_other_text(value):
    return f"number {value}"


def job_with(converter):
    return Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=converter)])])


def test_a_run_that_died_after_it_had_published_is_finished_by_resume_without_spark(source, tmp_path):
    """All that is left to do is to clear the journal."""
    opened, target, job = Savepoint.open(source), Folder.at(tmp_path / "new"), job_with(to_text)
    migration = reshape(opened, plan(check(opened.describe(), job.describe())))
    tasks = split(opened, migration)
    target.create()
    journal = Preparation(opened, migration, tasks).journal(target)
    results = [perform(task, opened.folder, target) for task in tasks]
    for result in results:
        journal.record(result)
    publish_result(opened, migration, tasks, results, target, generation=journal.generation)
    listed = names_of([operator.operator_id for operator in opened.operators], journal.generation)
    target.write("_run-0123456789ab", json.dumps({"names": listed}).encode())
    left = target.names()

    for other, how in ((job, IfTargetExists.FAIL), (job_with(to_other_text), IfTargetExists.RESUME)):
        with pytest.raises(TargetExists):
            migrate(source, target.place, other, target_exists=how)
    tried = migrate(source, target.place, job, target_exists=IfTargetExists.RESUME, dry_run=True)
    assert (True, SUBTASKS, left) == (tried.dry_run, tried.resumed, target.names())

    report = migrate(source, target.place, job, target_exists=IfTargetExists.RESUME)

    assert (False, SUBTASKS, KEYS) == (report.dry_run, report.resumed, sum(count.written for count in report.states))
    assert sum(result.stored.size for result in results) == report.bytes_written
    kept = tuple(name for name in left if not name.endswith(".done") and not name.startswith("_run-"))
    assert kept == target.names()
    assert verify(Savepoint.open(target.place)).ok
