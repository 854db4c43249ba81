"""`--sample` and `--key`: entries before and after, as text and as data."""

from __future__ import annotations

import json

import pytest


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
