"""Lines have at most 100 columns in a pipe, and the width of a terminal; a command in several lines still runs."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift.cli.output import folded_text, print_styled
from stateshift.serializers.wording import shell_word

JOB = """
import attrs
from stateshift import Job, Operator, ValueStateDescriptor

@attrs.define
class {name}:
    account_of_the_customer: {kind}
    balance_of_the_account: {kind}

states = [ValueStateDescriptor(f"state-{{one}}", {name}) for one in range({states})]
both = Operator("in-both", key=str, states=[ValueStateDescriptor("n", int)])
job = Job([Operator("{uid}", key=str, states=states), both])
"""
WORDS = st.text(st.sampled_from("ab '\"$-;|&*{}()<>#!`é"), max_size=12)


@given(st.lists(WORDS, max_size=20), st.integers(40, 120))
def test_a_command_in_several_lines_is_the_same_command(words, width):
    command = "stateshift migrate " + " ".join(f"--fill {shell_word(word)}" for word in words)

    lines = folded_text(f"next: {command}", width)

    assert ["next:", *shlex.split(command)] == shlex.split("\n".join(lines).replace("\\\n", ""))
    assert all(line.endswith(" \\") for line in lines[:-1])


def test_bash_runs_a_command_in_several_lines(tmp_path):
    arguments = [
        f"--fill 0:{shell_word(name)}=1" for name in ("value.count", "it's $HOME", "a  b", "ünïcode", "x;y")
    ] * 3
    program = f"{shell_word(sys.executable)} -c 'import json, sys; print(json.dumps(sys.argv[1:]))'"
    lines = folded_text("stateshift migrate " + " ".join(arguments), 60)
    script = "\n".join(lines).replace("stateshift migrate", program, 1)

    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert shlex.split(" ".join(arguments)) == json.loads(done.stdout)
    assert len(lines) > 3
    assert max(map(len, lines)) <= 60


@given(st.text(st.sampled_from("abc  ,.;:"), max_size=300), st.integers(40, 120), st.integers(0, 12))
def test_no_word_is_lost_and_no_line_is_long(text, width, indent):
    lines = folded_text(" " * indent + text.strip(), width)

    assert text.split() == " ".join(lines).split()
    assert all(len(line) <= width or " " not in line.strip() for line in lines)


def test_each_way_out_has_its_own_line():
    copy = "stateshift migrate spark:old spark:new --fill 0:value.count=1"
    text = f"      ways out: keep it; or migrate a copy: {copy}; or leave it"

    assert [
        "      ways out: keep it",
        "        or migrate a copy: stateshift migrate spark:old spark:new \\",
        "            --fill 0:value.count=1",
        "        or leave it",
    ] == folded_text(text, 70)


def test_a_sentence_behind_a_command_is_no_part_of_it():
    text = "next: stateshift snapshot --job a_rather_long_module_name:job -m MESSAGE --merge; then commit the file"

    assert [
        "next: stateshift snapshot --job a_rather_long_module_name:job \\",
        "    -m MESSAGE --merge;",
        "  then commit the file",
    ] == folded_text(text, 70)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("  $.a  int -> long  every int fits a long", ["  $.a  int -> long", "    every int fits a long"]),
        (
            "  $.a  a reason that has many words and is long",
            ["  $.a", "    a reason that has many words and is", "    long"],
        ),
        ("a  " + "b " * 25, ["a", "  " + " ".join("b" * 19), "  " + " ".join("b" * 6)]),
    ],
)
def test_a_long_line_of_columns_is_divided_between_them(text, lines):
    assert lines == folded_text(text.rstrip(), 40)


@pytest.fixture
def refused(job_folder):
    """A savepoint and a job that cannot take it over: `refused(states, uid)` gives the arguments of a check."""

    def write(states=1, *, uid="accounts-of-all-customers", kind="bytes"):
        (job_folder / "old.py").write_text(
            JOB.format(uid="accounts-of-all-customers", states=states, kind="int", name="Account")
        )
        (job_folder / "new.py").write_text(JOB.format(uid=uid, states=states, kind=kind, name="Account"))
        made = "from stateshift import SavepointWriter; from old import job\nwith SavepointWriter('sp', job): pass\n"
        subprocess.run([sys.executable, "-c", made], check=True, cwd=job_folder)
        return "check", "sp", "--job", "new:job"

    return write


def test_lines_of_a_pipe_have_at_most_100_columns(run, refused, monkeypatch):
    arguments = refused()
    monkeypatch.setattr("stateshift.cli.output._PIPED_WIDTH", 100)
    ran = run(*arguments)

    assert ran.status == 1
    assert max(map(len, ran.stdout.splitlines())) <= 100


def test_lines_of_a_terminal_have_its_width(run, refused, monkeypatch):
    arguments = refused()
    wide = run(*arguments)
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    shown = re.sub(r"\x1b\[\d*m", "", run(*arguments).stdout)

    assert all(len(line) <= 80 or " " not in line.strip() for line in shown.splitlines())
    assert wide.stdout.replace("; or ", " or ").split() == shown.split()


def test_one_wrong_uid_is_said_once_and_first(run, refused):
    arguments = refused(13, uid="accounts", kind="int")
    ran, whole = run(*arguments), run(*arguments, "--all")

    lines = ran.stdout.splitlines()
    option = "--rename-uid accounts-of-all-customers=accounts"
    assert f"  first try {option}: if it is the same operator, it answers 13 of the 13" == lines[2]
    assert 1 == sum("would start empty" in line for line in lines)
    assert "    state-0, state-1, state-10, state-11, state-12 and 8 more (--all lists them)" in lines
    assert 13 == sum("would start empty" in line for line in whole.stdout.splitlines())
    assert "STATE-7" not in run(*arguments, "--rename-uid", "accounts-of-all-customers=accounts").stdout


def test_equal_findings_are_said_once_with_their_number(run, refused):
    arguments = refused(13)
    ran, whole = run(*arguments), run(*arguments, "--all")

    assert 13 == whole.stdout.count("no conversion keeps the meaning") // 2
    assert 2 == ran.stdout.count("no conversion keeps the meaning")
    assert "the same at 12 other places: " in ran.stdout
    assert "and 7 more (--all lists them)" in ran.stdout


@pytest.mark.parametrize("forged", ["::error::x", "##[error]x"])
def test_no_line_of_a_divided_one_is_a_command_to_ci(capsys, forged):
    for before in range(60, 110):
        print_styled([[("  state ", ""), ("n" * before + f" {forged} and more words to go on", "")]])

    shown = capsys.readouterr().out
    assert not re.search(r"^\s*(::|##\[)", shown, re.MULTILINE)


@pytest.mark.usefixtures("example_jobs")
def test_a_summary_has_ten_lines_with_the_verdict_the_rules_and_the_next_step(run, savepoint_of):
    place = savepoint_of("rocksdb-account-v1")
    ran = run("check", place, "--job", "accounts_v3:job", "--summary")
    lines = [line for line in ran.stdout.splitlines() if line]

    assert 4 == ran.status
    assert len(lines) <= 10
    assert "migrate: 4 of 7 states must be rewritten before the job can start" == lines[0]
    assert any(line.startswith("  migrate  8 times [REC-2], as at account-state/account $.email: ") for line in lines)
    assert "  and 1 other finding" in lines
    assert lines[-1].startswith("next: stateshift migrate")
    assert 2 == run("check", place, "--job", "accounts_v3:job", "--summary", "--json").status
