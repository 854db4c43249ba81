"""Commands on the state directory of a streaming query: it is read like a savepoint, copied, and swept."""

from __future__ import annotations

import json
import os
import time

import pytest
from streaming_batches import BACKENDS, close_slots
from streaming_totals import totals, visits


@pytest.fixture(params=sorted(BACKENDS))
def engine(request, tmp_path):
    """A query after three batches, of which the last one is not committed."""
    made = totals(tmp_path / "state", BACKENDS[request.param], retained=0)
    made.batch(visits(ann=1, bob=2))
    made.batch(visits(ann=10))
    made.batch(visits(ann=100), commits=False)
    yield made
    close_slots()


def exported(ran):
    return {row["key"]: row["value"] for row in map(json.loads, ran.stdout.splitlines())}


def test_inspect_shows_batch_epoch_and_position(run, engine, tmp_path):
    shown = run("inspect", tmp_path / "state")
    assert shown.status == 0
    assert (
        f"state of a query in {tmp_path / 'state'}\n  after batch 1, in epoch 1\n  written by stateshift;"
        in shown.stdout
    )
    assert f'sources as of batch 1 of the checkpoint {engine.checkpoint}:\n    1: {{"read":1}}' in shown.stdout

    data = run("inspect", tmp_path / "state", "--json").data

    why = f"the checkpoint {engine.checkpoint} has no state of Spark"
    assert data["query"] == {"checkpoint": str(engine.checkpoint), "batch": 1, "epoch": 1, "unproven": why}
    assert data["position"]["offsets"].splitlines()[-1] == '{"read":1}'


def test_rewind_and_gc_say_what_was_not_compared_with_what_spark_has_committed(run, engine, tmp_path):
    why = f"not compared with what Spark has committed: the checkpoint {engine.checkpoint} has no state of Spark"
    commands = (
        ["gc", tmp_path / "state", "--dry-run"],
        ["rewind", tmp_path / "state", tmp_path / "new", "--checkpoint", tmp_path / "back", "--to-batch", "1"],
    )
    for command in commands:
        told = run(*command)
        assert (0, True) == (told.status, why in told.stdout), told
    assert why.endswith(run(*commands[0], "--json").data["unproven"])


@pytest.mark.usefixtures("engine")
def test_a_state_directory_is_read_like_a_savepoint(run, tmp_path):
    place = tmp_path / "state"
    assert exported(run("export", place, "--state", "total")) == {"ann": 11, "bob": 2}
    assert run("verify", place).status == 0
    assert run("snapshot", place, "-o", tmp_path / "types.json").status == 0

    moved = run("migrate", place, tmp_path / "migrated", "--format", "canonical")

    assert moved.status == 0
    assert run("diff", place, tmp_path / "migrated").status == 0
    assert {operator["format"] for operator in run("inspect", tmp_path / "migrated", "--json").data["operators"]} == {
        "canonical"
    }


def test_a_plan_for_the_state_after_a_batch_is_refused_after_another(run, engine, tmp_path):
    place = tmp_path / "state"
    assert run("plan", place, "-o", tmp_path / "plan.json").status == 0
    assert run("migrate", place, tmp_path / "one", "--plan", tmp_path / "plan.json").status == 0

    engine.batch(visits(ann=100))
    engine.batch(visits(ann=1000))

    again = run("migrate", place, tmp_path / "two", "--plan", tmp_path / "plan.json")
    assert again.status == 1
    assert "the plan is for another savepoint" in again.stderr


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("hint", "status", "next_step"),
    [
        ("int", 0, "start the query: StreamJob.start goes on from it"),
        ("float", 4, 'next: start the query with StreamJob.start(…, on_incompatible="migrate")'),
    ],
)
def test_check_says_how_the_query_goes_on(run, job_folder, tmp_path, hint, status, next_step):
    job = f"""
from stateshift import Job, Operator, ValueStateDescriptor
job = Job([Operator("operator", key=str, states=[ValueStateDescriptor("total", {hint})])])
"""
    (job_folder / "totals_job.py").write_text(job, encoding="utf-8")

    ran = run("check", tmp_path / "state", "--job", "totals_job:job")

    assert ran.status == status, ran
    assert next_step in ran.stdout


def test_a_savepoint_of_a_query_has_its_last_committed_batch_and_its_position(run, engine, tmp_path):
    target = tmp_path / "savepoint"

    ran = run("savepoint", tmp_path / "state", target)

    assert ran.status == 0, ran
    assert f"savepoint of batch 1: {target}" in ran.stdout
    assert f"start the job: flink run -s {target}" in ran.stdout
    assert exported(run("export", target, "--state", "total")) == {"ann": 11, "bob": 2}
    assert not list((tmp_path / "state" / "holds").iterdir())
    assert run("verify", target).status == 0
    shown = run("inspect", target)
    assert f'sources as of batch 1 of the checkpoint {engine.checkpoint}:\n    1: {{"read":1}}' in shown.stdout
    lineage = json.loads((target / "_stateshift.json").read_text(encoding="utf-8"))
    assert lineage["position"]["offsets"] == (engine.checkpoint / "offsets" / "1").read_text(encoding="utf-8")


@pytest.mark.usefixtures("engine")
def test_the_position_stays_with_a_savepoint_that_is_migrated_further(run, tmp_path):
    run("savepoint", tmp_path / "state", tmp_path / "one", "--json")
    run("migrate", tmp_path / "one", tmp_path / "two", "--parallelism", "1")

    position = run("inspect", tmp_path / "two", "--json").data["position"]

    assert position["batch"] == 1


@pytest.mark.usefixtures("engine")
def test_nothing_is_written_into_a_state_directory(run, tmp_path):
    before = sorted(tmp_path.joinpath("state").rglob("*"))
    inside = tmp_path / "state" / "savepoint"
    for command in (("savepoint", tmp_path / "state", inside), ("migrate", tmp_path / "state", inside)):
        ran = run(*command)
        assert ran.status == 2
        assert "lies inside" in ran.stderr
    assert run("savepoint", tmp_path / "state", tmp_path / "state").status == 2
    assert run("export", tmp_path / "state", "-o", tmp_path / "state" / "rows.jsonl").status == 2
    assert sorted(tmp_path.joinpath("state").rglob("*")) == before


def test_what_is_no_state_directory_is_refused(run, tmp_path, savepoint_of):
    for command in (("gc", tmp_path), ("savepoint", savepoint_of("rocksdb-account-v1"), tmp_path / "new")):
        ran = run(*command)
        assert ran.status == 3
        assert "what to do" in ran.stderr


def test_two_attempts_that_only_spark_can_tell_apart_are_status_3(run, engine, tmp_path):
    engine.new_process()
    engine.batch(visits(ann=100))

    ran = run("inspect", tmp_path / "state")

    assert ran.status == 3
    assert "start the query once" in ran.stderr


def test_gc_deletes_what_is_old_and_says_so(run, engine, tmp_path):
    place = tmp_path / "state"
    engine.new_process()
    engine.batch(visits(ann=100))
    engine.batch(visits(ann=1000))
    (place / "mine.txt").write_text("notes", encoding="utf-8")

    assert "newer than 6 hours" in run("gc", place).stdout

    written = time.time() - 7 * 3600
    for file in place.rglob("*"):
        os.utime(file, (written, written))
    tried = run("gc", place, "--dry-run", "--json").data
    assert tried["deleted"]
    assert all((place / one["name"]).exists() for one in tried["deleted"])

    ran = run("gc", place)

    assert ran.status == 0
    assert ran.stdout.startswith(f"deleted {len(tried['deleted'])} files, ")
    assert "not of stateshift, and left alone: mine.txt" in ran.stdout
    assert not any((place / one["name"]).exists() for one in tried["deleted"])
    assert exported(run("export", place, "--state", "total")) == {"ann": 1111, "bob": 2}
    assert run("gc", place).stdout.startswith("no garbage, in ")


def test_rewind_copies_the_query_as_it_was(run, engine, tmp_path):
    engine.batch(visits(ann=1000))
    engine.batch(visits(ann=1000))
    place, new = tmp_path / "state", tmp_path / "copy"

    told = run("rewind", place, new, "--checkpoint", tmp_path / "back", "--to-batch", "2")

    assert told.status == 0
    assert told.stdout.startswith("copied: the query as it was after batch 2, in epoch 1\n")
    assert "what batch 3 wrote since then" in told.stdout
    assert exported(run("export", new, "--state", "total")) == {"ann": 1011, "bob": 2}
    again = run("rewind", place, new, "--checkpoint", tmp_path / "back", "--to-batch", "2")
    assert again.status == 2
    assert "is not empty" in again.stderr
    data = run("rewind", place, tmp_path / "2", "--checkpoint", tmp_path / "2-back", "--to-batch", "3", "--json").data
    assert (data["batch"], data["epoch"], data["again"]) == (3, 1, None)
    assert run("rewind", place, tmp_path / "3", "--checkpoint", tmp_path / "3-back", "--to-batch", "0").status == 3
