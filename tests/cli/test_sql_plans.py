"""`check`, `plan` and `migrate` with compiled plans of Flink SQL."""

import json

import pytest

from stateshift import Savepoint


@pytest.fixture
def sample(root):
    """`sample(name)`: the savepoint, the old plan and the new plan of a query."""

    def places(name):
        folder = root / "tests/fixtures/flink-sql-2.3" / name
        return [str(folder / one) for one in ("savepoint", "plan.json", "plan-2.json")]

    return places


def test_two_plans_are_compared_without_a_savepoint(run, sample):
    _, old, new = sample("join")
    ran = run("check", old, "--plan", new)

    assert 4 == ran.status
    assert "$<key>.flag  BOOLEAN -> (gone)" in (ran.stdout + ran.stderr)
    words = " ".join(ran.stdout.replace("\\\n", "").split())
    command = f"stateshift migrate SAVEPOINT NEW_SAVEPOINT --old-plan {old} --plan {new}"
    assert f"next, with a savepoint of the old query: {command}" in words


def test_a_savepoint_is_migrated_by_plans(run, sample, tmp_path):
    savepoint, old, new = sample("join")
    target = tmp_path / "new"
    ran = run("migrate", savepoint, target, "--old-plan", old, "--plan", new)

    assert 0 == ran.status
    words = " ".join((ran.stdout + ran.stderr).split())
    assert f"SET 'execution.state-recovery.path' = '{target}'; EXECUTE PLAN '{new}';" in words
    rows = [entry.value for entry in Savepoint.open(target).operator("7_join").state("right-records").read_entries()]
    assert {4} == {len(row) for found in rows for row in found}
    assert 0 == run("check", target, "--old-plan", new, "--plan", new).status


def test_what_begins_now_is_a_status_of_its_own_and_is_allowed_by_name(run, sample, tmp_path):
    savepoint, old, new = sample("group-aggregate")
    plans = ("--old-plan", old, "--plan", new)

    refused = run("check", savepoint, *plans)
    assert 8 == refused.status
    assert "accept it: --allow-partial" in (refused.stdout + refused.stderr)
    assert 1 == run("migrate", savepoint, tmp_path / "new", *plans).status
    assert not (tmp_path / "new").exists()
    assert 4 == run("check", savepoint, *plans, "--allow-partial").status
    assert 0 == run("migrate", savepoint, tmp_path / "new", *plans, "--allow-partial").status
    entries = Savepoint.open(tmp_path / "new").operator("5_group-aggregate").state("accState").read_entries()
    assert {None} == {entry.value[6] for entry in entries}


def test_a_migration_plan_names_both_plans_and_is_followed(run, sample, tmp_path):
    savepoint, old, new = sample("group-aggregate")
    file = tmp_path / "plan.json"
    planned = run("plan", savepoint, "--old-plan", old, "--plan", new, "--allow-partial", "-o", file)

    assert 0 == planned.status
    types = json.loads(file.read_text("utf-8"))["new_types"]
    assert {"from": "plan", "place": new, "metadata_sha256": None, "old_plan": old, "allows_partial": True} == types
    ran = run("migrate", savepoint, tmp_path / "new", "--plan", file)
    assert 0 == ran.status
    assert "EXECUTE PLAN" in (ran.stdout + ran.stderr)


def test_without_the_old_plan_other_columns_are_refused_with_the_way_out(run, sample):
    savepoint, _, new = sample("join")
    ran = run("check", savepoint, "--plan", new)

    assert 1 == ran.status
    assert "--old-plan" in (ran.stdout + ran.stderr)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("{savepoint}", "--old-plan", "{old}"), "needs --plan, the new query"),
        (("{savepoint}", "--plan", "{new}", "--job", "a:b"), "--job and --plan both determine"),
        (("{old}", "--plan", "{new}", "--old-plan", "{old}"), "give that with --plan, and no --old-plan"),
        (("{old}", "--plan", "{new}", "--scan"), "which a plan does not have"),
    ],
)
def test_what_does_not_go_together_is_refused(run, sample, words, why):
    savepoint, old, new = sample("join")
    ran = run("check", *(word.format(savepoint=savepoint, old=old, new=new) for word in words))

    assert 2 == ran.status
    assert why in " ".join((ran.stdout + ran.stderr).split())


def test_a_file_that_is_no_plan_is_named(run, sample, tmp_path):
    savepoint, old, _ = sample("join")
    (tmp_path / "new.json").write_text('{"flinkVersion": "2.3", "nodes": [', "utf-8")
    ran = run("check", savepoint, "--old-plan", old, "--plan", tmp_path / "new.json")

    assert 3 == ran.status
    assert "no compiled plan of Flink: line 1, column" in " ".join((ran.stdout + ran.stderr).split())
