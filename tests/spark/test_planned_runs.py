"""A run that is given a plan: the same savepoint as without, with what the plan counted; or nothing at all."""

from __future__ import annotations

import json

import pytest

from stateshift import IfTargetExists, MigrationOptions, PlanChanged, Savepoint, migrate
from stateshift.state.migration.plan_file import NewTypes, PlanFile
from stateshift.state.migration.planning import make_plan


@pytest.fixture
def plan_for(savepoint_of, account_jobs):
    """`plan_for(3)`: the plan of a migration to that version, as a file gives it back."""

    def make(version, options=MigrationOptions()):  # noqa: B008 - frozen
        types = NewTypes(job=f"accounts_v{version}:job")
        plan = make_plan(Savepoint.open(savepoint_of("rocksdb-account-v1")), account_jobs[version], options, types)
        return PlanFile.from_json(plan.to_json())

    return make


def test_a_run_by_plan_writes_the_savepoint_that_one_without_writes(
    spark, savepoint_of, account_jobs, plan_for, tmp_path
):
    source, options = savepoint_of("rocksdb-account-v1"), MigrationOptions(parallelism=3)
    plan = plan_for(3, options)

    planned = migrate(source, tmp_path / "planned", account_jobs[3], expected=plan, session=spark)
    migrate(source, tmp_path / "free", account_jobs[3], options, session=spark)

    one, other = (files_of(tmp_path / name) for name in ("planned", "free"))
    lineages = [json.loads(files.pop("_stateshift.json")) for files in (one, other)]
    counted = {s["name"]: s["entries"] for op in plan.operators for s in op["states"] if op["action"] == "rewrite"}
    assert one == other
    assert lineages[0]["states"] == lineages[1]["states"]
    assert {count.state: count.read for count in planned.states} == counted


def files_of(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.startswith(".")}


@pytest.mark.parametrize("if_exists", list(IfTargetExists))
def test_what_was_not_planned_writes_nothing(savepoint_of, account_jobs, plan_for, tmp_path, if_exists):
    with pytest.raises(PlanChanged):
        migrate(
            savepoint_of("rocksdb-account-v1"), tmp_path / "new", account_jobs[4], expected=plan_for(3),
            target_exists=if_exists,
        )  # fmt: skip

    assert not (tmp_path / "new").exists()


def test_the_job_is_loaded_from_where_the_plan_says(savepoint_of, plan_for, root, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(root / "examples"))

    report = migrate(savepoint_of("rocksdb-account-v1"), tmp_path / "new", expected=plan_for(3), dry_run=True)

    assert "job accounts_v3:job" == report.plan.job
    assert 4 == len(report.tried)
