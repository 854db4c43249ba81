"""`stateshift check --queries` and `stateshift snapshot --queries`: statuses, output, and what to run next."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

QUERIES = """
from pyspark.sql import functions as F

def rows(spark):
    return spark.readStream.schema("k string, n int, w int").json(".")

def clicks(spark):
    return rows(spark).groupBy("k").agg({clicks}).writeStream.outputMode("update")

def seen(spark):
    return {seen}
"""
CLICKS, SEEN = 'F.sum("n")', 'rows(spark).dropDuplicates(["k"])'


@pytest.fixture
def write(job_folder, monkeypatch, stateshift_spark):
    """`write(clicks=…, seen=…)`: the queries of the repository in the current folder."""
    assert stateshift_spark
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # two texts of one length within a second are one to Python
    listed = 'clicks = "queries:clicks"\nseen = "queries:seen"\n'
    (job_folder / "pyproject.toml").write_text(f"[tool.stateshift.queries]\n{listed}")

    def queries(clicks=CLICKS, seen=SEEN):
        (job_folder / "queries.py").write_text(QUERIES.format(clicks=clicks, seen=seen))
        sys.modules.pop("queries", None)

    queries()
    return queries


@pytest.fixture
def recorded(write, run):
    """The same, with both queries described."""
    run("snapshot", "--queries")
    return write


def git(*arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


@pytest.mark.slow
def test_a_query_is_described_once_and_checked_against_that(run, write):
    missing = run("check", "--queries")
    first = run("snapshot", "--queries")
    second = run("snapshot", "--queries")
    unchanged = run("check", "--queries")
    write(clicks='F.sum("w")')
    changed = run("check", "--queries")
    accepted = run("check", "--queries", "--accept", "SPK-10")
    strict = run("check", "--queries", "--strict")
    forms = [run("check", "--queries", "--format", form) for form in ("github", "sarif", "markdown")]
    write(seen="rows(spark).drop('w').dropDuplicates(['k'])")
    alike = run("check", "--queries")

    assert (missing.status, unchanged.status, changed.status, accepted.status, strict.status) == (2, 0, 4, 5, 1)
    assert {4} == {form.status for form in forms}
    assert "::error file=queries.py,title=clicks%3A aggregation 0/default%3A" in forms[0].stdout
    assert forms[2].stdout.startswith("### migrate: the state of 1 of 2 queries in production must be rewritten first")
    assert "#### `clicks: aggregation 0/default`" in forms[2].stdout
    assert "SPK-10" in [one["ruleId"] for one in forms[1].data["runs"][0]["results"] if one["level"] == "error"]
    assert "clicks.json needs a migration, which a strict check does not accept" in strict.stdout
    assert "stateshift snapshot --queries" in missing.stderr
    files = ["state_history/queries/clicks.json", "state_history/queries/seen.json"]
    assert first.stdout.splitlines() == [f"written: {file}" for file in files]
    assert second.stdout.splitlines() == [f"unchanged: {file}" for file in files]
    assert unchanged.stdout.startswith("start: every query can go on")
    assert changed.stdout.startswith("migrate: the state of 1 of 2 queries in production must be rewritten")
    assert re.search(r"migrate +\$\.value\.sum +sum\(n\) -> sum\(w\)", changed.stdout)
    assert "drift: query clicks differs from state_history/queries/clicks.json" in accepted.stderr
    assert alike.status == 0


@pytest.mark.slow
def test_a_change_is_compared_with_the_branch_that_it_is_merged_into(run, recorded):
    git("init", "-b", "main")
    git("add", ".")
    git("commit", "-m", "one")
    recorded(clicks='F.sum("n"), F.max("n")')

    described = run("snapshot", "--queries")
    alone = run("check", "--queries")
    against = run("check", "--queries", "--against", "main")
    allowed = run("check", "--queries", "--against", "main", "--allow-migration")

    assert "clicks: migrate: operator 0 (aggregation): $.value.max" in described.stderr
    assert (alone.status, against.status, allowed.status) == (0, 4, 0)
    assert "from state_history/queries/clicks.json at main to query queries:clicks" in against.stdout
    assert run("check", "--queries", "--against", "state_history").status == 0


@pytest.mark.slow
def test_json_has_the_documented_keys(run, write, root):
    page = (root / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")

    written = run("snapshot", "--queries", "--json").data
    write(clicks='F.max("n")')
    refused = run("check", "--queries", "--json").data
    data = run("check", "--queries", "--json", "--allow", "drops:$.value.sum").data

    assert (refused["decision"], refused["exit_status"]) == ("refuse", 1)
    assert [one["gate"]["passes"] for one in refused["queries"]] == [False, True]
    assert (data["decision"], data["exit_status"]) == ("migrate", 4)
    assert [(one["name"], one["decision"]) for one in data["queries"]] == [("clicks", "migrate"), ("seen", "start")]
    for command, one in (("check", data), ("snapshot", written)):
        told = set(re.findall(r"`([^`\s]+)`", page.split(f"## stateshift {command}")[1].split("\n## ")[0]))
        assert {*one, *(key for query in one["queries"] for key in query)} - told == set()


@pytest.mark.usefixtures("write")
@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["check", "--queries", "--job", "a:b"], "--job does not apply with --queries"),
        (["check", "--queries", "--require-recording"], "--require-recording does not apply with --queries"),
        (["check", "sp", "--queries"], "SAVEPOINT does not apply with --queries"),
        (["snapshot", "--queries", "-m", "text"], "-m does not apply with --queries"),
    ],
)
def test_options_that_do_not_apply_are_refused(run, command, told):
    ran = run(*command)

    assert ran.status == 2
    assert told in ran.stderr


@pytest.mark.usefixtures("recorded")
def test_what_is_to_be_compared_with_must_be_there(run, job_folder):
    (job_folder / "empty").mkdir()

    assert "neither a folder nor a git reference" in run("check", "--queries", "--against", "nothing").stderr
    assert "has no descriptions" in run("check", "--queries", "--against", "empty").stderr


def test_a_query_that_cannot_be_described_leaves_nothing_written(run, write, job_folder):
    write(seen="1 // 0")

    ran = run("snapshot", "--queries")

    assert ran.status == 2
    assert "queries:seen was called to build the query, and failed: ZeroDivisionError" in ran.stderr
    assert not (job_folder / "state_history").exists()
