"""A loss does not pass the gate through a merge: a job is judged against all heads that it follows."""

from __future__ import annotations

import subprocess

import pytest

START, REFUSED, USAGE, DRIFT = 0, 1, 2, 5
JOB = """
from stateshift import Job, Operator, ValueStateDescriptor

def of(*names):
    return Job([Operator("orders", key=int, states=[ValueStateDescriptor(name, int) for name in names])])

first = of("count")
left = of("count", "left")
right = of("count", "right")
both = of("count", "left", "right")
more = of("count", "left", "right", "more")
"""
LEVELS = ("BACKWARD", "FULL_TRANSITIVE")


@pytest.fixture
def git(tmp_path):
    def call(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "shop.py").write_text(JOB, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.stateshift]\n", encoding="utf-8")
    call("init", "-q")
    return call


@pytest.fixture
def snapshot(run, git, tmp_path, monkeypatch):
    """`snapshot("left")`: record a job in the project, and commit all."""
    monkeypatch.chdir(tmp_path)

    def record(name, *options):
        ran = run("snapshot", "--job", f"shop:{name}", "-m", name, *options)
        assert START == ran.status, ran.stderr
        git("add", ".")
        git("commit", "-q", "-m", name)
        return ran

    return record


@pytest.fixture
def two_heads(snapshot, git, tmp_path):
    """Two branches have each recorded a state of their own; both are merged into `main`, without a revision yet."""
    snapshot("first")
    for name in ("left", "right"):
        git("checkout", "-q", "-b", name, "main")
        snapshot(name)
    git("checkout", "-q", "main")
    git("merge", "-q", "left")
    git("merge", "-q", "-m", "merged", "right")
    git("checkout", "-q", "-b", "mending")
    assert 3 == len(list((tmp_path / "state_history").glob("*.json")))


def check(run, name, against, *options):
    return run("check", "--job", f"shop:{name}", "--against", against, *options)


@pytest.mark.usefixtures("two_heads")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("kept", "lost"), [("left", "right"), ("right", "left")])
def test_a_merge_that_loses_the_state_of_one_branch_is_refused(run, snapshot, level, kept, lost):
    told = snapshot(kept, "--merge")

    assert f"part of the state of 0002_{lost} would be lost" in told.stderr
    for against in ("main", "state_history"):
        ran = check(run, kept, against, "--level", level)
        assert REFUSED == ran.status, ran.stdout
        assert f"drops:orders/{lost}" in ran.stdout or f"orders/{lost}: refuse" in ran.stdout


@pytest.mark.usefixtures("two_heads")
@pytest.mark.parametrize("level", LEVELS)
def test_the_change_that_mends_two_heads_passes_against_both(run, snapshot, level):
    """They are on the branch that it is merged into, and the change has recorded their merge."""
    assert "would be lost" not in snapshot("both", "--merge").stderr

    for against in ("main", "state_history"):
        assert START == check(run, "both", against, "--level", level).status


@pytest.mark.usefixtures("two_heads")
def test_two_heads_here_are_still_to_be_merged(run):
    assert USAGE == check(run, "both", "state_history").status
    against_main = check(run, "both", "main")
    assert (DRIFT, True) == (against_main.status, "--merge; then commit" in against_main.stderr)


@pytest.mark.usefixtures("two_heads")
def test_a_merge_that_lost_a_state_is_mended_by_the_next_revision(run, snapshot, git):
    snapshot("left", "--merge")
    snapshot("both")
    snapshot("more")

    for against in ("main", "state_history"):
        assert START == check(run, "more", against).status
    git("branch", "-f", "main", "mending")
    assert START == check(run, "more", "main").status


@pytest.mark.usefixtures("two_heads")
def test_a_loss_that_is_meant_is_allowed_by_name(run, snapshot):
    snapshot("left", "--merge")

    names = [
        word for line in check(run, "left", "main").stdout.splitlines() for word in line.split() if "drops:" in word
    ]
    assert names
    assert START == check(run, "left", "main", "--allow", names[0]).status


@pytest.mark.usefixtures("two_heads")
def test_a_stamp_on_a_merge_stands_for_what_runs_and_not_for_what_it_merged(run, snapshot):
    snapshot("left", "--merge")
    run("stamp", "production", "0003")

    assert START == check(run, "left", "production").status
