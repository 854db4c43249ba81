"""`stateshift migrate --follow` and `--finish`, as commands."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys

import pytest
from running_jobs import JOB, RunningJob, contents

from stateshift import Follower, Savepoint
from stateshift.state.savepoint.verify import verify

JOB_FILE = """
from stateshift import BigInt, Job, Operator, ValueStateDescriptor

job = Job([Operator("op", key=int, states=[ValueStateDescriptor("count", BigInt)])])
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "counting.py").write_text(JOB_FILE, encoding="utf-8")
    running = RunningJob(tmp_path / "job", keys=100)
    yield running
    running.stop()


def test_following_then_finishing(run, job, tmp_path):
    job.checkpoint()
    ran = run("migrate", job.checkpoints, "out", "--job", "counting:job", "--follow", "--once")
    assert 0 == ran.status
    assert "chk-1 is converted" in ran.stdout

    job.delete("count", min(job.entries("count")))
    last = job.savepoint(tmp_path / "last")
    ran = run("migrate", last, "out", "--job", "counting:job", "--finish")

    assert 0 == ran.status
    assert "99 entries of 1 state converted, in out" in ran.stdout.replace(str(tmp_path) + "/", "")
    assert 99 == len(contents(tmp_path / "out")["count"])
    assert verify(Savepoint.open(tmp_path / "out")).ok


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_following_until_the_stop(job, tmp_path, options):
    """One process does it all: a savepoint after which the job goes on is told and passed over."""
    job.checkpoint()
    command = [sys.executable, "-m", "stateshift", "migrate", job.checkpoints, "out", "--job", "counting:job"]
    command += ["--follow", "--until", tmp_path / "savepoints", "--interval", "0.1", *options]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "chk-1" in process.stdout.readline()
    job.savepoint(tmp_path / "savepoints" / "savepoint-1")
    job.delete("count", min(job.entries("count")))
    job.checkpoint()
    assert "chk-2" in process.stdout.readline()
    job.delete("count", min(job.entries("count")))
    last = job.savepoint(tmp_path / "savepoints" / "savepoint-2", stops=True)
    out, told = process.communicate(timeout=60)

    assert 0 == process.returncode
    assert (
        "passed over: savepoint-1: it does not say that it was taken to stop its job" in " ".join(told.split())
        or options
    )
    assert f"the savepoint of the stop is there: {last}" in " ".join(told.split())
    if options:
        *_, report = map(json.loads, out.splitlines())
        assert str(tmp_path / "out") in report["start_command"]
    else:
        assert "98 entries of 1 state converted" in out
    assert 98 == len(contents(tmp_path / "out")["count"])
    assert not (tmp_path / "out.following").exists()


def test_a_job_that_has_ended_and_has_deleted_its_checkpoints_is_finished(run, job, tmp_path, monkeypatch):
    step, steps = Follower.step, []

    def ending(follower):
        steps.append(follower)
        if len(steps) == 2:
            job.savepoint(tmp_path / "savepoints" / "savepoint-1", stops=True)
            shutil.rmtree(job.checkpoints)
        return step(follower)

    job.checkpoint()
    monkeypatch.setattr(Follower, "step", ending)
    command = ("migrate", job.checkpoints, "out", "--job", "counting:job", "--follow", "--interval", "0.1")
    ran = run(*command, "--until", tmp_path / "savepoints")

    assert 0 == ran.status
    assert 2 == len(steps)
    assert 100 == len(contents(tmp_path / "out")["count"])


def test_a_target_that_is_taken_is_refused_before_the_stop(run, job, tmp_path):
    job.checkpoint()
    job.savepoint(tmp_path / "out")
    command = ("migrate", job.checkpoints, "out", "--job", "counting:job", "--follow", "--once")
    ran = run(*command)

    assert 2 == ran.status
    assert "there is a savepoint in" in ran.stderr
    assert not (tmp_path / "out.following").exists()
    assert 0 == run(*command, "--target-exists", "replace").status


def test_each_line_of_json_is_a_status(run, job):
    job.checkpoint()
    ran = run("migrate", job.checkpoints / JOB, "out", "--job", "counting:job", "--follow", "--once", "--json")

    (line,) = ran.stdout.splitlines()
    told = json.loads(line)
    assert told["up_to_date"]
    assert ["op: count"] == told["states"]
    assert {"checkpoint", "newest", "lag_s", "bytes_left", "linked_bytes", "stop_s", "at_the_end"} < told.keys()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_says_that_nothing_is_lost(job, tmp_path, how):
    command = [sys.executable, "-m", "stateshift", "migrate", job.checkpoints, "out", "--job", "counting:job"]
    job.checkpoint()
    process = subprocess.Popen(
        [*map(str, command), "--follow"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert "chk-1 is converted" in process.stdout.readline()
    process.send_signal(how)
    _, told = process.communicate(timeout=30)

    assert 130 == process.returncode
    assert f"{tmp_path}/out.following: the same command goes on" in " ".join(told.split())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--follow", "--finish"], "give one of them"),
        (["--follow", "--dry-run"], "--dry-run is not for --follow and --finish"),
        (["--finish", "--master", "local"], "--master is not for"),
        (["--throttle", "3"], "--throttle is only for --follow"),
        (["--until", "there"], "--until is only for --follow"),
        (["--follow", "--once", "--until", "there"], "--once ends before the stop, --until with it"),
        (["--work", "here"], "--work is only for --follow"),
    ],
)
def test_what_does_not_go_together(run, job, options, why):
    ran = run("migrate", job.checkpoint(), "out", "--job", "counting:job", *options)

    assert 2 == ran.status
    assert why in " ".join(ran.stderr.split())


def test_one_snapshot_is_not_followed(run, job):
    ran = run("migrate", job.checkpoint(), "out", "--job", "counting:job", "--follow", "--once")

    assert 3 == ran.status
    assert "it is one snapshot" in ran.stderr


@pytest.mark.parametrize("option", ["--follow", "--finish"])
def test_something_must_change(run, job, option):
    ran = run("migrate", job.checkpoints, "out", option)

    assert 2 == ran.status
    assert "specify the new types: --job MODULE:ATTRIBUTE" in ran.stderr


@pytest.mark.usefixtures("job")
def test_a_folder_that_is_not_there(run, tmp_path):
    ran = run("migrate", tmp_path / "nowhere", "out", "--job", "counting:job", "--follow", "--once")

    assert 3 == ran.status
    assert "nowhere" in ran.stderr
