"""Checkpoints on a store: files are copied once, and the savepoint is written to the store, too."""

from __future__ import annotations

import shutil

import pytest
from object_store import s3, upload  # noqa: F401 - fixtures
from running_jobs import JOB, RunningJob, contents, new_job

from stateshift import Follower, migrate

NEW = new_job()


@pytest.mark.slow
def test_checkpoints_of_a_store_are_followed(request, tmp_path):
    server, put = request.getfixturevalue("s3"), request.getfixturevalue("upload")
    job = RunningJob(tmp_path / "job", keys=100)
    for number in (1, 2):
        job.delete("count", min(job.entries("count")))
        job.checkpoint()
        put(job.checkpoints, f"checkpoints-{number}")
        status = Follower(
            server.place(f"checkpoints-{number}"), server.place("out"), NEW, work=tmp_path / "work"
        ).step()
        assert status.is_up_to_date
    job.put("count", max(job.entries("count")), bytes(8))
    last = job.savepoint(tmp_path / "last")
    job.stop()
    put(last, "last")
    shutil.rmtree(job.checkpoints / JOB)

    Follower(server.place("nowhere"), server.place("out"), NEW, work=tmp_path / "work").finish(server.place("last"))

    migrate(last, tmp_path / "full", NEW)
    assert contents(tmp_path / "full") == contents(server.place("out"))
    assert not (tmp_path / "work").exists()
