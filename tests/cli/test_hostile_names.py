"""Names that would forge lines, commands of CI or what a terminal shows: no command prints them as they are."""

from __future__ import annotations

import re
import runpy
import sys
from xml.etree import ElementTree as ET

import pytest

from stateshift import SavepointWriter
from stateshift.cli.progress import spinning

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
FORGED = ("verdict: start", "::error", "verified: all")
ODD = "x\nverdict: start\r\n  ::error::forged\u2028verified: all\x1b[2J\x9b31m\x85\u202eevil\u2066\t\x7f##[error]y[/x]"
FIRST = "::error title=a::forged"
HALF = "half \ud800"
NAMES = {"odd": ODD, "first": FIRST, "half": HALF}

JOB = """
import attrs
from typing import Annotated
from stateshift import Field, Int32, Job, Operator, ValueStateDescriptor, record

@record(aliases=("before.Order",))
@attrs.frozen
class Order:
    number: Annotated[TYPE, Field(name=NAME)]

job = Job([Operator(NAME, key=int, states=[ValueStateDescriptor(NAME, Order), ValueStateDescriptor(NAME + "2", TYPE)])])
"""


@pytest.fixture(params=NAMES)
def name(request):
    return NAMES[request.param]


@pytest.fixture
def savepoint(job_folder, tmp_path, name):
    """All that can have a name has this one; the modules `after` and `refused` have jobs with other types."""
    for module, kind in (("before", "Int32"), ("after", "int"), ("refused", "bool")):
        text = JOB.replace("NAME", ascii(name)).replace("TYPE", kind)
        (job_folder / f"{module}.py").write_text(text, encoding="ascii")
    before = runpy.run_path(str(job_folder / "before.py"), run_name="before")
    with SavepointWriter(tmp_path / "savepoint", before["job"]) as writer:
        for key in range(3):
            writer.put(name, name, key, before["Order"](key))
            writer.put(name, name + "2", key, key)
    return tmp_path / "savepoint"


def commands(savepoint, tmp_path, name):
    """All commands that print what has a name, and the status that each is to end with."""
    migrated, plan = tmp_path / "migrated", tmp_path / "plan.json"
    there = [
        (0, ["inspect", savepoint]),
        (0, ["inspect", savepoint, "--full", "--skew", "--keys", "3"]),
        (4, ["check", savepoint, "--job", "after:job"]),
        (1, ["check", savepoint, "--job", "refused:job"]),
        (0, ["plan", savepoint, "--job", "after:job", "-o", plan]),
        (1, ["plan", savepoint, "--job", "refused:job"]),
        (0, ["migrate", savepoint, migrated, "--job", "after:job", "--dry-run"]),
        (1, ["migrate", savepoint, migrated, "--job", "refused:job"]),
        (0, ["migrate", savepoint, migrated, "--plan", plan]),
        (2, ["migrate", savepoint, migrated, "--job", "after:job"]),
        (0, ["verify", migrated]),
        (1, ["diff", savepoint, "refused:job"]),
        (2, ["export", savepoint, "--state", name + "3"]),
        (2, ["export", savepoint, "--operator", name + "3"]),
        (2, ["inspect", savepoint, name]),
        (3, ["inspect", tmp_path / name]),
        (1, ["check", "--job", "refused:job", "--against", savepoint]),
        (0, ["quarantine", savepoint]),
    ]
    return [(status, list(map(str, arguments))) for status, arguments in there]


def assert_nothing_forged(text, forged=FORGED):
    lines = text.split("\n")

    assert [] == [line for line in lines if not line.isprintable()]
    assert [] == [line for line in lines if line.strip().startswith(forged)]


@pytest.mark.parametrize("where", ["pipe", "terminal"])
def test_no_command_prints_a_forged_line(run, savepoint, tmp_path, name, where, monkeypatch):
    if where == "terminal":
        monkeypatch.setenv("COLUMNS", "400")
        monkeypatch.setenv("TERM", "xterm-256color")
        terminal = sys.stdout  # which a command replaces by stderr while it works
        monkeypatch.setattr(type(terminal), "isatty", lambda stream: stream is terminal, raising=False)
    for status, arguments in commands(savepoint, tmp_path, name):
        ran = run(*arguments)
        assert status == ran.status, ran.stdout + ran.stderr

        # No CI system reads a terminal, whose lines may begin with any part of a cell.
        assert_nothing_forged(COLOURS.sub("", ran.stdout), FORGED[:1] if where == "terminal" else (*FORGED, "##["))
        assert_nothing_forged(ran.stderr)
    assert_nothing_forged((tmp_path / "plan.json").read_text(encoding="utf-8"))


def test_json_gives_names_as_they_are_and_prints_none_of_them(run, savepoint, name):
    for command in ("inspect", "export", "verify"):
        ran = run(command, savepoint, "--json")

        assert (ran.status, ran.stderr) == (0, "")
        assert_nothing_forged(ran.stdout)
    assert name in [state["name"] for state in run("inspect", savepoint, "--json").data["operators"][0]["states"]]


@pytest.mark.parametrize("form", ["github", "junit", "markdown", "sarif", "text"])
def test_the_gate_reports_such_names_in_each_of_its_forms(run, savepoint, form):
    ran = run("check", "--job", "refused:job", "--against", savepoint, "--format", form)

    assert ran.status == 1
    if form == "github":
        assert {"::error "} == {line[:8] for line in ran.stdout.splitlines()}
        assert all(line.isprintable() for line in ran.stdout.split("\n"))
        return
    assert_nothing_forged(ran.stdout)
    if form == "junit":
        assert_nothing_forged(" ".join(ET.fromstring(ran.stdout).itertext()))  # noqa: S314 - our own
    elif form == "sarif":
        for result in ran.data["runs"][0]["results"]:
            assert_nothing_forged(result["message"]["text"], FORGED[:1])
            assert_nothing_forged(result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"], FORGED[:1])


def test_recorded_types_can_be_reviewed_and_read_back(run, savepoint, tmp_path, name):
    file = tmp_path / "types.json"

    recorded = run("snapshot", savepoint, "-o", file)
    printed = run("snapshot", savepoint)
    same = run("diff", savepoint, file)

    assert (recorded.status, printed.status, same.status) == (0, 0, 0)
    assert_nothing_forged(printed.stdout)
    assert file.read_text(encoding="utf-8") == printed.stdout
    assert name in [state["name"] for state in printed.data["operators"][0]["states"]]


def test_a_job_file_is_python_that_hides_nothing(run, savepoint, job_folder, name):
    made = run("init", savepoint, "-o", "made.py")
    checked = run("check", savepoint, "--job", "made:job")

    assert (made.status, checked.status) == (0, 0), made.stderr + checked.stderr
    assert_nothing_forged((job_folder / "made.py").read_text(encoding="utf-8"))
    assert name in {operator.uid for operator in runpy.run_path(str(job_folder / "made.py"))["job"].operators}


def test_what_is_inspected_is_shown_without_markup(monkeypatch, capsys):
    """rich takes `[/x]` in a text for the end of a style, and fails where none has begun."""
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda _: True, raising=False)

    with spinning("verifying [/y]") as show:
        show(f"a[/x]{ODD}")

    assert "\x9b" not in capsys.readouterr().err


def test_only_one_module_writes_to_a_terminal_or_a_pipe(root):
    """What writes past it would have to escape by itself. The bar of a run holds words and numbers of ours."""
    writing = re.compile(r"click\.(echo|secho)|\bprint\(|sys\.std(out|err)\.write|from rich\.(text|table|console)")

    found = {file.name for file in (root / "cli").glob("*.py") if writing.search(file.read_text(encoding="utf-8"))}

    assert found == {"output.py", "progress.py"}
