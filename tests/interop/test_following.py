"""A job of real Flink is followed while its state changes; at the end it starts on what was published."""

from __future__ import annotations

import os
import re
import subprocess
import time
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from stateshift import (
    BigInt,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    Savepoint,
    ValueStateDescriptor,
    migrate,
)
from stateshift.state.following.follower import Follower
from stateshift.state.savepoint.verify import verify

PROGRAMS = Path(__file__).parent / "flink-restore"
UID = "changing"
NEW = Job(
    [
        Operator(
            UID,
            key=int,
            states=[
                ValueStateDescriptor("count", BigInt),
                ListStateDescriptor("events", BigInt),
                MapStateDescriptor("counts", str, BigInt),
                ValueStateDescriptor("session", BigInt, time_to_live=timedelta(seconds=5)),
            ],
        )
    ]
)


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
        for state in Savepoint.open(place).operator(UID).states
        if state.kind.is_keyed
    }


def require_same(last, out, full):
    """What was followed is what a migration of the last snapshot makes."""
    migrate(last, full, NEW)
    expected, found = contents(full), contents(out)
    assert expected == found
    assert all(len(found[name]) > 100 for name in ("count", "events", "counts", "session", "note"))
    counts = [sorted(map(repr, Savepoint.open(place).lineage.states)) for place in (full, out)]
    assert counts[0] == counts[1]
    assert verify(Savepoint.open(out)).ok


def test_a_running_job_is_followed_and_starts_on_the_result(flink, flink_restore, tmp_path):
    ready, place = flink("2.3"), tmp_path / "checkpoints"
    with running(ready, place, "--interval-ms", "500", "--parallelism", "2") as tell:
        checkpoints_of(place, 2)
        follower = Follower(place, tmp_path / "out", NEW)
        for _ in range(4):
            checkpoints_of(place, 1)
            status = follower.step()
        last = savepoint(tell, tmp_path / "savepoints")
    print(status)
    follower.finish(last)

    require_same(last, tmp_path / "out", tmp_path / "full")
    assert () == follower.status.begun_again
    restored = flink_restore(tmp_path / "out", backend="rocksdb", following=tmp_path / "next")
    assert "restored" == restored["status"], restored
