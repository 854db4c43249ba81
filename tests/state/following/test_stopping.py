"""The savepoint of the stop is found: the one that ends the job that is followed, and no other."""

from __future__ import annotations

import shutil
import time

import pytest
from running_jobs import JOB, RunningJob, contents, new_job

from stateshift import CorruptSavepoint, Follower
from stateshift.state.following import stopping
from stateshift.state.formats.flink.metadata import METADATA
from stateshift.state.storage.files import Folder


@pytest.fixture
def job(tmp_path):
    running = RunningJob(tmp_path / "job", keys=20)
    running.checkpoint()
    yield running
    running.stop()


@pytest.fixture
def savepoints(tmp_path):
    """The folder to which the stop writes; Flink makes it at the first savepoint."""
    return tmp_path / "savepoints"


@pytest.fixture
def follower(job, tmp_path, savepoints):
    """`follower()`: one as by a new process, which goes on with what there is."""
    return lambda: Follower(job.checkpoints / JOB, tmp_path / "out", new_job(), until=savepoints)


def test_it_is_found_and_finished(job, follower, savepoints):
    following = follower()
    assert "" == following.wait(0)  # nothing is followed yet
    following.step()
    assert "" == following.wait(0)

    job.delete("count", min(job.entries("count")))
    last = job.savepoint(savepoints / "savepoint-1", stops=True)

    assert str(last) == following.wait(0)
    report = following.finish(last)
    assert 19 == len(contents(report.target)["count"])


def test_one_after_which_the_job_goes_on_is_passed_over(job, follower, savepoints):
    following = follower()
    following.step()
    job.savepoint(savepoints / "savepoint-1")

    assert "" == following.wait(0)
    assert ("savepoint-1: it does not say that it was taken to stop its job",) == following.status.passed_over


def test_one_of_another_job_is_passed_over(follower, savepoints, tmp_path):
    following = follower()
    following.step()
    other = RunningJob(tmp_path / "other", keys=3)
    other.savepoint(savepoints / "savepoint-1", stops=True)
    other.stop()

    assert "" == following.wait(0)
    (told,) = following.status.passed_over
    assert "savepoint-1: it has no files of the job that is followed" in told


def test_what_was_there_before_is_of_an_earlier_stop(job, follower, savepoints):
    """Also for a process that goes on later: then one that came meanwhile is that of the stop."""
    job.savepoint(savepoints / "savepoint-1", stops=True)
    following = follower()
    following.step()
    assert "" == following.wait(0)

    last = job.savepoint(savepoints / "savepoint-2", stops=True)
    again = follower()
    again.step()
    assert str(last) == again.wait(0)


def test_a_folder_that_is_named_later_begins_then(job, follower, savepoints, tmp_path):
    Follower(job.checkpoints / JOB, tmp_path / "out", new_job()).step()
    job.savepoint(savepoints / "savepoint-1", stops=True)
    following = follower()
    following.step()
    assert "" == following.wait(0)
    assert str(job.savepoint(savepoints / "savepoint-2", stops=True)) == follower_after_step(follower).wait(0)


def follower_after_step(follower):
    following = follower()
    following.step()
    return following


def test_one_that_is_being_written_is_waited_for(job, follower, savepoints, tmp_path, monkeypatch):
    following = follower()
    following.step()
    last = job.savepoint(tmp_path / "savepoint-1", stops=True)
    shutil.copytree(last, savepoints / last.name)
    metadata = savepoints / last.name / METADATA
    metadata.unlink()
    assert "" == following.wait(0)

    metadata.write_bytes((last / METADATA).read_bytes()[:100])
    assert "" == following.wait(0)
    monkeypatch.setattr(stopping, "_WRITTEN_S", -1)
    with pytest.raises(CorruptSavepoint):
        following.wait(0)
    metadata.write_bytes((last / METADATA).read_bytes())
    assert str(metadata.parent) == following.wait(0)


def test_other_files_and_a_savepoint_that_is_deleted_meanwhile_are_no_error(job, follower, savepoints, monkeypatch):
    following = follower()
    following.step()
    shutil.rmtree(job.savepoint(savepoints / "savepoint-1", stops=True))
    (savepoints / "savepoint-1").mkdir()
    (savepoints / "README").write_text("of the team", encoding="utf-8")
    assert "" == following.wait(0)

    monkeypatch.setattr(Folder, "exists", lambda *_: True)
    assert "" == following.wait(0)


def test_waiting_ends_when_it_is_time_for_the_next_step(follower):
    following = follower()
    following.step()
    began = time.monotonic()
    assert "" == following.wait(0.2)
    assert time.monotonic() - began >= 0.2
