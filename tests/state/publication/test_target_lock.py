"""One run at a time in a target: of real processes, and of those that are dead."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time

import pytest

from stateshift import MigrationFailed, TargetExists
from stateshift.state.publication import target_lock as claims
from stateshift.state.publication.publish import Destination, all_or_nothing, clean
from stateshift.state.publication.target_lock import SILENT_S, claimed
from stateshift.state.storage.files import Folder

HOLD = """
import sys, time
from stateshift.state.publication.target_lock import claimed
from stateshift.state.storage.files import Folder

with claimed(Folder.at(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def target(tmp_path):
    return Folder.at(tmp_path / "target")


@pytest.fixture
def owner(target):
    """Another process that has claimed the target."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, target.place], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate(timeout=30)


@pytest.fixture
def claim_of(target):
    """`claim_of(host="other")`: the claim of another process, which is `age_s` old."""

    def lay(*, age_s=0.0, **facts):
        target.create()
        target.write("_claim-0123456789ab", json.dumps(facts).encode())
        then = time.time() - age_s
        os.utime(f"{target.place}/_claim-0123456789ab", (then, then))

    return lay


def test_a_claim_is_there_as_long_as_the_work(target):
    with claimed(target) as claim:
        assert target.names() == (claim.name,)
        assert claim.is_held()
        facts = json.loads(target.read(claim.name))
        target.write("result", b"x")

    assert target.names() == ("result",)
    assert (facts["host"], facts["process"]) == (platform.node(), os.getpid())


def test_a_target_that_stays_empty_goes_with_its_claim(target):
    with pytest.raises(RuntimeError), claimed(target):
        raise RuntimeError

    assert not target.exists()


def test_another_process_is_refused_and_the_owner_is_reported(target, owner):
    with pytest.raises(TargetExists) as caught, claimed(target):
        pass

    assert f"on {platform.node()}, process {owner.pid}, since 20" in caught.value.what
    assert caught.value.written == "Nothing was written."
    with pytest.raises(TargetExists, match="another run is in progress"):
        clean(target)
    with pytest.raises(TargetExists, match="another run is in progress"), all_or_nothing(Destination(target)):
        pass
    assert len(target.names()) == 1


def test_what_a_killed_process_has_claimed_is_taken_over(target, owner):
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait(30)
    left = target.names()

    with claimed(target) as claim:
        assert target.names() == (claim.name,) != left


def test_what_a_killed_process_has_claimed_is_cleaned(target, owner):
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait(30)
    left = target.names()

    assert clean(target) == left
    assert target.names() == ()


def test_a_process_of_another_host_is_dead_when_it_was_silent(target, claim_of):
    claim_of(user="kim", host="another", process=1, since="2026-01-01", age_s=SILENT_S / 2)
    with pytest.raises(TargetExists, match="by kim on another, process 1, since 2026-01-01"), claimed(target):
        pass

    claim_of(host="another", process=1, age_s=SILENT_S + 5)
    with claimed(target) as claim:
        assert target.names() == (claim.name,)


@pytest.mark.parametrize(("age_s", "waits"), [(4.0, True), (5.1, False)])
def test_two_that_come_at_once_wait_and_a_claim_that_was_there_is_not_waited_for(
    target, claim_of, monkeypatch, age_s, waits
):
    """Five seconds distinguish them. Here the rival gives way while it is waited for."""
    waited = []

    def wait(length_s):
        waited.append(length_s)
        target.delete("_claim-0123456789ab")

    monkeypatch.setattr(claims.time, "sleep", wait)
    claim_of(host="another", process=1, age_s=age_s)
    if waits:
        with claimed(target) as claim:
            assert target.names() == (claim.name,)
    else:
        with pytest.raises(TargetExists, match="on another, process 1"), claimed(target):
            pass
        assert target.names() == ("_claim-0123456789ab",)
    assert waits == (len(waited) == 1)


def test_a_claim_that_is_just_being_written_counts(target, claim_of):
    claim_of(age_s=10)
    target.write("_claim-0123456789ab", b"")

    with pytest.raises(TargetExists, match="an unknown user on an unknown host"), claimed(target):
        pass


def test_a_claim_gives_signs_of_life(target, monkeypatch):
    monkeypatch.setattr(claims, "_BEAT_S", 0.01)
    with claimed(target) as claim:
        first = target.written_s(claim.name)
        deadline = time.monotonic() + 30
        while target.written_s(claim.name) == first:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_lost_claim_is_reported_and_not_regained(target, monkeypatch):
    monkeypatch.setattr(claims, "_BEAT_S", 0.01)
    with claimed(target) as claim:
        target.write("result", b"of another run")
        (beating,) = [thread for thread in threading.enumerate() if getattr(thread, "_target", None) is claims._beat]
        target.delete(claim.name)
        beating.join(30)

        assert not claim.is_held()
        with pytest.raises(MigrationFailed, match="another run took the target over"):
            claim.require()

    assert target.names() == ("result",)


@pytest.fixture
def came(monkeypatch):
    """The names of claims, one of which appears each time that they are listed."""
    look, came = claims._claims, []

    def look_before_another_comes(folder):
        found = look(folder)
        came.append(f"_claim-{len(came):012x}")
        folder.write(came[-1], b"")
        return found

    monkeypatch.setattr(claims, "_claims", look_before_another_comes)
    return came


def test_a_claim_that_comes_while_one_looks_is_not_cleared_away(target, came):
    """Its owner would not find it, and end with an error in place of giving way."""
    with claimed(target):
        assert len(came) == 1
        assert set(came) < set(target.names())


def test_a_claim_that_comes_while_a_target_is_cleaned_is_not_forgotten(target, came, claim_of):
    claim_of(host="another", process=1, age_s=SILENT_S + 5)

    assert clean(target) == ("_claim-0123456789ab",)
    assert target.names() == (came[0],)


CONTEND = """
import os, sys, time
from pathlib import Path
from stateshift.serializers.errors import TargetExists
from stateshift.state.publication.target_lock import claimed
from stateshift.state.storage.files import Folder

target, alone, rounds = Folder.at(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
done = 0
while done < rounds:
    try:
        with claimed(target):
            os.close(os.open(alone, os.O_CREAT | os.O_EXCL))  # fails where another process is in here, too
            time.sleep(0.01)
            alone.unlink()
            done += 1
    except TargetExists:
        time.sleep(0.01)
print(done)
"""


def test_processes_that_come_at_the_same_time_are_never_in_together(tmp_path):
    target = Folder.at(tmp_path / "target")
    target.create()
    target.write("kept", b"x")
    command = [sys.executable, "-c", CONTEND, target.place, tmp_path / "alone", "5"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]

    assert [process.communicate(timeout=120)[0] for process in running] == ["5\n", "5\n"]
    assert target.names() == ("kept",)
