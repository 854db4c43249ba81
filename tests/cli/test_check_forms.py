"""`stateshift check --format`: what a check of stored state says, in the forms of CI; see `test_gate` for histories."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree as ET

import pytest

START, REFUSE, USAGE, MIGRATE = 0, 1, 2, 4
LEFT = ("--rename-state=version-free=x", "--allow-empty=version-free", "--allow-migration")
CHECKS = {
    "it starts": (1, START, ()),
    "it migrates": (3, MIGRATE, ()),
    "it may migrate": (3, START, ("--allow-migration",)),
    "a flag is forbidden": (3, REFUSE, ("--forbid", "drops")),
    "a state has another name": (1, MIGRATE, ("--rename-state", "version-free=other")),
    "it is left out": (1, START, (*LEFT, "--allow-non-restored-state")),
    "it is left out by mistake": (1, MIGRATE, LEFT),
}


@pytest.fixture
def check(run, savepoint_of, example_jobs):
    """`check(version, *options)` of the accounts that the first version wrote."""
    assert example_jobs
    return lambda version, *options: run(
        "check", savepoint_of("rocksdb-account-v1"), "--job", f"accounts_v{version}:job", *options
    )


def failing(form, text):
    """The findings that a form calls failures: (place, path, rule); of a failure without one, the place alone."""
    if form == "sarif":
        (log,) = json.loads(text)["runs"]
        refused = [one for one in log["results"] if one["level"] == "error"]
        places = [(one["locations"][0]["logicalLocations"][0]["fullyQualifiedName"], one) for one in refused]
        return {(place, one["ruleId"]) if "$" in place else place for place, one in places}
    if form == "markdown":
        blocks = re.findall(r"(?ms)^#### `(\S+)`\n(.*?)(?=^####|\Z)", text)
        said = {place: "\n".join(rows_of(told)) for place, told in blocks if "**fails**: " in told}
    elif form == "junit":
        cases = [one for one in ET.fromstring(text).iter("testcase") if one.find("failure") is not None]  # noqa: S314
        said = {f"{one.get('classname')}/{one.get('name')}": one.find("failure").text for one in cases}
    else:
        lines = re.findall(r"::error file=accounts_v\d.py,title=(\S+)%3A .*?::(.*)", text)
        said = {place: told.replace("%0A", "\n") for place, told in lines}
    found = set()
    for place, told in said.items():
        findings = re.findall(r"(?m)^(?:\w+: )?(\$\S*) .*?\[(\S+?)\]", told)
        found |= {(f"{place}/{path}", rule) for path, rule in findings} or {place}
    return found


def rows_of(block):
    """What a Markdown block says of each finding that fails, as the other forms word it."""
    for entry in re.findall(r"(?ms)^\*\*fails\*\*: .*?(?=^note: |\Z)", block):
        for path, why in re.findall(r"(?m)^\| `(\S+)` \| .*? \| (.*?) \|", entry):
            yield f"{path} {why}".replace("\\", "")


@pytest.mark.parametrize(("version", "status", "options"), CHECKS.values(), ids=CHECKS)
def test_a_form_has_failures_exactly_if_the_status_says_so_and_all_forms_have_the_same(check, version, status, options):
    forms = "github", "junit", "markdown", "sarif"
    ran = {form: check(version, *options, "--all", "--format", form) for form in forms}
    github, junit, markdown, sarif = (failing(form, one.stdout) for form, one in ran.items())

    assert {status} == {one.status for one in ran.values()}
    assert (bool(status), github) == (bool(github), junit)
    assert (github, github) == (markdown, sarif)


def test_what_is_told_and_fails_nothing_is_a_note(check):
    ran = check(3, "--allow-migration", "--format", "github")

    assert "::notice file=accounts_v3.py,title=account-state/account%3A it must be migrated before" in ran.stdout
    assert "next: stateshift migrate" in ran.stderr


def test_a_comment_of_a_pull_request_has_the_verdict_first_and_the_command_last(check):
    lines = check(3, "--format", "markdown").stdout.splitlines()

    assert re.match(r"### migrate: \d+ of \d+ states must be rewritten before the job can start", lines[0])
    assert "| where | what changed | why | ways out |" in lines
    assert any(line.startswith("the same at 2 other places: account-state/accounts (<span>") for line in lines)
    assert any(line.startswith("| `$.visits` | `int -> long` | every int fits a long") for line in lines)
    assert ["```text", "```"] == [lines[-3], lines[-1]]
    assert re.match(r"next: stateshift migrate \S+ NEW_SAVEPOINT --job accounts_v3:job$", lines[-2])


def test_a_workflow_gets_the_summary_beside_the_annotations(check, tmp_path, monkeypatch):
    file = tmp_path / "summary.md"
    file.write_text("said before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    annotations = check(3, "--format", "github")
    written = file.read_text()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    nowhere = check(3, "--format", "github")

    assert "said before\n" + check(3, "--format", "markdown").stdout == written
    assert (annotations.status, annotations.stdout) == (nowhere.status, nowhere.stdout)
    assert "which cannot be written: Is a directory" in nowhere.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--format", "sarif", "--json"), "--json and --format sarif are two forms of one report"),
        (("--format", "sarif", "--summary"), "--summary is for the text"),
        (("--level", "FULL"), "--level applies only with --against or --queries"),
    ],
)
def test_one_form_is_asked_and_the_gates_options_need_a_gate(check, options, told):
    ran = check(3, *options)

    assert (USAGE, True) == (ran.status, told in ran.stdout + ran.stderr)


@pytest.mark.parametrize("form", ["github", "junit", "markdown", "sarif"])
def test_two_compiled_plans_are_reported_so_too(run, root, form):
    folder = root / "tests/fixtures/flink-sql-2.3/join"
    ran = run("check", folder / "plan.json", "--plan", folder / "plan-2.json", "--format", form)

    assert (MIGRATE, True) == (ran.status, "BOOLEAN" in ran.stdout)
