"""The suggested next step, and whether it works."""

from __future__ import annotations

import re
import shlex

import pytest

from stateshift.cli.next_steps import start_lines


def test_flink_is_given_a_place_without_the_options_of_pyarrow():
    lines = start_lines("s3://b/sp?endpoint_override=h:1&scheme=http", flink_restorable=True, with_orphans=False)

    assert lines == ["start the job: flink run -s s3://b/sp …"]
    assert start_lines("/a b?", flink_restorable=True, with_orphans=False) == ["start the job: flink run -s '/a b?' …"]


@pytest.mark.usefixtures("example_jobs")
@pytest.mark.parametrize(
    "options",
    [
        ("--rename-state", "account=the account", "--rename-state=accounts=old accounts"),
        ("--rename-uid", "account-state-lists=lists", "--drop", "version-free"),
        ("--target", "any"),
        ("--target", "flink-2.3", "--forbid", "collision_check"),
        ("--trust-stored-serializers", "--trust", "shop.Account", "--redact"),
        ("--repartition", "--max-parallelism", "account-state=256"),
        ("--convert", "account", "--allow-empty", "account", "--allow-root", "/data/a b"),
    ],
    ids=" ".join,
)
def test_all_that_was_given_is_in_the_next_command(run, savepoint_of, options):
    """`run` also tries the command, as a dry run."""
    given = ("check", savepoint_of("rocksdb-account-v1"), "--job", "accounts_v3:job", *options)
    answer = run(*given, "--allow-migration")
    if answer.status == 1:  # a state under a new name is missed; it is meant
        names = re.findall(r"--allow-empty (\S+)", answer.stdout)
        options = (*options, *(f"--allow-empty={name}" for name in names))
        answer = run(*given, *(f"--allow-empty={name}" for name in names), "--allow-migration")

    (line,) = (line for line in answer.stdout.splitlines() if line.startswith("next: "))
    words = shlex.split(line)
    wanted = [part for option in options for part in (option.split("=", 1) if option.startswith("--") else [option])]
    assert sorted(["--job", "accounts_v3:job", *wanted]) == sorted(words[words.index("NEW_SAVEPOINT") + 1 :])


@pytest.mark.usefixtures("example_jobs")
def test_the_form_of_the_answer_is_not_the_format_of_the_next_savepoint(run, savepoint_of):
    answer = run("check", savepoint_of("rocksdb-account-v1"), "--job", "accounts_v3:job", "--format", "junit")

    assert "next: stateshift migrate" in answer.stderr
    assert "--format" not in answer.stderr


@pytest.mark.usefixtures("example_jobs")
def test_a_plan_keeps_its_options_and_the_command_has_what_no_plan_has(run, savepoint_of, tmp_path):
    file = tmp_path / "a plan.json"
    answer = run(
        "plan", savepoint_of("rocksdb-account-v1"), "--job", "accounts_v3:job", "--target", "flink",
        "--allow-root", "/data", "-o", file,
    )  # fmt: skip

    assert answer.stdout.splitlines()[-1].endswith(f"NEW_SAVEPOINT --plan '{file}' --allow-root /data")
