"""Dropping, renaming, replacing and cleaning, as a user types them."""

import pytest

pytestmark = pytest.mark.usefixtures("example_jobs")

ACCOUNTS = ("--job", "accounts_v3:job")


@pytest.fixture
def target(tmp_path):
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


def test_a_check_tells_what_would_be_dropped(run, savepoint_of):
    answer = run("check", savepoint_of("rocksdb-account-v1"), *ACCOUNTS, "--drop", "version-free")

    assert answer.status == 4
    assert "version-free  value  long: dropped, as asked for" in answer.stdout


def test_a_dry_run_tells_new_names(run, savepoint_of, tmp_path):
    answer = run(
        "migrate", savepoint_of("rocksdb-account-v1"), tmp_path / "new", *ACCOUNTS, "--dry-run",
        "--rename-uid", "account-state-lists=lists", "--rename-state", "version-free=visits",
    )  # fmt: skip

    assert answer.status == 0
    assert "from now on visits" in answer.stdout
    assert "operator lists (" in answer.stdout
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--drop", "nothing"), "there is no state 'nothing'; there are: account-state/account"),
        (("--rename-state", "account=accounts"), "cannot be called 'accounts'"),
        (("--rename-uid", "account-state"), "write --rename-uid OLD=NEW"),
    ],
)
def test_names_that_cannot_be_are_wrong_usage(run, savepoint_of, options, told):
    answer = run("check", savepoint_of("rocksdb-account-v1"), *ACCOUNTS, *options)

    assert answer.status == 2
    assert told in answer.stderr


def test_clean_removes_what_a_dead_run_left_and_nothing_else(run, savepoint_of, target):
    left = target / ("ab" * 16 + "-keyed-0.attempt-1")
    left.touch()

    answer = run("clean", target)

    assert answer.status == 0
    assert left.name in answer.stdout
    assert not left.exists()
    assert run("clean", target).stdout == f"nothing to remove in {target}\n"
    assert run("clean", savepoint_of("rocksdb-account-v1")).status == 2


def test_clean_tells_programs_too(run, target):
    left = target / ("ab" * 16 + "-keyed-0.done")
    left.touch()

    assert run("clean", target, "--json").data == {"target": str(target), "removed": [left.name]}
