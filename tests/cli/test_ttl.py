"""`stateshift ttl`: shows what a compiled plan says, and changes these bytes alone."""

import difflib
import shutil

import pytest


@pytest.fixture
def plan(root, tmp_path):
    place = tmp_path / "plan.json"
    shutil.copy(root / "tests/fixtures/flink-sql-2.3/join/plan.json", place)
    return place


def test_each_state_is_shown_with_its_time(run, plan):
    ran = run("ttl", plan)

    assert 0 == ran.status
    assert ["operator  state       time to live", "7_join    leftState   never", "7_join    rightState  never"] == [
        line.strip() for line in ran.stdout.splitlines()[2:]
    ]


def test_as_data(run, plan):
    data = run("ttl", plan, "--json").data

    assert (["7_join"], [], []) == ([one["operator"] for one in data["operators"]], data["set"], data["notes"])
    assert [0, 0] == [one["ttl_ms"] for one in data["operators"][0]["states"]]


def test_each_side_gets_a_time_of_its_own(run, plan):
    before = plan.read_text()
    ran = run("ttl", "set", plan, "7:0=3 s", "7:rightState=9000", "-o", plan.with_name("new.json"))

    new = plan.with_name("new.json").read_text()
    added = [line[1:].strip() for line in difflib.ndiff(before.splitlines(), new.splitlines()) if line[:1] == "+"]
    assert (0, before) == (ran.status, plan.read_text())
    assert ['"ttl" : "3 s",', '"ttl" : "9 s",'] == added
    assert "  7_join rightState: never -> 9 s: a number without a unit is milliseconds\n" in ran.stdout
    assert "what is stored has no time stamp" in ran.stdout
    assert "what is stored keeps its time until the query writes it again" not in ran.stdout


def test_in_place(run, plan):
    ran = run("ttl", "set", plan, "7:0=1d", "--in-place", "--json")

    assert {"operator": "7_join", "state": "leftState", "was": "0 ms", "ttl": "1 d", "ttl_ms": 86_400_000} == ran.data[
        "set"
    ][0]
    assert '"ttl" : "1 d"' in plan.read_text()
    assert [plan] == list(plan.parent.iterdir())


def test_a_file_that_is_there_stays(run, plan):
    target = plan.with_name("there.json")
    target.write_text("mine")
    ran = run("ttl", "set", plan, "7:0=1d", "-o", target)

    assert (2, "mine") == (ran.status, target.read_text())
    assert "exists" in ran.stderr


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["set", "PLAN"],
        ["set", "PLAN", "7:0=1d"],
        ["set", "PLAN", "7:0=1d", "-o", "x.json", "--in-place"],
        ["PLAN", "7:0=1d"],
        ["PLAN", "--in-place"],
        ["PLAN", "-o", "x.json"],
    ],
)
def test_wrong_usage(run, plan, words):
    before = plan.read_text()

    assert 2 == run("ttl", *(plan if word == "PLAN" else word for word in words)).status
    assert (before, [plan]) == (plan.read_text(), list(plan.parent.iterdir()))


def test_what_is_not_clear_is_asked_and_nothing_is_written(run, plan):
    before = plan.read_text()
    ran = run("ttl", "set", plan, "7=1d", "--in-place")

    assert (2, before) == (ran.status, plan.read_text())
    assert "name one of 7:0 (leftState), 7:1 (rightState)" in ran.stderr


def test_a_damaged_plan_is_input_that_cannot_be_read(run, plan):
    plan.write_text(plan.read_text()[:3000])
    ran = run("ttl", plan)

    assert 3 == ran.status
    assert "the file is no compiled plan of Flink: line 9" in ran.stderr
