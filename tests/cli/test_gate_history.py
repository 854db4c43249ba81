"""The history that the gate checks a job against must exist: a change cannot pass by deleting it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile

import pytest

START, USAGE, DRIFT = 0, 2, 5
FIRST = "stateshift snapshot --job MODULE:ATTRIBUTE -m MESSAGE"


@pytest.fixture
def git(example_jobs):
    def call(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *identity, *arguments], cwd=example_jobs, check=True, capture_output=True)

    call("init", "-q")
    return call


@pytest.fixture
def committed(run, git, example_jobs):
    """A history of one revision on the branch `main`; what is checked out is `pr`."""
    run("snapshot", "--job", "accounts_v3:job", "-m", "Version 3")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    git("checkout", "-q", "-b", "pr")
    return example_jobs / "state_history"


@pytest.mark.usefixtures("git")
def test_described_queries_of_spark_are_listed_and_shown(run, root, example_jobs):
    stored = root / "tests" / "fixtures" / "stored-data" / "0.1" / "queries" / "listed.tar.xz"
    with tarfile.open(stored) as packed:
        packed.extractall(example_jobs, filter="data")
    history = example_jobs / "listed" / "state_history"

    listed = run("history", "--history", history)
    shown = run("show", "windows", "--history", history)

    assert listed.stdout.startswith(f"query distinct: {history / 'queries' / 'distinct.json'}\n")
    assert "    default value.sum = sum(cast(n as double))" in shown.stdout.splitlines()
    assert ["distinct", "joined", "sums", "windows", "with_names"] == sorted(
        run("history", "--history", history, "--json").data["queries"]
    )
    assert ["aggregation 0"] == [
        one["uid"] for one in run("show", "windows", "--history", history, "--json").data["operators"]
    ]
    code = (
        "import sys; from stateshift.cli import main\n"
        f"try: main(['show', 'windows', '--history', {str(history)!r}])\n"
        "except SystemExit as ended: assert not ended.code\n"
        "assert not {'pyspark', 'pyarrow', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def settings(folder, text):
    (folder / "pyproject.toml").write_text(f"[tool.stateshift]\n{text}\n", encoding="utf-8")


def gate(run, against, *options, version=3):
    return run("check", "--job", f"accounts_v{version}:job", "--against", against, *options)


def test_a_change_that_deletes_the_history_is_refused(run, committed):
    shutil.rmtree(committed)
    ran = gate(run, "main", "--allow-drift", version=4)

    assert USAGE == ran.status
    assert "the history at main has 0001_version_3, but state_history does not" in ran.stderr
    assert "revisions are added, never removed" in ran.stderr


def test_so_is_one_that_takes_a_single_revision_away(run, committed, git):
    run("snapshot", "--job", "accounts_v2:job", "-m", "Version 2")
    git("add", ".")
    git("commit", "-q", "-m", "two")
    (committed / "0002_version_2.json").unlink()
    ran = gate(run, "pr")

    assert USAGE == ran.status
    assert "has 0002_version_2, but state_history does not" in ran.stderr


@pytest.mark.parametrize("against", ["main", "state_histroy", "1", "accounts_v3:job"])
def test_a_history_that_is_misspelt_in_the_project_is_a_failure(run, committed, against):
    """Whatever the job is checked against: without a single head it is unknown whether the job is recorded."""
    settings(committed.parent, 'history = "state_histroy"')
    ran = gate(run, against)

    assert USAGE == ran.status
    assert "state_histroy" in ran.stderr
    assert FIRST in ran.stderr


def test_one_that_the_project_calls_otherwise_now_is_that_of_the_branch(run, committed, git):
    """Moved in one change: the branch says where it was, and all of its revisions are there."""
    git("mv", "state_history", "states")
    settings(committed.parent, 'history = "states"')

    assert (START, ["0001_version_3"]) == ((ran := gate(run, "main", "--json")).status, ran.data["revisions"])


def test_a_change_that_starts_a_new_history_in_another_folder_is_not(run, committed):
    shutil.rmtree(committed)
    settings(committed.parent, 'history = "states"')
    run("snapshot", "--job", "accounts_v4:job", "-m", "As if it were the first")
    ran = gate(run, "main", version=4)

    assert USAGE == ran.status
    assert "the history at main has 0001_version_3" in ran.stderr


@pytest.mark.parametrize("there", [False, True], ids=["is not a folder", "an empty folder"])
def test_before_a_first_revision_there_is_nothing_to_hold_a_job_against(run, example_jobs, there):
    """CI-1 is about states; a folder without a revision may as well be mistyped."""
    if there:
        (example_jobs / "state_history").mkdir()
    ran = gate(run, "state_history")

    assert (USAGE, "") == (ran.status, ran.stdout)
    assert FIRST in ran.stderr


def test_the_first_revision_ever_is_recorded_by_name_and_accepted(run, git):
    git("add", ".")
    git("commit", "-q", "-m", "no history yet")
    before = gate(run, "main")
    run("snapshot", "--job", "accounts_v3:job", "-m", "First")
    after = gate(run, "main")

    assert (USAGE, True) == (before.status, "neither main nor state_history has a revision" in before.stderr)
    assert (START, True) == (after.status, "against no earlier revision" in after.stdout)


class TestSubfolder:
    """The project is searched upwards, and so is a history that no project names."""

    @pytest.fixture
    def below(self, committed, monkeypatch):
        folder = committed.parent / "sub" / "folder"
        folder.mkdir(parents=True)
        monkeypatch.chdir(folder)
        return folder

    def test_the_history_of_the_project_above_is_asked(self, run, committed, below):
        settings(committed.parent, 'level = "FULL"')

        assert (START, "FULL") == ((ran := gate(run, "main", "--json")).status, ran.data["states"][0]["level"])

    def test_settings_of_other_tools_nearer_by_are_passed_over(self, run, committed, below):
        (below.parent / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
        settings(committed.parent, 'level = "FULL"')

        assert "FULL" == gate(run, "main", "--json").data["states"][0]["level"]

    def test_without_a_project_the_nearest_history_above_is_asked(self, run, below):
        assert ["0001_version_3"] == gate(run, "main", "--json").data["revisions"]
        assert ["0001_version_3"] == [one["revision"] for one in run("history", "--json").data["revisions"]]


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("against", ["state_history/0001_version_3.json", "types.json"])
def test_what_snapshot_wrote_is_read_by_diff_and_by_the_gate(run, against):
    """A revision's file as well as one of -o."""
    run("snapshot", "--job", "accounts_v3:job", "-o", "types.json")

    assert START == run("diff", against, "accounts_v3:job").status
    assert START == gate(run, against).status
    assert 1 == run("diff", "accounts_v4:job", against).status
