"""`--sample` and `--key`: entries before and after, as text and as data."""

from __future__ import annotations

import json

import pytest
from spark_checkpoints import place


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


def test_entries_of_a_key_of_a_spark_query(run):
    key = '{"k": "x"}'
    ran = run("plan", f"spark:{place('checksums')}", *SPARK, "--key", key, "--json")

    (state,) = ran.data["samples"]["states"]
    assert state["entries"]
    assert {entry["key"]["k"] for entry in state["entries"]} == {"x"}
    assert ran.data["samples"]["keys"] == [key]
