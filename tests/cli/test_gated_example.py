"""The project in examples/gate: red on the bad change, green with the alias, and old values are still read."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest


@pytest.fixture
def project(root, tmp_path):
    """A copy of the project, in which nothing has run yet."""
    left_out = shutil.ignore_patterns("__pycache__", ".pytest_cache", ".hypothesis")
    return shutil.copytree(root / "examples" / "gate", tmp_path / "gate", ignore=left_out)


def stateshift(folder, *arguments):
    command = [sys.executable, "-m", "stateshift", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_gate_is_red_on_the_bad_change_with_path_and_way_out(project):
    done = stateshift(project / "refused", "check", "--job", "orders:job", "--against", "0002")

    assert 1 == done.returncode
    assert done.stdout.startswith("refuse: ")
    assert "    $.remark  (none) -> string" in done.stdout
    assert "Field(aliases=['note']) on remark" in done.stdout


def test_the_gate_is_green_after_the_alias_is_added(project):
    done = stateshift(project, "check", "--job", "orders:job", "--against", "state_history")

    assert (0, "") == (done.returncode, done.stderr)
    assert "against 3 revisions, the last 0003_note_is_a_remark" in done.stdout


def test_each_revision_follows_the_one_before(project):
    done = stateshift(project, "history")

    lines = [line.split() for line in done.stdout.splitlines()[1:]]
    assert ["0001_the_first_version", "0002_a_currency_and_many_items", "0003_note_is_a_remark"] == [
        x[0] for x in lines
    ]
    assert "*" == lines[-1][1]


def test_golden_files_of_revision_1_are_still_read_at_revision_3(project):
    before = sorted(file.relative_to(project) for file in (project / "upgrades" / "golden").rglob("*.json"))
    command = [sys.executable, "-m", "pytest", "-q", "upgrades"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)

    assert 0 == done.returncode, done.stdout + done.stderr
    assert "3 passed, 2 skipped" in done.stdout
    assert before == sorted(file.relative_to(project) for file in (project / "upgrades" / "golden").rglob("*.json"))
