"""`gc` deletes what nothing needs, and never what a batch that the engine may go back to needs."""

from __future__ import annotations

import os
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from streaming_batches import BACKENDS, close_slots
from streaming_totals import totals, totals_in, visits

from stateshift import Savepoint, SavepointNotFound
from stateshift.state.directory.committed_state import committed_manifests
from stateshift.state.directory.garbage import collect as collected
from stateshift.state.directory.holds import held
from stateshift.state.formats.flink.metadata import METADATA, write_metadata


def collect(directory, **options):
    return collected(directory, older_than_h=6, **options)


def files(place):
    return {str(file.relative_to(place)) for file in place.rglob("*") if file.is_file()}


def age(place, hours):
    for file in place.rglob("*"):
        written = time.time() - hours * 3600
        os.utime(file, (written, written))


def needed(place, directory, batches):
    """The names of the files that the states after some batches are made of."""
    found = set()
    for batch in batches:
        for manifest in committed_manifests(directory, batch).manifests:
            found |= {f"manifests/{manifest.name}", *manifest.files()}
    return found & files(place)


def test_what_dead_attempts_and_old_starts_left_goes_and_the_state_stays(tmp_path, backend):
    place = tmp_path / "state"
    engine = totals(place, backend, retained=2)
    for amount in range(3):
        engine.batch(visits(ann=amount, bob=amount), commits=False)
        engine.new_process()
        engine = totals(place, backend, before=engine, retained=2)
        engine.batch(visits(ann=amount, bob=amount))
    for amount in range(6):
        engine.batch(visits(ann=amount, bob=amount))
    age(place, hours=7)
    state = totals_in(Savepoint.open(place))
    kept = needed(place, engine.directory, range(6, 9))

    tried = collect(engine.directory, dry_run=True)
    before = files(place)
    done = collect(engine.directory)

    assert tried == done
    assert before - files(place) == {one.name for one in done.deleted}
    assert not kept & {one.name for one in done.deleted}
    assert {name for name in files(place) if name.startswith(("manifests/", "files/", "shared/"))} == kept
    assert files(place) & {name for name in before if name.startswith("runs/")} == {f"runs/{engine.run.token}.json"}
    assert totals_in(Savepoint.open(place)) == state
    assert done.size_bytes == sum(one.size for one in done.deleted) > 0
    assert collect(engine.directory).deleted == ()
    engine.new_process()
    engine.batch(visits(ann=100))
    assert totals_in(Savepoint.open(place))["ann"] == state["ann"] + 100


def test_new_files_and_those_of_others_stay(tmp_path, backend):
    place = tmp_path / "state"
    engine = totals(place, backend, slots=1, retained=0)
    engine.batch(visits(ann=1), commits=False)
    engine.batch(visits(ann=1))
    engine.batch(visits(ann=1))
    engine.batch(visits(ann=1), commits=False)
    (place / "notes.txt").write_text("mine", encoding="utf-8")
    (place / "shared" / "notes.txt").write_text("mine", encoding="utf-8")
    unfinished = f"{'a' * 32}-keyed-options-0.attempt-{'b' * 12}-{'c' * 12}"
    for name in (unfinished, f"{'a' * 32}-keyed-options-0"):
        (place / "files" / name).write_bytes(b"half")

    found = collect(engine.directory)
    assert found.deleted == ()
    assert found.young > 0

    age(place, hours=7)
    found = collect(engine.directory)

    assert set(found.unknown) == {"notes.txt", "shared/notes.txt", f"files/{'a' * 32}-keyed-options-0"}
    assert {*found.unknown} <= files(place)
    assert f"files/{unfinished}" in {one.name for one in found.deleted}


def test_what_is_held_stays(tmp_path, backend):
    place = tmp_path / "state"
    engine = totals(place, backend, slots=1, retained=0)
    engine.batch(visits(ann=1))
    with held(engine.directory.folder, 0):
        seen = Savepoint.open(place)
        for _ in range(4):
            engine.batch(visits(ann=1))
        age(place, hours=7)
        collect(engine.directory)
        assert totals_in(seen) == {"ann": 1}
    assert collect(engine.directory).deleted


def test_the_base_of_an_epoch_stays_until_all_slots_have_gone_on_from_it(tmp_path, backend):
    place = tmp_path / "state"
    first = totals(place, backend, slots=2, retained=1)
    first.batch(visits(ann=1, bob=2, cy=3))
    first.new_process()
    base = first.directory.base("2")
    base.create()
    base.write(METADATA, write_metadata(Savepoint.open(place).metadata))
    second = totals(place, backend, before=first, slots=3, base="2", retained=1)
    age(place, hours=7)
    collect(first.directory)
    second.batch(visits(ann=10))
    second.new_process()
    age(place, hours=7)
    collect(first.directory)
    assert (place / "bases" / "2" / METADATA).exists()

    for _ in range(3):
        second.batch(visits(ann=10))
    age(place, hours=7)
    found = collect(first.directory)

    assert "bases/2/_metadata" in {one.name for one in found.deleted}
    assert not (place / "bases" / "2").exists()
    assert totals_in(Savepoint.open(place)) == {"ann": 41, "bob": 2, "cy": 3}
    second.new_process()
    third = totals(place, backend, before=second, retained=1)
    third.batch(visits(bob=1))
    assert totals_in(Savepoint.open(place)) == {"ann": 41, "bob": 3, "cy": 3}


def test_without_a_checkpoint_nothing_is_deleted(tmp_path, backend):
    engine = totals(tmp_path / "state", backend)
    with pytest.raises(SavepointNotFound, match="is not there"):
        collect(engine.directory)


STEPS = st.lists(st.tuples(st.sampled_from(["batch", "dies", "retried", "moves", "idle", "gc"]), st.integers(0, 3)),
                 min_size=3, max_size=14)  # fmt: skip


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=20)
@given(steps=STEPS, retained=st.integers(0, 3), kind=st.sampled_from(sorted(BACKENDS)))
def test_after_gc_a_query_can_go_back_to_every_retained_batch(steps, retained, kind, tmp_path_factory):
    place = tmp_path_factory.mktemp("query") / "state"
    close_slots()
    engine = totals(place, BACKENDS[kind], slots=2, retained=retained)
    engine.batch(visits(a=1))
    before = [dict(engine.committed)]
    for what, number in [*steps, ("gc", 0)]:
        rows = visits(**{"abcd"[number]: number + 1})
        if what == "batch":
            engine.batch(rows)
        elif what == "dies":
            engine.batch(rows, commits=False)
            engine.new_process()
            engine = totals(place, BACKENDS[kind], before=engine, retained=retained)
        elif what == "retried":
            engine.batch(rows, commits=False)
            engine.new_process()
            engine.batch(rows)
        elif what == "moves":
            engine.new_process()
        elif what == "idle":
            engine.batch(only=sorted(engine.committed)[:1])
        else:
            age(place, hours=7)
            collect(engine.directory)
        del before[engine.number - 1 :]
        before.append(dict(engine.committed)) if len(before) < engine.number else None
    before[-1:] = [dict(engine.committed)]
    for number in range(max(engine.number - 1 - retained, 0), engine.number):
        engine.new_process()
        engine.committed, engine.number = dict(before[number]), number + 1
        engine.batch(visits(a=0), commits=False)
