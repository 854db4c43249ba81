"""`--sample` and `--key`: entries before and after, as text and as data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from spark_checkpoints import place

from stateshift.state.migration.queries.operator_copy import StoreCopy


@pytest.fixture
def account(root):
    """A savepoint of the first job of the examples."""
    return root / "examples" / "savepoints" / "rocksdb-account-v1"


@pytest.fixture(autouse=True)
def _jobs(example_jobs):
    """The current folder holds the jobs of the examples."""


def entries_of(samples, state="account"):
    (found,) = (one for one in samples["states"] if one["state"] == state)
    return found["entries"]


def test_a_plan_shows_the_entries_of_a_key_before_and_after(run, account):
    ran = run("plan", account, "--job", "accounts_v3:job", "--key", 11)
    data = run("plan", account, "--job", "accounts_v3:job", "--key", 11, "--json").data

    assert ran.status == 0
    assert "entries of key 11 before and after" in ran.stdout
    assert "defaulted  $.email     null  [REC-2]" in ran.stdout
    (entry,) = entries_of(data["samples"])
    (got,) = (
        one for one in run("get", account, 11, "--json").data["operators"][0]["entries"] if one["state"] == "account"
    )
    assert entry["old"] == got["value"]
    did = {(one["path"], one["did"]) for one in entry["changes"]}
    assert did == {
        ("$.email", "defaulted"),
        ("$.score", "defaulted"),
        ("$.visits", "widened"),
        ("$.obsolete", "dropped"),
    }


def test_a_plan_file_has_no_entries(run, account, tmp_path):
    file = tmp_path / "plan.json"

    run("plan", account, "--job", "accounts_v3:job", "--sample", 2, "-o", file)

    assert "samples" not in json.loads(file.read_text(encoding="utf-8"))
    assert run("migrate", account, tmp_path / "new", "--plan", file, "--dry-run").status == 0


def test_as_many_entries_as_asked_for_are_spread_over_the_key_groups(run, account):
    samples = run("plan", account, "--job", "accounts_v3:job", "--sample", 3, "--json").data["samples"]

    found = {one["state"]: (len(one["entries"]), one["is_all"]) for one in samples["states"]}
    assert found == dict.fromkeys(["account", "account-by-name", "accounts", "pending"], (3, False))
    assert len({json.dumps(one["key"]) for one in entries_of(samples, "account-by-name")}) == 3
    assert samples["unchanged"] == 3


def test_redacted_entries_show_what_is_done_and_no_value(run, account):
    ran = run("plan", account, "--job", "accounts_v3:job", "--sample", 5, "--redact")
    samples = run("plan", account, "--job", "accounts_v3:job", "--sample", 5, "--redact", "--json").data["samples"]

    assert "acc3" not in ran.stdout
    assert "old  <redacted>" in ran.stdout
    assert "acc" not in json.dumps([one["entries"] for one in samples["states"]])
    assert entries_of(samples)[0]["changes"][0]["did"] == "defaulted"


def test_a_key_that_no_operator_can_have_is_refused(run, account):
    ran = run("plan", account, "--job", "accounts_v3:job", "--key", "nobody")

    assert ran.status == 2
    assert "no operator can have the key nobody" in ran.stderr


SPARK = ["--like", f"spark:{place('aggregation')}", "--keep-field", "0:value.sum", "--fill", "0:value.max=null",
         "--fill", "0:value.count=0", "--fill", "0:value.sum#2=0.0", "--fill", "0:value.count#2=0"]  # fmt: skip


def test_entries_of_a_spark_query_are_what_its_copy_has(run, tmp_path):
    source, copy = f"spark:{place('checksums')}", f"spark:{tmp_path / 'copy'}"

    samples = run("plan", source, *SPARK, "--sample", 1000, "--json").data["samples"]
    assert run("migrate", source, copy, *SPARK).status == 0

    (state,) = samples["states"]
    assert state["is_all"]
    for side, of in ((source, ("key", "old")), (copy, ("new_key", "new"))):
        lines = map(json.loads, run("export", side).stdout.splitlines())
        stored = sorted(json.dumps([line["key"], line["value"]]) for line in lines)
        assert stored == sorted(json.dumps([entry[name] for name in of]) for entry in state["entries"])
    assert {(one["path"], one["did"], one["rule"]) for one in state["entries"][0]["changes"]} == {
        (f"$.value.{name}", "defaulted", "SPK-3") for name in ("max", "count", "sum#2", "count#2")
    }


def test_entries_of_keys_that_may_become_equal_are_told_to_be_merged_afterwards(run, monkeypatch):
    monkeypatch.setattr(StoreCopy, "may_collide", True)
    ran = run("plan", f"spark:{place('checksums')}", *SPARK, "--sample", 1)

    assert "shown before those of keys that become equal are merged" in ran.stdout


def test_entries_of_a_key_of_a_spark_query(run):
    key = '{"k": "x"}'
    ran = run("plan", f"spark:{place('checksums')}", *SPARK, "--key", key, "--json")

    (state,) = ran.data["samples"]["states"]
    assert state["entries"]
    assert {entry["key"]["k"] for entry in state["entries"]} == {"x"}
    assert ran.data["samples"]["keys"] == [key]


def test_a_check_shows_what_the_plan_shows(run, account):
    ran = run("check", account, "--job", "accounts_v3:job", "--key", 11)
    told = [run(verb, account, "--job", "accounts_v3:job", "--key", 11, "--json").data for verb in ("check", "plan")]

    assert ran.status == 4
    assert "defaulted  $.email     null  [REC-2]" in ran.stdout
    assert told[0]["samples"] == told[1]["samples"]
    assert run("check", account, "--job", "accounts_v3:job", "--json").data["samples"] is None


def test_a_check_that_refuses_shows_no_entries(run, account, job_folder):
    (job_folder / "refused.py").write_text(REFUSED, encoding="utf-8")

    ran = run("check", account, "--job", "refused:job", "--sample", 3)

    assert ran.status == 1
    assert "no entries are shown" in ran.stderr
    assert "before and after" not in ran.stdout
    assert run("check", "--queries", "--sample", 3).status == 2


REFUSED = """
from stateshift import Job, Operator, ValueStateDescriptor

job = Job([Operator("account-state", key=int, states=[ValueStateDescriptor("account", bool)])])
"""


def test_a_check_shows_states_that_are_new(run, account, job_folder):
    (job_folder / "fresh.py").write_text(FRESH, encoding="utf-8")

    samples = run("check", account, "--job", "fresh:job", "--sample", 1, "--json").data["samples"]

    (fresh,) = (one for one in samples["states"] if one["state"] == "fresh")
    assert (fresh["action"], fresh["new_state"], fresh["entries"]) == ("new", "fresh", [])


FRESH = """
import attrs
from accounts_v2 import job as former
from stateshift import Job, ValueStateDescriptor

first, *others = former.operators
more = attrs.evolve(first, states=[*first.states, ValueStateDescriptor("fresh", int)])
job = Job([more, *others])
"""


def test_a_check_of_a_spark_query_shows_entries(run):
    ran = run("check", f"spark:{place('checksums')}", "--like", f"spark:{place('checksums')}", "--sample", 3)

    assert ran.status == 0


def test_a_savepoint_and_its_migration_are_compared_through_the_conversion(run, account, tmp_path):
    new, plan = tmp_path / "new", tmp_path / "plan.json"
    run("plan", account, "--job", "accounts_v3:job", "-o", plan)
    assert run("migrate", account, new, "--plan", plan).status == 0

    plainly = run("diff", account, new)
    ways = [run("diff", account, new, *way) for way in (["--job", "accounts_v3:job"], ["--plan", plan])]
    other = run("diff", account, new, "--job", "accounts_v2:job", "--json").data

    assert plainly.status == 1
    assert "with --job or --plan, A is converted before it is compared" in plainly.stderr
    assert [ran.status for ran in ways] == [0, 0]
    assert "equal in 7 states, with 60 entries" in ways[0].stdout
    assert (other["equal"], other["converted_by"]) == (False, "job accounts_v2:job")


def test_what_differs_from_the_conversion_is_told_by_key(run, account, tmp_path):
    """Another job has other defaults: the entries of the key differ, and those of others are not read."""
    run("migrate", account, tmp_path / "new", "--job", "accounts_v3:job")
    module = Path("accounts_v3.py")
    module.with_name("other.py").write_text(
        module.read_text(encoding="utf-8").replace("score: float = 0.0", "score: float = 12.5"), encoding="utf-8"
    )

    data = run("diff", account, tmp_path / "new", "--job", "other:job", "--key", 11, "--json").data

    found = {one["state"]: (one["entries"], one["changed"]) for one in data["values"]}
    assert found["account"] == (1, 1)
    assert found["account-by-name"] == (2, 2)
    (account_values,) = (one for one in data["values"] if one["state"] == "account")
    assert "score=12.5" in account_values["first"][0]["a"]
    listed = run("diff", account, tmp_path / "new", "--job", "other:job", "--sample", 7, "--json").data
    assert {len(one["first"]) for one in listed["values"] if one["changed"] >= 7} == {7}
