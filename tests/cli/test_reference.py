"""docs/reference/cli.md names every option, and every key that `--json` prints."""

from __future__ import annotations

import re

import click
import pytest

from stateshift.cli import main

BY_NAME = {"keyed", "operator", "broadcast", "fields"}  # objects whose keys are names of states or fields
NOT_OURS = {"counts", "code"}  # the keys are the three decisions, and names of functions


@pytest.fixture(scope="module")
def page(root):
    return (root / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


def section(page, command):
    return page.split(f"## stateshift {command}")[1].split("\n## ")[0]


def keys_of(data):
    """All keys, but for those that are data themselves."""
    if isinstance(data, list):
        return set().union(*map(keys_of, data)) if data else set()
    if not isinstance(data, dict):
        return set()
    found = set()
    for key, value in data.items():
        if key.startswith("$"):
            continue
        found.add(key)
        if key in BY_NAME and isinstance(value, dict):
            found |= set().union(*(keys_of(item) for item in value.values())) if value else set()
        elif key not in NOT_OURS:
            found |= keys_of(value)
    return found


@pytest.mark.usefixtures("example_jobs")
@pytest.mark.parametrize(
    "command", ["inspect", "export", "sql", "init", "check", "plan", "migrate", "verify", "diff", "snapshot", "rules"]
)
def test_every_key_of_json_is_documented(run, page, savepoint_of, tmp_path, command):
    more = {
        "check": ["--job", "accounts_v3:job"],
        "migrate": [tmp_path / "new", "--job", "accounts_v3:job", "--dry-run"],
        "plan": ["--job", "accounts_v3:job"],
        "diff": ["accounts_v3:job"],
        "snapshot": ["-o", tmp_path / "state.json"],
    }

    given = [] if command == "rules" else [savepoint_of("rocksdb-account-v1")]
    ran = run(command, *given, *more.get(command, []), "--json")

    told = set(re.findall(r"`([^`\s]+)`", section(page, command)))
    assert keys_of(ran.data) - told == set()


def test_the_keys_of_an_error_are_documented(run, page, tmp_path):
    ran = run("inspect", tmp_path, "--json")

    assert keys_of(ran.data["error"]) - set(re.findall(r"`([^`\s]+)`", page.split("### Errors")[1])) == set()


@pytest.mark.parametrize("name", main.list_commands(click.Context(main)))
def test_every_option_is_documented_and_every_command_has_examples(run, page, name):
    command = main.get_command(click.Context(main), name)
    options = {option for param in command.params for option in param.opts if option.startswith("--")}

    assert {option for option in options if option not in page} == set()
    assert "Examples:" in run(name, "--help").stdout


def test_the_statuses_are_those_of_the_help(run, page):
    shown = dict(re.findall(r"^    (\d)  (\w+)", run("--help").stdout, re.MULTILINE))

    assert set(re.findall(r"^\| (\d) \|", page, re.MULTILINE)) == set(shown)


def test_the_version_is_reported(run):
    assert re.fullmatch(r"stateshift \d+\.\d+\.\d+\n", run("--version").stdout)


def synopsis(page):
    """Command, or group of options -> what the synopsis says of it."""
    block = page.split("```text\n")[1].split("```")[0]
    said = {}
    for entry in re.split(r"\n+(?=\w)", block):
        name, _, words = entry.removeprefix("stateshift ").strip().partition(" ")
        said[name] = f"{said.get(name, '')} {words}"
    return said


@pytest.mark.parametrize("name", main.list_commands(click.Context(main)))
def test_the_synopsis_of_a_command_has_all_its_options(page, name):
    said = synopsis(page)
    groups = re.findall(r"\b(?:NEW|HOW|RUN|PROVE|IMPORT|PLACES|QUERY|FORM)\b", said[name])
    words = " ".join([said[name], *(said[group] for group in groups)])
    short = {"-o": "--output", "-m": "--message"}
    told = {short.get(option, option) for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", words)}
    options = {
        max(one.opts, key=len)
        for one in main.get_command(click.Context(main), name).params
        if isinstance(one, click.Option)
    }

    assert options - {"--json", "--redact"} == told
