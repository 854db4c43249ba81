"""While the state after a batch is copied, no batch deletes its files; a process that has died holds nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import attrs
from streaming_totals import totals, totals_in, visits

from stateshift import Savepoint
from stateshift.state.directory.holds import dead_holds, held, oldest_held
from stateshift.state.storage.lock_owner import Owner


def test_batches_do_not_delete_what_a_savepoint_is_copying(tmp_path, backend):
    engine = totals(tmp_path / "state", backend, slots=1, retained=1)
    for amount in range(4):
        engine.batch(visits(ann=amount))
    with held(engine.directory.folder, 3):
        seen = Savepoint.open(tmp_path / "state")
        for amount in range(6):
            engine.batch(visits(ann=amount))
        assert totals_in(seen) == {"ann": 6}
        kept = len(list((tmp_path / "state" / "manifests").iterdir()))
    engine.batch(visits(ann=0))

    assert kept >= 7
    assert len(list((tmp_path / "state" / "manifests").iterdir())) <= 4


def test_the_first_batch_that_is_held_counts_and_a_hold_ends_with_its_block(tmp_path, backend):
    folder = totals(tmp_path / "state", backend).directory.folder
    with held(folder, 7), held(folder, 5):
        assert oldest_held(folder) == 5
    assert oldest_held(folder) is None


def hold(folder, owner, age_s=0):
    place = folder / "holds" / f"{'0' * 32}.json"
    place.write_text(json.dumps({"batch": 3, **attrs.asdict(owner)}), encoding="utf-8")
    written = place.stat().st_mtime - age_s
    os.utime(place, (written, written))


def test_a_hold_of_a_process_that_has_ended_holds_nothing(tmp_path, backend):
    folder = totals(tmp_path / "state", backend).directory.folder
    ended = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    hold(tmp_path / "state", Owner.here(ended.pid), age_s=100_000)
    assert oldest_held(folder) == 3  # it runs, however long it takes
    ended.communicate()

    assert oldest_held(folder) is None
    assert len(dead_holds(folder)) == 1


def test_a_hold_of_another_host_ends_when_it_is_silent(tmp_path, backend):
    folder = totals(tmp_path / "state", backend).directory.folder
    elsewhere = Owner("another", 17, "another boot", "a namespace", "1")
    hold(tmp_path / "state", elsewhere, age_s=300)
    assert oldest_held(folder) == 3

    hold(tmp_path / "state", elsewhere, age_s=700)

    assert oldest_held(folder) is None
