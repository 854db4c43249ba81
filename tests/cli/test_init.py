"""`stateshift init`, as a user runs it."""

from __future__ import annotations

import pytest


@pytest.mark.usefixtures("job_folder")
def test_what_init_writes_is_checked_as_it_says(run, savepoint_of, job_folder):
    place = savepoint_of("rocksdb-account-v1")

    ran = run("init", place, "-o", "accounts.py")

    assert 0 == ran.status
    check = f"stateshift check {place} --job accounts:job"
    assert f"written: accounts.py\nthe check should report start: {check}\n" in ran.stdout
    assert "class Account:" in (job_folder / "accounts.py").read_text()
    checked = run("check", place, "--job", "accounts:job")
    assert 0 == checked.status
    assert checked.stdout.startswith("start, if no stored value is null (9 places): every state can be used as it is\n")


def test_a_changed_file_says_what_changed(run, savepoint_of, job_folder):
    place = savepoint_of("rocksdb-account-v1")
    run("init", place)
    written = (job_folder / "job.py").read_text()
    (job_folder / "job.py").write_text(written.replace("visits: Int32", "visits: int"))

    ran = run("check", place, "--job", "job:job")

    assert 4 == ran.status
    assert "$.visits" in ran.stdout
    assert "int -> long" in ran.stdout


def test_init_replaces_a_file_only_with_force(run, savepoint_of, job_folder):
    (job_folder / "job.py").write_text("mine\n")

    refused = run("init", savepoint_of("rocksdb-account-v1"))

    assert 2 == refused.status
    assert "job.py already exists" in refused.stderr
    assert "mine\n" == (job_folder / "job.py").read_text()
    assert 0 == run("init", savepoint_of("rocksdb-account-v1"), "--force").status
    assert "mine\n" != (job_folder / "job.py").read_text()


def test_init_writes_to_stdout(run, savepoint_of, job_folder):
    ran = run("init", savepoint_of("hashmap-kryo"), "-o", "-")

    assert ran.stdout.startswith('"""The job that a savepoint implies')
    assert [] == list(job_folder.iterdir())


@pytest.mark.usefixtures("job_folder")
def test_a_folder_that_is_not_there_is_a_usage_error(run, savepoint_of):
    ran = run("init", savepoint_of("hashmap-kryo"), "-o", "no/where.py")

    assert 2 == ran.status
    assert "no/where.py cannot be written: No such file or directory" in ran.stderr


@pytest.mark.usefixtures("job_folder")
def test_init_reports_a_program_where_the_job_is(run, savepoint_of):
    place = str(savepoint_of("hashmap-kryo"))

    assert {
        "savepoint": place,
        "file": "job.py",
        "job": "job:job",
        "check_command": f"stateshift check {place} --job job:job",
    } == run("init", place, "--json").data
