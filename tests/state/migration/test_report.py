"""What a migration says of itself, before and after."""

import json

import pytest

from stateshift import MigrationReport, Savepoint, check
from stateshift.compat.planner import plan
from stateshift.state.migration.run import publish_result, split, try_out
from stateshift.state.migration.run_task import perform
from stateshift.state.storage.files import Folder


@pytest.fixture
def run(savepoint_of, accounts, tmp_path):
    """Gives the report before and after a migration to version 3."""
    savepoint, target = Savepoint.open(savepoint_of("rocksdb-account-v1")), Folder.at(tmp_path / "new")
    migration = plan(check(savepoint.describe(), accounts(3).describe()))
    tasks = split(savepoint, migration)
    planned = MigrationReport.planned(savepoint, migration, target.place, tasks)
    target.create()
    results = [perform(task, savepoint.folder, target) for task in tasks]
    lineage = publish_result(savepoint, migration, tasks, results, target)
    size = sum(result.stored.size for result in results)
    return savepoint, planned, planned.finished(lineage, size, 1.23456, {"migrating": 0.98765})


def test_a_plan_says_what_will_be_read_and_that_nothing_is_written(run):
    savepoint, planned, _ = run

    assert (True, 0, ()) == (planned.dry_run, planned.bytes_written, planned.states)
    assert sum(operator.size_bytes for operator in savepoint.operators) == planned.bytes_read
    assert (4, 0) == (planned.tasks, planned.copies)
    assert not planned.copied_only


def test_a_finished_run_says_what_was_written_and_the_way_back_run_8(run):
    savepoint, planned, finished = run
    new = Savepoint.open(finished.target)

    assert not finished.dry_run
    assert sum(operator.size_bytes for operator in new.operators) == finished.bytes_written
    assert planned.bytes_read == finished.bytes_read
    assert new.lineage.states == finished.states
    assert savepoint.place in finished.rollback
    assert "untouched" in finished.rollback


def test_it_is_plain_data_for_json(run):
    _, planned, finished = run
    data = json.loads(json.dumps(finished.to_data()))

    assert {"source", "target", "states", "plan", "operators", "rollback", "source_untouched"} <= data.keys()
    assert (1.235, {"migrating": 0.988}) == (data["seconds"], data["phases"])
    assert {("account-state", True), ("account-state-lists", True)} == {
        (operator["uid"], operator["rewritten"]) for operator in data["operators"]
    }
    assert {"read", "written", "dropped", "keys"} <= data["states"][0].keys()
    assert json.loads(json.dumps(planned.to_data()))["dry_run"] is True


def test_a_dry_run_says_what_was_tried(savepoint_of, accounts):
    savepoint = Savepoint.open(savepoint_of("rocksdb-account-v1"))
    migration = plan(check(savepoint.describe(), accounts(3).describe()))
    report = MigrationReport(
        source="a", target="b", plan=migration, tasks=0, copies=0, bytes_read=0, tried=try_out(savepoint, migration)
    )

    tried = {one["state"]: one["converted"] for one in report.to_data()["tried"]}
    assert {"account": True, "account-by-name": True, "accounts": True, "pending": True} == tried


def test_what_needs_nothing_is_copied_only(savepoint_of, accounts, tmp_path):
    savepoint = Savepoint.open(savepoint_of("rocksdb-account-v1"))
    migration = plan(check(savepoint.describe(), accounts(1).describe()))

    report = MigrationReport.planned(savepoint, migration, str(tmp_path), split(savepoint, migration))
    assert report.copied_only
    assert (0, 0) == (report.tasks, report.copies)
