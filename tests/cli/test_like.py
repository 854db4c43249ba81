"""`--like`: a savepoint of the new Java job in place of a job in Python."""

from __future__ import annotations

import pytest


def verdicts(data):
    return [
        (operator["uid"], state["name"], state["decision"], state["verdict"], finding["path"], finding["rule"])
        for operator in data["operators"]
        for state in operator["states"]
        for finding in state["findings"]
        # of declared types only: Flink does not say whether nulls are stored
        if finding["rule"] not in {"REC-17", "OPT-5"}
    ]


@pytest.mark.usefixtures("example_jobs")
def test_a_check_against_a_probe_says_what_one_against_the_classes_says(run, savepoint_of):
    place, probe = savepoint_of("hashmap-account-v1"), savepoint_of("hashmap-account-v3")

    declared = run("check", place, "--job", "accounts_v3:job", "--json")
    probed = run("check", place, "--like", probe, "--json")

    assert declared.status == probed.status == 4
    assert verdicts(declared.data) == verdicts(probed.data)
    assert f"savepoint {probe}" == probed.data["new"]


def test_the_next_step_names_the_probe(run, savepoint_of):
    place, probe = savepoint_of("hashmap-account-v1"), savepoint_of("hashmap-account-v3")

    ran = run("check", place, "--like", probe)

    assert f"next: stateshift migrate {place} NEW_SAVEPOINT --like {probe}" in ran.stdout.splitlines()


def test_a_probe_of_the_same_job_says_start(run, savepoint_of):
    place = savepoint_of("hashmap-account-v1")

    ran = run("check", place, "--like", place)

    assert 0 == ran.status
    assert ran.stdout.startswith("start: ")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "--job MODULE:ATTRIBUTE, --like SAVEPOINT, or --plan PLAN"),
        (["--job", "a:b", "--like", "c"], "--job and --like both determine the new types; give one of them"),
    ],
)
@pytest.mark.parametrize("command", ["check", "migrate"])
def test_the_new_types_come_from_one_place(run, savepoint_of, tmp_path, command, options, told):
    target = [tmp_path / "new"] if command == "migrate" else []

    ran = run(command, savepoint_of("hashmap-account-v1"), *target, *options)

    assert 2 == ran.status
    assert told in ran.stderr


@pytest.mark.parametrize("command", ["check", "migrate"])
def test_a_probe_of_another_job_is_wrong_usage(run, savepoint_of, tmp_path, command):
    target = [tmp_path / "new"] if command == "migrate" else []

    ran = run(command, savepoint_of("hashmap-account-v1"), *target, "--like", savepoint_of("hashmap-windows-p2-m128"))

    assert 2 == ran.status
    assert "its operators with state are window-list, window-reduce" in ran.stderr
    assert "take the probe from the new version of the same job" in ran.stderr
    assert not (tmp_path / "new").exists()


def test_a_probe_that_is_not_there_is_unreadable_input(run, savepoint_of, tmp_path):
    ran = run("check", savepoint_of("hashmap-account-v1"), "--like", tmp_path)

    assert 3 == ran.status
    assert f"there is no savepoint in {tmp_path}" in ran.stderr


def test_a_dry_run_tries_out_the_types_of_a_probe(run, savepoint_of, tmp_path):
    place, probe = savepoint_of("hashmap-account-v1"), savepoint_of("hashmap-account-v3")

    ran = run("migrate", place, tmp_path / "new", "--like", probe, "--dry-run")

    assert 0 == ran.status
    assert "tried: one entry each of account, account-by-name, accounts, pending" in ran.stdout
