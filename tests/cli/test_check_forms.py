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
    if form == "junit":
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


@pytest.mark.parametrize(("version", "status", "options"), CHECKS.values(), ids=CHECKS)
def test_a_form_has_failures_exactly_if_the_status_says_so_and_all_forms_have_the_same(check, version, status, options):
    ran = {form: check(version, *options, "--format", form) for form in ("github", "junit", "sarif")}
    github, junit, sarif = (failing(form, one.stdout) for form, one in ran.items())

    assert {status} == {one.status for one in ran.values()}
    assert (bool(status), github) == (bool(github), junit)
    assert github == sarif


def test_what_is_told_and_fails_nothing_is_a_note(check):
    ran = check(3, "--allow-migration", "--format", "github")

    assert "::notice file=accounts_v3.py,title=account-state/account%3A it must be migrated before" in ran.stdout
    assert "next: stateshift migrate" in ran.stderr


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


@pytest.mark.parametrize("form", ["github", "junit", "sarif"])
def test_two_compiled_plans_are_reported_so_too(run, root, form):
    folder = root / "tests/fixtures/flink-sql-2.3/join"
    ran = run("check", folder / "plan.json", "--plan", folder / "plan-2.json", "--format", form)

    assert (MIGRATE, True) == (ran.status, "BOOLEAN" in ran.stdout)
