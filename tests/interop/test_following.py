"""A job of real Flink is followed while its state changes; at the end it starts on what was published."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import followed_job
import pytest
from running_jobs import RunningJob, new_job

from stateshift import Follower, MigrationOptions, Savepoint, Target, migrate
from stateshift.state.savepoint.verify import verify

PROGRAMS = Path(__file__).parent / "flink-restore"
SEEDS = [int(seed) for seed in os.environ.get("STATESHIFT_FOLLOW_SEEDS", "1").split(",")]
JOB = f"{followed_job.__file__}:NEW"


@contextmanager
def running(flink, checkpoints, *options):
    """The job, until the block ends; `tell(line)` gives it a command, and waits for its end."""
    script = f'. "$HERE/env.sh"; setup {flink.release} "$JARS" ""; flink 1 fx.Changing "$@"'
    variables = {"HERE": str(PROGRAMS), "JARS": str(flink.jars), "WORK": str(flink.work)}
    variables |= {"PATH": f"{flink.jdk}{os.pathsep}{os.environ['PATH']}"}
    command = ["bash", "-euo", "pipefail", "-c", script, "bash", "--checkpoints", checkpoints, *options]
    process = subprocess.Popen(
        list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | variables
    )

    def tell(line):
        found, _ = process.communicate(f"{line}\n", timeout=90)
        return found

    try:
        assert process.stdout.readline().startswith("started ")
        yield tell
    finally:
        if process.poll() is None:
            process.communicate("cancel\n", timeout=90)


def savepoint(tell, folder):
    """Stop the job with a native savepoint; give its folder."""
    return Path(re.search(r"savepoint (?:file:)?(\S+)", tell(f"savepoint {folder}"))[1])


def checkpoints_of(place, count, patience_s=60):
    """Wait until one job has so many completed checkpoints more."""

    def newest():
        return max((int(path.parent.name[4:]) for path in place.glob("*/chk-*/_metadata")), default=0)

    wanted, end = newest() + count, time.monotonic() + patience_s
    while newest() < wanted:
        assert time.monotonic() < end, "no checkpoint is completed"
        time.sleep(0.1)


def contents(place):
    return {
        state.name: sorted(map(repr, state.read_timers() if state.kind == "timers" else state.read_entries()))
        for state in Savepoint.open(place).operator("changing").states
        if state.kind.is_keyed
    }


def require_same(last, out, full):
    """What was followed is what a migration of the last snapshot makes."""
    migrate(last, full, followed_job.NEW)
    expected, found = contents(full), contents(out)
    assert expected == found
    assert all(len(found[name]) > 50 for name in ("count", "events", "counts", "session", "note"))
    counts = [sorted(map(repr, Savepoint.open(place).lineage.states)) for place in (full, out)]
    assert counts[0] == counts[1]
    assert verify(Savepoint.open(out)).ok


def test_a_running_job_is_followed_and_starts_on_the_result(flink, flink_restore, tmp_path):
    ready, place = flink("2.3"), tmp_path / "checkpoints"
    with running(ready, place, "--interval-ms", "300", "--parallelism", "2") as tell:
        checkpoints_of(place, 2)
        follower = Follower(place, tmp_path / "out", followed_job.NEW, until=tmp_path / "savepoints")
        for _ in range(2):
            checkpoints_of(place, 1)
            follower.step()
            assert "" == follower.wait(0)
        last = savepoint(tell, tmp_path / "savepoints")
    assert str(last) == follower.wait(0)
    follower.finish(last)

    require_same(last, tmp_path / "out", tmp_path / "full")
    assert () == follower.status.begun_again
    restored = flink_restore(tmp_path / "out", backend="rocksdb", following=tmp_path / "next")
    assert "restored" == restored["status"], restored


class Following:
    """The command in a process that is killed and started again.

    Args:
        folder: The folder that has the job's file.
        place: The folder of the checkpoints.
        seed: That of the moments.
    """

    def __init__(self, folder, place, seed):
        self.folder, self.drawn = folder, random.Random(seed)  # noqa: S311 - not for secrets
        self.command = [sys.executable, "-m", "stateshift", "migrate"]
        self.options = [place, folder / "out", "--job", JOB, "--follow", "--json", "--interval", "0.1"]
        self.lines = folder / "lines.txt"

    def start(self):
        with self.lines.open("a", encoding="utf-8") as out:
            self.process = subprocess.Popen(
                [*map(str, [*self.command, *self.options])], stdout=out, cwd=self.folder, text=True
            )

    def killed(self, times):
        """Kill it at moments that are drawn, and let it rest before, now and then."""
        for _ in range(times):
            time.sleep(self.drawn.uniform(1, 4))
            if self.drawn.random() < 0.3:
                self.process.send_signal(signal.SIGSTOP)
                time.sleep(self.drawn.uniform(0, 2))
                self.process.send_signal(signal.SIGCONT)
            assert self.process.poll() is None, self.lines.read_text(encoding="utf-8")
            self.process.kill()
            self.process.wait()
            self.start()

    def finished(self, last):
        """Finish while it still runs: killed once, then to the end."""
        command = [*self.command, last, self.folder / "out", "--job", JOB, "--finish"]
        process = subprocess.Popen(list(map(str, command)), cwd=self.folder)
        time.sleep(self.drawn.uniform(0.5, 2))
        process.kill()
        if process.wait() != 0:  # else it was done before
            ran = subprocess.run(list(map(str, command)), cwd=self.folder, capture_output=True, text=True, check=False)
            assert ran.returncode == 0, ran.stderr
        assert self.process.wait(timeout=30) == 0
        return [json.loads(line) for line in self.lines.read_text(encoding="utf-8").splitlines() if line.endswith("}")]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_killed_twenty_times_restarted_from_an_older_checkpoint_and_rescaled(flink, flink_restore, tmp_path, seed):
    """With compactions all the time; restarted, the numbers of files are used again for others."""
    ready, place = flink("2.3"), tmp_path / "checkpoints"
    following = Following(tmp_path, place, seed)
    options = ("--interval-ms", "700", "--seed", seed)
    with running(ready, place, *options, "--parallelism", "2"):
        checkpoints_of(place, 1)
        following.start()
        following.killed(8)
    older = min(place.glob("*/chk-*"), key=lambda path: int(path.name[4:]))
    with running(ready, place, *options, "--parallelism", "2", "--savepoint", older) as tell:
        following.killed(6)
        between = savepoint(tell, tmp_path / "savepoints")
    with running(ready, place, *options, "--parallelism", "3", "--savepoint", between) as tell:
        following.killed(6)
        last = savepoint(tell, tmp_path / "savepoints")
    told = following.finished(last)

    require_same(last, tmp_path / "out", tmp_path / "full")
    jobs = {Path(one["newest"]).parent.name for one in told}
    checkpoints = {one["checkpoint"] for one in told}
    print(f"{len(checkpoints)} checkpoints of {len(jobs)} jobs")
    assert 3 == len(jobs)
    restored = flink_restore(tmp_path / "out", backend="rocksdb", following=tmp_path / "next")
    assert "restored" == restored["status"], restored


@pytest.mark.slow
def test_flink_1_20_restores_what_was_followed_for_it(flink_restore, tmp_path):
    """Files that the database of converted entries has written itself are among them."""
    options = MigrationOptions(restore_target=Target.FLINK_1_20)
    job = RunningJob(tmp_path / "job")
    job.checkpoint()
    follower = Follower(job.checkpoints, tmp_path / "out", new_job(), options)
    follower.step()
    for key in sorted(job.entries("count"))[:50]:
        job.put("count", key, bytes(8))
    follower.finish(job.savepoint(tmp_path / "last"))
    job.stop()

    restored = flink_restore(tmp_path / "out", backend="rocksdb", release="1.20", following=tmp_path / "next")

    assert "restored" == restored["status"], restored
    (found,) = (operator for operator in restored["operators"] if operator["keyed"])
    values = [value for _, value in found["keyed"]["count"]["entries"]]
    assert 300 == len(values)
    assert 51 == sum(value == {"$bigint": "0"} for value in values)
