"""Native snapshots on a store: their databases are copied to the local disk once, and nothing of them stays there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter

import native_snapshots
import pytest
from source_safety import Proxy, store_tree

from stateshift import MigrationOptions, NoSpaceLeft, Savepoint, SavepointFormatType, SavepointNotFound, migrate
from stateshift.compat.description import StateKind
from stateshift.state.rocksdb import workspace
from stateshift.state.savepoint.verify import verify
from stateshift.state.storage.files import Folder

CANONICAL = SavepointFormatType.CANONICAL
CLAIMED = "rocksdb-incremental-tuple-claimed"
ONE_DATABASE = "rocksdb-incremental-string-p1-m128"
MERGED = "rocksdb-incremental-merged-files"
SAVEPOINT = "rocksdb-native-long-p2-m200"
GET = re.compile(r"GET /savepoints/(\S+?)(?:\?\S*)? HTTP/1.1")


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """The folder for temporary files of this test, of this process and of those that it starts."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    workspace.release_all()
    yield folder
    workspace.release_all()


@pytest.fixture
def stored(upload, request):
    """`stored(name)`: where a snapshot of Flink lies on the server, moved there with all folders of its jobs."""

    def store(name):
        key = f"native/{len(request.node.name)}-{abs(hash(request.node.name))}/{name}"
        place = upload(native_snapshots.home(name), key)
        return place.replace(key, f"{key}/{native_snapshots.expected(name)['snapshot']}")

    return store


@pytest.fixture
def through(s3):
    """`through(place)`: the same place by another port; what is read there of each file, in `through.got`."""
    with Proxy(s3.port) as proxy:
        got = Counter()

        def note(line):
            found = GET.fullmatch(line)
            if found:
                got[found[1]] += 1

        proxy.meets = note

        def by(place):
            return place.replace(str(s3.port), str(proxy.port))

        by.got = got
        yield by


@pytest.fixture
def contents():
    """`contents(place)`: all entries and timers of a savepoint, by state."""

    def read(place):
        return {
            (operator.uid, state.name): [
                *(state.read_entries() if state.kind is not StateKind.TIMERS else state.read_timers())
            ]
            for operator in Savepoint.open(place).operators
            for state in operator.states
            if state.kind.is_keyed
        }

    return read


def tables(got):
    """How often each file of a database was asked for: those of `shared`, or of a savepoint."""
    return {name: number for name, number in got.items() if "/shared/" in name}


def left(scratch):
    """The folders of databases that are there."""
    return [path.name for path in scratch.rglob("*") if "rocksdb" in path.name and any(path.iterdir())]


@pytest.mark.slow
@pytest.mark.parametrize("name", [CLAIMED, MERGED, SAVEPOINT])
def test_it_is_read_and_migrated_as_a_local_one(stored, s3, contents, tmp_path, scratch, name):
    place, local = stored(name), native_snapshots.snapshot(name)
    before = store_tree(s3.files, "savepoints/native")

    here = migrate(local, tmp_path / "here").target
    migrate(place, tmp_path / "there")
    migrate(place, s3.place(f"native-new/{name}"))

    assert contents(here) == contents(tmp_path / "there") == contents(s3.place(f"native-new/{name}"))
    assert verify(Savepoint.open(place)).ok
    assert before == store_tree(s3.files, "savepoints/native")
    workspace.release_all()
    assert [] == left(scratch)


@pytest.mark.usefixtures("scratch")
@pytest.mark.parametrize(
    "name",
    [ONE_DATABASE, CLAIMED],
)
def test_files_come_once_to_a_process_that_reads_state_after_state(stored, through, name):
    """With two databases, each state is read of the one, then of the other."""
    operator = Savepoint.open(through(stored(name))).operator(native_snapshots.KEYED)
    assert [entry for state in ("count", "labels", "note") for entry in operator.state(state).read_entries()]

    found = tables(through.got)
    assert found
    assert {1} == set(found.values()), found


@pytest.mark.usefixtures("scratch")
@pytest.mark.parametrize(
    ("name", "parallelism"),
    [
        (ONE_DATABASE, None),
        (ONE_DATABASE, 5),
        (CLAIMED, 5),
    ],
)
def test_files_come_once_to_a_migration_in_this_process(stored, through, tmp_path, name, parallelism):
    migrate(
        through(stored(name)), tmp_path / "new", options=MigrationOptions(parallelism=parallelism, format=CANONICAL)
    )

    assert verify(Savepoint.open(tmp_path / "new")).ok
    assert {1} == set(tables(through.got).values()), tables(through.got)


def test_an_error_leaves_nothing(stored, s3, scratch, tmp_path):
    place = stored(CLAIMED)
    first = next(iter(native_snapshots.keyed_handles(native_snapshots.snapshot(CLAIMED)).values())).shared[-1]
    prefix = place.partition("?")[0].removeprefix("s3://").rpartition("/checkpoints/")[0]
    s3.files.delete_file(f"{prefix}/checkpoints/{first.stream.uri.removeprefix('file:/tmp/checkpoints/')}")

    with pytest.raises(SavepointNotFound):
        migrate(place, tmp_path / "new")

    workspace.release_all()
    assert [] == left(scratch)
    assert not (tmp_path / "new").exists()


def test_a_disk_that_is_too_small_is_an_error_before_anything_is_copied(
    stored, through, scratch, tmp_path, monkeypatch
):
    monkeypatch.setattr(workspace.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 64 << 20})())

    with pytest.raises(NoSpaceLeft) as refused:
        migrate(through(stored(CLAIMED)), tmp_path / "new", options=MigrationOptions(format=CANONICAL))

    assert "TMPDIR" in refused.value.advice
    assert {} == tables(through.got)
    assert not (tmp_path / "new").exists()
    workspace.release_all()
    assert [] == left(scratch)


KILLED = """
import json, os, sys
from stateshift import Savepoint
from stateshift.state.formats.flink.keyed_readers import open_keyed
savepoint = Savepoint.open(sys.argv[1])
operator = savepoint.operator("keyed-op")
state = operator.state("count")
for _ in state.read_entries():
    print("reading", flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_process_leaves_is_deleted_later(stored, scratch):
    place = stored(CLAIMED)
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert "reading\n" == process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    (dead,) = (folder for folder in scratch.glob("stateshift-rocksdb-*/*") if folder.is_dir())
    os.utime(dead / "complete", (0, time.time() - 601))

    other = stored(MERGED)
    assert verify(Savepoint.open(other)).ok  # of other files

    workspace.release_all()
    kept = [path for path in scratch.iterdir() if path.name == f"stateshift-rocksdb-{os.getuid()}"]
    assert [] == [file.name for folder in kept for file in folder.iterdir()]


ON_SPARK = """
import sys
from stateshift.spark.migrate import migrate
from stateshift.spark.sessions import session
from stateshift import MigrationOptions, SavepointFormatType
source, target = sys.argv[1:]
spark = session("local[2]")
options = MigrationOptions(parallelism=6, format=SavepointFormatType.CANONICAL)
migrate(source, target, options=options, session=spark)
spark.stop()
"""


@pytest.mark.slow
def test_on_spark_files_come_once_to_the_workers_of_a_machine(stored, through, start_python, tmp_path, scratch):
    """Six tasks on two workers read two databases; the driver looks at one of them before."""
    process = start_python(ON_SPARK, through(stored(CLAIMED)), tmp_path / "new")
    _, told = process.communicate(timeout=300)

    assert 0 == process.returncode, told
    assert verify(Savepoint.open(tmp_path / "new")).ok
    got = tables(through.got)
    assert got
    assert {1} == set(got.values()), got
    assert [] == left(scratch)


def test_a_store_copies_a_file_by_itself(s3, tmp_path):
    source, target = Folder.at(s3.place("copied-from")), Folder.at(s3.place("copied-to"))
    source.write("file", b"content")

    assert source.copy_within_store("file", target, "copy")
    assert b"content" == target.read("copy")
    assert not source.copy_within_store("file", Folder.at(tmp_path), "copy")
