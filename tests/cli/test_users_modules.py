"""What a user's module does while it is loaded changes neither the answer of a command nor its places."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from stateshift import Job, Operator, SavepointWriter, ValueStateDescriptor

MODULE = """
import os
from stateshift import Job, Operator, ValueStateDescriptor

print("loaded")
os.chdir("elsewhere")

def job():
    print("made")
    return Job([Operator("o", key=int, states=[ValueStateDescriptor("v", int)])])

whole = Job([Operator("o", key=int, states=[ValueStateDescriptor("v", int)])])
"""
OTHER = Job([Operator("o", key=int, states=[ValueStateDescriptor("v", str)])])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A savepoint, and in a folder to which the module goes, another one of the same name."""
    for place, job, value in (("sp", whole(), 1), ("elsewhere/sp", OTHER, "one")):
        with SavepointWriter(tmp_path / place, job) as writer:
            writer.put("o", "v", 1, value)
    (tmp_path / "telling_shop.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("telling_shop", None)


def whole():
    return Job([Operator("o", key=int, states=[ValueStateDescriptor("v", int)])])


@pytest.mark.parametrize("job", ["telling_shop:job", "telling_shop:whole", "telling_shop.py:job"])
@pytest.mark.parametrize(
    "command",
    [
        ["check", "sp", "--json", "--job"],
        ["plan", "sp", "--json", "--job"],
        ["diff", "sp", "--json"],
        ["migrate", "sp", "target", "--json", "--job"],
    ],
    ids=lambda command: command[0],
)
def test_json_is_all_that_is_on_stdout_and_the_source_is_the_one_that_was_named(run, folder, command, job):
    done = run(*command, job)

    data = json.loads(done.stdout)
    assert 0 == done.status, done.stderr
    assert data.get("decision", "start") == "start"
    assert "loaded\n" in done.stderr
    assert ("made\n" in done.stderr) == job.endswith(":job")
    if command[0] == "migrate":
        assert ["target"] == [one.parent.name for one in folder.rglob("_metadata") if one.parent.name == "target"]
        assert (folder / "target" / "_metadata").exists()


PRINTING = """
from stateshift import Job, Operator, ValueStateDescriptor

def longer(value):
    print("converted")
    return str(value)

def other(key):
    print("a new key")
    return str(key)

job = Job([Operator("o", key=int, states=[ValueStateDescriptor("v", str, converter=longer)])])
rekeyed = Job([Operator("o", key=str, key_converter=other, states=[ValueStateDescriptor("v", int)])])
"""


@pytest.mark.parametrize("name", ["job", "rekeyed"])
@pytest.mark.parametrize("command", [["migrate", "sp", "target"], ["migrate", "sp", "target", "--dry-run"]])
def test_what_code_of_users_prints_while_a_command_runs_goes_to_stderr(run, folder, command, name):
    (folder / "telling_shop.py").write_text(PRINTING, encoding="utf-8")
    more = ["--repartition"] if name == "rekeyed" else []

    done = run(*command, "--json", "--job", f"telling_shop:{name}", *more)

    assert 0 == done.status, done.stderr
    assert isinstance(done.data, dict)
    assert {"job": "converted\n", "rekeyed": "a new key\n"}[name] in done.stderr


def test_a_recorded_file_is_written_where_the_command_was_started(run, folder):
    done = run("snapshot", "--job", "telling_shop:job", "-o", "types.json")

    assert (0, True) == (done.status, (folder / "types.json").exists()), done.stderr
    assert not Path(folder, "elsewhere", "types.json").exists()
