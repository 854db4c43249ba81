"""Dropping, renaming, replacing and cleaning, as a user types them."""

import json

import pytest

from stateshift import Savepoint, open_checkpoints
from stateshift.state.publication.runs import names_of
from stateshift.state.storage.files import Folder

pytestmark = pytest.mark.usefixtures("example_jobs")

ACCOUNTS = ("--job", "accounts_v3:job")


@pytest.fixture
def target(tmp_path):
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


def test_a_check_shows_what_would_be_dropped(run, savepoint_of):
    answer = run("check", savepoint_of("rocksdb-account-v1"), *ACCOUNTS, "--drop", "version-free")

    assert answer.status == 4
    assert "version-free  value  long: dropped, as requested" in answer.stdout


def test_a_dry_run_reports_new_names(run, savepoint_of, tmp_path):
    answer = run(
        "migrate", savepoint_of("rocksdb-account-v1"), tmp_path / "new", *ACCOUNTS, "--dry-run",
        "--rename-uid", "account-state-lists=lists", "--rename-state", "version-free=visits",
    )  # fmt: skip

    assert answer.status == 0
    assert "renamed to visits" in answer.stdout
    assert "renamed to lists (" in answer.stdout
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--drop", "nothing"), "there is no state 'nothing'; there are: account-state/account"),
        (("--rename-state", "account=accounts"), "cannot be renamed to 'accounts'"),
        (("--rename-uid", "account-state"), "write --rename-uid OLD=NEW"),
    ],
)
def test_names_that_cannot_be_are_wrong_usage(run, savepoint_of, options, told):
    answer = run("check", savepoint_of("rocksdb-account-v1"), *ACCOUNTS, *options)

    assert answer.status == 2
    assert told in answer.stderr


def dead_run(target, end):
    """Leave what a run leaves that is killed: its list and a file that is in it."""
    (target / "_run-0123456789ab").write_text(json.dumps({"names": names_of(["ab" * 16])}), encoding="utf-8")
    (target / f"{'ab' * 16}{end}").touch()
    return [file.name for file in target.iterdir()]


def test_clean_removes_what_a_dead_run_left_and_nothing_else(run, savepoint_of, target):
    left = dead_run(target, "-keyed-0.attempt-1")

    answer = run("clean", target)

    assert answer.status == 0
    assert all(name in answer.stdout for name in left)
    assert not list(target.iterdir())
    assert run("clean", target).stdout == f"nothing to remove in {target}\n"
    assert run("clean", savepoint_of("rocksdb-account-v1")).status == 2


def test_clean_keeps_what_a_checkpoint_of_a_job_needs(run, tmp_path):
    job = tmp_path / ("a" * 32)
    with open_checkpoints(Folder.at(tmp_path), job.name) as storage:
        storage.shared.write("01234567-89ab-cdef-0123-456789abcdef", b"x")
        storage.shared.write("notes.txt", b"x")

    answer = run("clean", job)

    assert answer.status == 0
    assert "shared/01234567-89ab-cdef-0123-456789abcdef" in answer.stdout
    assert ["notes.txt"] == [file.name for file in (job / "shared").iterdir()]


def test_clean_reports_programs_too(run, target):
    left = dead_run(target, "-keyed-0.done")

    assert run("clean", target, "--json").data == {"target": str(target), "removed": sorted(left)}


def test_types_may_stay_where_something_else_changes(run, savepoint_of, tmp_path):
    source = savepoint_of("hashmap-long-p1-m128")

    ran = run("migrate", source, tmp_path / "new", "--target", "flink-1.20")

    assert (ran.status, ran.stderr) == (0, "")
    old, new = Savepoint.open(source), Savepoint.open(tmp_path / "new")
    assert (6, 4) == (old.metadata.version, new.metadata.version)
    assert [o.stored.subtasks for o in old.operators] == [
        new.operator(o.operator_id).stored.subtasks for o in old.operators
    ]


def test_edits_need_no_job(run, savepoint_of, tmp_path):
    edits = ("--drop", "pair", "--rename-state", "note=remark", "--rename-uid", "list-op=lists")

    ran = run("migrate", savepoint_of("hashmap-long-p1-m128"), tmp_path / "new", *edits, "--dry-run", "--json")

    states = {s["name"]: s for operator in ran.data["plan"]["operators"] for s in operator["states"]}
    assert (0, "") == (ran.status, ran.stderr)
    assert ("drop", "remark", "relabel") == (
        states["pair"]["action"],
        states["note"]["new_name"],
        states["note"]["action"],
    )
    assert {"copy"} == {s["action"] for name, s in states.items() if name not in {"pair", "note"}}
    assert "lists" in {operator["uid"] for operator in ran.data["plan"]["operators"]}


def test_a_migration_of_nothing_asks_what_is_to_change(run, savepoint_of, tmp_path):
    ran = run("migrate", savepoint_of("hashmap-long-p1-m128"), tmp_path / "new", "--dry-run")

    assert 2 == ran.status
    assert "to keep the types, specify what else to change: --parallelism" in ran.stderr
