"""What may stand where a file should, and in files: no command waits for it, takes it, or ends in a traceback."""

from __future__ import annotations

import json
import os
import platform
import socket
import time
from pathlib import Path

import attrs
import pytest

from stateshift import StorageFailed
from stateshift.state.formats.flink.handles import AbsoluteFileHandle, RelativeFileHandle
from stateshift.state.formats.flink.metadata import read_metadata, write_metadata
from stateshift.state.migration.journal import Journal
from stateshift.state.storage.files import Folder

DEEP = b"[" * 100_000
NESTED = b'{"format": 2, "host": ' + b"[" * 900 + b"]" * 900 + b"}"  # Python reads it, and can hardly go through it
KINDS = {"a named pipe": os.mkfifo, "a folder": os.mkdir, "a device": lambda path: path.symlink_to("/dev/zero")}
READING = (["inspect"], ["export"], ["verify"], ["check", "--job", "accounts_v3:job"], ["diff", "accounts_v3:job"])
MALFORMED = ("file://[::1/x", "s3://[::1/x", "hdfs://[::1/x", "file:/%00/x", "s3://", "s3://a\N{ACCOUNT OF}b/x")


@pytest.fixture(params=KINDS)
def special(request):
    """`special(path)` puts something else than a file there; with the words for it."""

    def put(path):
        path.unlink(missing_ok=True)
        KINDS[request.param](path)
        return request.param

    return put


def with_streams(savepoint, change):
    """Write the `_metadata` again with other handles of its streams."""
    file = savepoint / "_metadata"
    metadata = read_metadata(file.read_bytes())
    parts = ("managed_keyed", "managed_operator", "raw_keyed", "raw_operator")

    def changed(subtask):
        found = {part: getattr(subtask, part) for part in parts}
        there = {part: handle for part, handle in found.items() if handle is not None}
        return attrs.evolve(
            subtask, **{part: attrs.evolve(one, stream=change(one.stream)) for part, one in there.items()}
        )

    operators = tuple(attrs.evolve(one, subtasks=tuple(map(changed, one.subtasks))) for one in metadata.operators)
    file.write_bytes(write_metadata(attrs.evolve(metadata, operators=operators)))


def assert_refused(ran, words="", statuses=(3,)):
    assert ran.status in statuses, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    assert words in ran.stderr + ran.stdout


def told_of(words):
    """The error for a stream that is not a file: the device is a link, and it leads out of the savepoint."""
    return "outside its folder" if words == "a device" else f"it is {words}, not a regular file"


@pytest.mark.usefixtures("example_jobs")
class TestWhatIsNoFile:
    @pytest.mark.parametrize("command", [*READING, ["migrate", "TARGET", "--job", "accounts_v3:job"]], ids=" ".join)
    def test_as_metadata_it_is_refused_at_once(self, run, savepoint_copy, special, command, tmp_path):
        savepoint = savepoint_copy("rocksdb-account-v1")
        words = special(savepoint / "_metadata")

        name, *rest = [str(tmp_path / "target") if word == "TARGET" else word for word in command]
        ran = run(name, savepoint, *rest)

        assert_refused(ran, f"it is {words}, not a regular file")
        assert not (tmp_path / "target").exists()

    def test_as_a_state_file_it_is_refused_at_once(self, run, savepoint_copy, special, tmp_path):
        savepoint = savepoint_copy("hashmap-string-p2-m128-files")
        words = special(next(file for file in savepoint.iterdir() if file.name != "_metadata"))

        for command in (["inspect"], ["export"], ["migrate", tmp_path / "target", "--parallelism", "4"]):
            ran = run(command[0], savepoint, *command[1:])
            assert "Traceback" not in ran.stderr
            assert told_of(words) in ran.stderr + ran.stdout
        assert not (tmp_path / "target" / "_metadata").exists()
        assert_refused(run("verify", savepoint), told_of(words), statuses=(2, 3))

    def test_as_the_target_of_a_handle_it_is_refused_at_once(self, run, savepoint_copy, special, tmp_path):
        savepoint = savepoint_copy("hashmap-string-p2-m128-files")
        words = special(savepoint / "target")
        with_streams(savepoint, lambda _: AbsoluteFileHandle((savepoint / "target").as_uri(), 7))

        assert_refused(run("verify", savepoint), told_of(words), statuses=(2, 3))
        assert_refused(run("export", savepoint), told_of(words), statuses=(2, 3))

    @pytest.mark.parametrize("name", ["_stateshift.json", "_serializers.json"])
    def test_next_to_the_metadata_it_is_refused_at_once(self, run, savepoint_copy, special, name):
        savepoint = savepoint_copy("rocksdb-account-v1")
        words = special(savepoint / name)

        assert_refused(run("check", savepoint, "--job", "accounts_v3:job"), f"it is {words}, not a regular file")

    def test_as_a_claim_it_is_refused_at_once(self, run, savepoint_of, special, tmp_path):
        target = tmp_path / "target"
        target.mkdir()
        words = special(target / "_claim-0123456789ab")

        for command in (
            ["clean", target],
            ["migrate", savepoint_of("rocksdb-account-v1"), target, "--parallelism", "2"],
        ):
            assert_refused(run(*command), f"it is {words}, not a regular file", statuses=(3, 6))
        assert ["_claim-0123456789ab"] == [file.name for file in target.iterdir()]

    def test_in_a_journal_it_is_refused_at_once(self, savepoint_of, special, tmp_path):
        target = tmp_path / "target"
        target.mkdir()
        words = special(target / "x.done")
        journal = Journal(Folder.at(target), "run")

        with pytest.raises(StorageFailed, match=f"it is {words}, not a regular file"):
            journal.finished()
        with pytest.raises(StorageFailed, match=f"it is {words}, not a regular file"):
            journal.reference_time_before()

    def test_as_a_plan_or_a_history_it_is_refused_at_once(self, run, savepoint_of, special, job_folder):
        savepoint = savepoint_of("rocksdb-account-v1")
        special(job_folder / "plan.json")
        (job_folder / "state_history").mkdir()
        special(job_folder / "state_history" / "0001_a.json")
        planned = run("migrate", savepoint, job_folder / "target", "--plan", f"{job_folder.as_uri()}/plan.json")
        listed = run("history")
        (job_folder / "state_history" / "stamps.json").mkdir()
        stamps = run("check", "--job", "accounts_v3:job", "--against", "production")

        for ran in (planned, listed, stamps):
            assert_refused(ran, "not a regular file")

    def test_a_socket_is_none_either(self, run, savepoint_copy, monkeypatch):
        savepoint = savepoint_copy("rocksdb-account-v1")
        (savepoint / "_metadata").unlink()
        monkeypatch.chdir(savepoint)
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind("_metadata")

            assert_refused(run("inspect", savepoint), "it is a socket, not a regular file")

    def test_a_name_that_is_no_text_is_one_file_more(self, run, savepoint_of, tmp_path):
        target = tmp_path / "target"
        target.mkdir()
        Path(os.fsdecode(os.fsencode(target) + b"/\xff\n::error::x")).touch()

        for command in (
            ["clean", target],
            ["migrate", savepoint_of("rocksdb-account-v1"), target, "--parallelism", "2"],
        ):
            ran = run(*command)
            assert "Traceback" not in ran.stderr
            assert ran.status in {0, 2}
            assert not [line for line in ran.stderr.splitlines() if line.startswith("::")]


@pytest.mark.usefixtures("example_jobs")
@pytest.mark.parametrize("uri", MALFORMED)
class TestURIsThatAreNone:
    def test_as_an_argument_they_are_refused(self, run, savepoint_of, tmp_path, uri):
        savepoint, job = savepoint_of("rocksdb-account-v1"), ["--job", "accounts_v3:job"]
        given = [
            ["inspect", uri], ["export", uri], ["verify", uri], ["quarantine", uri], ["init", uri],
            ["check", uri, *job], ["check", savepoint, "--like", uri], ["check", *job, "--against", uri],
            ["plan", uri, *job], ["diff", savepoint, uri], ["diff", uri, savepoint], ["snapshot", uri],
            ["migrate", uri, tmp_path / "target", *job], ["migrate", savepoint, uri, *job],
            ["migrate", savepoint, tmp_path / "target", "--plan", uri],
            ["migrate", savepoint, uri, "--parallelism", "3"], ["export", f"{uri}/_metadata"],
            ["diff", savepoint, f"{uri}.json"],
        ]  # fmt: skip
        for arguments in given:
            ran = run(*arguments)

            assert_refused(ran, statuses=(2, 3, 6))
            told = ran.stderr.rstrip().endswith(("Nothing was written.", "nothing was published."))
            assert told is (arguments[0] not in {"inspect", "verify", "quarantine", "diff"}), arguments

    def test_in_a_handle_they_are_refused(self, run, savepoint_copy, tmp_path, uri):
        savepoint = savepoint_copy("hashmap-string-p2-m128-files")
        with_streams(savepoint, lambda _: AbsoluteFileHandle(uri, 7))

        assert_refused(run("inspect", savepoint), statuses=(0, 3))
        assert_refused(run("export", savepoint), statuses=(3,))
        assert_refused(run("verify", savepoint), statuses=(1, 3))
        assert_refused(run("init", savepoint, "-o", "made.py"), statuses=(0, 3))
        assert_refused(run("migrate", savepoint, tmp_path / "t", "--parallelism", "3"), statuses=(3, 6))


@pytest.mark.parametrize(
    "handle",
    [
        RelativeFileHandle("a" * 5000, 7),
        RelativeFileHandle("a/" * 2500 + "a", 7),
        AbsoluteFileHandle(f"file:/{'a' * 5000}", 7),
    ],
    ids=["relative", "deep", "absolute"],
)
def test_a_handle_with_a_name_that_no_disk_takes_is_refused(run, savepoint_copy, tmp_path, handle):
    savepoint = savepoint_copy("hashmap-string-p2-m128-files")
    with_streams(savepoint, lambda _: handle)

    assert_refused(run("inspect", savepoint), statuses=(0, 3))
    assert_refused(run("export", savepoint), statuses=(3,))
    assert_refused(run("verify", savepoint), statuses=(1, 3))
    assert_refused(run("migrate", savepoint, tmp_path / "t", "--parallelism", "3"), statuses=(3, 6))


@pytest.mark.usefixtures("example_jobs")
@pytest.mark.parametrize(
    "content", [DEEP, NESTED, b"9" * 5000, b"\xff", b"[]", b"7", b'"\\ud800"', b""], ids=lambda c: repr(c[:9])
)
class TestFilesOfOurs:
    """Whatever text stands in them, as numbers or as JSON."""

    @pytest.mark.parametrize("name", ["_stateshift.json", "_serializers.json"])
    def test_next_to_a_savepoint(self, run, savepoint_copy, content, name):
        savepoint = savepoint_copy("rocksdb-account-v1")
        (savepoint / name).write_bytes(content)

        for command in (["check", "--job", "accounts_v3:job"], ["inspect"], ["verify"], ["quarantine"]):
            ran = run(command[0], savepoint, *command[1:])
            assert_refused(ran, statuses=(0, 1, 3, 4))
        assert_refused(run("check", savepoint, "--job", "accounts_v3:job"), "cannot be read")

    @pytest.mark.parametrize("name", ["_claim-0123456789ab", "x.done"])
    def test_in_a_target(self, run, savepoint_of, content, name, tmp_path):
        target = tmp_path / "target"
        target.mkdir()
        (target / name).write_bytes(content)
        a_while_ago(target / name)

        for command in (
            ["clean", target],
            ["migrate", savepoint_of("rocksdb-account-v1"), target, "--parallelism", "2"],
        ):
            assert_refused(run(*command), statuses=(0, 2))

    def test_as_a_plan_a_revision_a_stamp_and_a_setting(self, run, savepoint_of, content, job_folder):
        (job_folder / "plan.json").write_bytes(content)
        (job_folder / "state_history").mkdir()
        (job_folder / "state_history" / "stamps.json").write_bytes(content)
        stamps = run("check", "--job", "accounts_v3:job", "--against", "production")
        (job_folder / "state_history" / "0001_a.json").write_bytes(content)

        assert_refused(run("migrate", savepoint_of("rocksdb-account-v1"), "t", "--plan", "plan.json"), "plan.json")
        assert_refused(run("history"), "0001_a.json")
        assert_refused(stamps, "stamps.json")
        (job_folder / "pyproject.toml").write_bytes(b"x = " + content)
        assert_refused(run("history"), statuses=(2, 3))


def a_while_ago(file):
    """Make a file older than one that a run may have written at the same moment, which the other would wait for."""
    then_s = time.time() - 20
    os.utime(file, (then_s, then_s))


def claim(**facts):
    return json.dumps({"user": "x", "host": platform.node(), "process": 7, "since": "now"} | facts).encode()


@pytest.mark.usefixtures("example_jobs")
@pytest.mark.parametrize(
    "process",
    [10**30, -(10**30), "9" * 5000, 1.5, [], None, "²", True, "\ud800\n::error::x"],
    ids=lambda p: repr(p)[:9],
)
def test_a_claim_of_any_process_is_a_claim(run, savepoint_of, tmp_path, process):
    target = tmp_path / "target"
    target.mkdir()
    (target / "_claim-0123456789ab").write_bytes(claim(process=process))
    a_while_ago(target / "_claim-0123456789ab")

    ran = run("migrate", savepoint_of("rocksdb-account-v1"), target, "--parallelism", "2")

    assert_refused(ran, "another run is in progress", statuses=(2,))
    assert not [line for line in ran.stderr.splitlines() if line.startswith("::")]


def test_no_argument_that_is_too_long_for_a_name_ends_in_a_traceback(run, savepoint_of):
    long, savepoint = "x" * 5000, savepoint_of("rocksdb-account-v1")

    for arguments in (
        ["inspect", long], ["diff", savepoint, long], ["check", "--job", "a:b", "--against", long], ["show", long],
        ["show", "9" * 5000], ["show", "²"],
        ["migrate", savepoint, "t", "--job", "a:b", "--max-parallelism", "9" * 5000],
    ):  # fmt: skip
        assert_refused(run(*arguments), statuses=(2, 3))
