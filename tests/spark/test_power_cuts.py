"""A power cut at any moment: what was not synced is forgotten, and yet a target is whole, absent, or finished later."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from a_few import a_few

from stateshift import (
    IfTargetExists,
    Job,
    Operator,
    Savepoint,
    SavepointWriter,
    TargetExists,
    ValueStateDescriptor,
    migrate,
)
from stateshift.state.publication import target_lock as claims
from stateshift.state.publication.publish import clean
from stateshift.state.savepoint.verify import verify
from stateshift.state.storage import stores
from stateshift.state.storage.files import Folder

KEYS = 300
NOTES = Operator("notes", key=int, states=[ValueStateDescriptor("note", str)])
JOB = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=str)]), NOTES])
MOST_CALLS = 200


class PowerCut(BaseException):
    """Nothing that was to follow happens."""


class _Output:
    """A file that records on its disk what was synced."""

    def __init__(self, disk, path):
        self._disk, self._path, self._output = disk, path, stores.LocalOutput(path)

    def write(self, data):
        self._disk.call()
        self._output.write(data)

    def sync(self):
        self._disk.call()
        self._output.sync()
        self._disk.synced[Path(self._path).stat().st_ino] = Path(self._path).read_bytes()

    def close(self):
        self._output.close()


class Disk(stores.LocalFiles):
    """A disk whose power is cut before the nth call that changes something in a folder.

    Attributes:
        synced: Content of files by inode, as of their last sync.
        entries: Inodes by name, as of the last sync of the folder.
        moved: The last name that was given.
    """

    def __init__(self, folder, cut):
        self.folder, self.calls, self.cut, self.moved = folder, 0, cut, ""
        found = list(folder.iterdir()) if folder.exists() else []
        self.entries = {file.name: file.stat().st_ino for file in found}
        self.synced = {file.stat().st_ino: file.read_bytes() for file in found}

    def call(self):
        self.calls += 1
        if self.calls > self.cut:
            raise PowerCut

    def _changing(name):  # noqa: N805 - makes methods
        def method(self, *arguments):
            self.call()
            return getattr(super(), name)(*arguments)

        return method

    delete_file, create_dir = _changing("delete_file"), _changing("create_dir")

    def move(self, path, new_path):
        self.call()
        super().move(path, new_path)
        self.moved = Path(new_path).name

    def open_output_stream(self, path):
        self.call()
        return _Output(self, path)

    def sync_dir(self, path):
        self.call()
        super().sync_dir(path)
        self.entries = {file.name: file.stat().st_ino for file in self.folder.iterdir()}

    def survives(self, place, survivors):
        """Lay down what is there after the cut: names of the last sync and some since, bytes of the last sync."""
        now = {file.name: file.stat().st_ino for file in self.folder.iterdir()} if self.folder.exists() else {}
        moved = {name: inode for name, inode in now.items() if name == self.moved}
        names = {"names synced": self.entries, "all names": now, "the last name, too": self.entries | moved}[survivors]
        place.mkdir()
        for name, inode in names.items():
            (place / name).write_bytes(self.synced.get(inode, b""))
            os.utime(place / name, (0, 0))
        return place


@pytest.fixture
def source(tmp_path):
    return written(tmp_path / "old", lambda key: key)


def written(place, value_of):
    """A savepoint with files and with streams inside `_metadata`."""
    job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", int)]), NOTES])
    with SavepointWriter(place, job, parallelism=2) as writer:
        for key in range(KEYS):
            writer.put("counter", "count", key, value_of(key))
        for key in range(40):
            writer.put("notes", "note", key, "x" * 2000)
    return place


def values(place):
    return {entry.key: entry.value for entry in Savepoint.open(place).operator("counter").state("count").read_entries()}


OLD, NEW = {key: -key for key in range(KEYS)}, {key: str(key) for key in range(KEYS)}


@pytest.fixture
def run_until(tmp_path, source, monkeypatch):
    """`run_until(cut, if_exists)`: the disk after a run; None of it is left to the run."""

    def run(cut, if_exists):
        target = tmp_path / f"target-{cut}"
        if if_exists is IfTargetExists.REPLACE:
            shutil.copytree(tmp_path / "replaced", target)
        disk = Disk(target, cut)
        with monkeypatch.context() as patch:
            patch.setattr(claims, "_BEAT_S", 600)
            patch.setattr(stores, "LOCAL", disk)
            patch.setattr(stores, "opened", stores.opened.__wrapped__)
            patch.setattr("stateshift.state.storage.files.opened", stores.opened)
            patch.setattr("stateshift.state.storage.files.LocalOutput", _Output)
            try:
                migrate(source, target, JOB, target_exists=if_exists)
            except PowerCut:
                return disk
        return None

    if not (tmp_path / "replaced").exists():
        written(tmp_path / "replaced", lambda key: -key)
    return run


@pytest.mark.parametrize("survivors", a_few(["names synced", "all names", "the last name, too"]))
@pytest.mark.parametrize("if_exists", list(IfTargetExists))
def test_what_a_power_cut_leaves_is_whole_or_absent_and_the_same_command_finishes_it(
    run_until, source, tmp_path, monkeypatch, if_exists, survivors
):
    before = {file.name: file.read_bytes() for file in source.iterdir()}
    monkeypatch.setattr(claims.Owner, "runs", lambda _: False)  # after a power cut nothing runs
    outcomes = set()
    for cut in range(len(survivors) % 3, MOST_CALLS, 3):  # of calls of one kind there are several
        disk = run_until(cut, if_exists)
        if disk is None:
            break
        place = disk.survives(tmp_path / f"left-{cut}", survivors)

        if (place / "_metadata").exists():
            found = values(place)
            assert found == NEW or (if_exists is IfTargetExists.REPLACE and found == OLD)
            assert verify(Savepoint.open(place)).ok
            outcomes.add("new" if found == NEW else "old")
        else:
            outcomes.add("none")
        finish(place, source, if_exists)
        assert values(place) == NEW
        assert verify(Savepoint.open(place)).ok
        assert not [file for file in place.iterdir() if ".attempt-" in file.name or file.suffix == ".done"]
    else:
        pytest.fail(f"the run made more than {MOST_CALLS} calls")

    assert cut > 20
    assert outcomes == ({"old", "new"} if if_exists is IfTargetExists.REPLACE else {"none", "new"})
    assert before == {file.name: file.read_bytes() for file in source.iterdir()}


def finish(place, source, if_exists):
    """Give the same command again; where the savepoint is complete, remove other files."""
    try:
        migrate(source, place, JOB, target_exists=if_exists)
    except TargetExists:
        if {file.name for file in place.iterdir()} - {"_stateshift.json", *Savepoint.open(place).lineage.files}:
            clean(Folder.at(place))
