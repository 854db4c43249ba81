"""A store that acknowledges the last file of a publication and does not have it as it was written: nothing succeeds."""

from __future__ import annotations

import pytest
from damaged_checkpoints import run
from spark_checkpoints import place

from stateshift import KeyedProcessFunction, StorageFailed, ValueStateDescriptor
from stateshift.state.formats.flink.metadata import METADATA
from stateshift.state.formats.spark.reader import SparkCheckpoint
from stateshift.state.formats.spark.recording import Recorder
from stateshift.state.storage.files import Folder
from stateshift.state.testing import KeyedProcessHarness


def cut(folder, name, data):
    with folder.output(name) as stream:
        stream.write(data[: len(data) // 2])


LOSSES = {
    "lost": lambda folder, name, _: folder.delete(name),
    "cut": cut,
}


@pytest.fixture(params=LOSSES)
def lossy(request, monkeypatch):
    """`lossy(name)`: from now on stores lose files of this name, if they begin so."""
    write = Folder.write

    def begin(lost, starts=b""):
        def lose(folder, name, data):
            write(folder, name, data)
            if name == lost and data.startswith(starts):
                LOSSES[request.param](folder, name, data)

        monkeypatch.setattr(Folder, "write", lose)

    return begin


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value


def counting():
    harness = KeyedProcessHarness(Count(), lambda value: value, str)
    harness.open()
    harness.process_element("a")
    return harness


def test_a_snapshot_is_refused(lossy, tmp_path):
    harness = counting()
    lossy(METADATA)

    with pytest.raises(StorageFailed, match="the store has acknowledged a file"):
        harness.snapshot(tmp_path / "savepoint")

    assert not (tmp_path / "savepoint" / METADATA).exists()


def test_a_migration_of_a_savepoint_is_refused(lossy, tmp_path):
    counting().snapshot(tmp_path / "savepoint")
    lossy(METADATA)

    status, told = run("migrate", tmp_path / "savepoint", tmp_path / "migrated", "--rename-state", "count=total")

    assert status == 6, told
    assert "the store has acknowledged a file" in told
    assert not (tmp_path / "migrated" / METADATA).exists()


@pytest.mark.parametrize("starts", [b"{", b"stateshift"], ids=["last", "first"])
def test_a_copy_of_a_spark_checkpoint_is_refused(lossy, tmp_path, starts):
    lossy("metadata", starts)

    source = place("aggregation")
    status, told = run("migrate", f"spark:{source}", f"spark:{tmp_path / 'copy'}", "--like", f"spark:{source}")

    assert status == 3
    assert "the store has acknowledged a file" in told


def test_a_recording_is_refused(lossy, tmp_path):
    checkpoint = SparkCheckpoint.open(place("aggregation"))
    lossy("0.json")
    recorder = Recorder(Folder.at(tmp_path), checkpoint.describe(), checkpoint.log.query_id, 0)
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").touch()

    with pytest.raises(StorageFailed, match="the store has acknowledged a file"):
        recorder.record()


@pytest.mark.parametrize("is_checkpoint", [False, True])
def test_a_snapshot_whose_stream_was_lost_is_refused(monkeypatch, tmp_path, is_checkpoint):
    harness = counting()
    for number in range(2_000):
        harness.process_element(f"key number {number}")
    rename = Folder.rename

    def lose(folder, name, new_name):
        rename(folder, name, new_name)
        if "-keyed-" in new_name:
            folder.delete(new_name)

    monkeypatch.setattr(Folder, "rename", lose)

    with pytest.raises(StorageFailed, match="the store has acknowledged a file, and does not have it"):
        harness.snapshot(tmp_path / "savepoint", is_checkpoint=is_checkpoint)

    assert not (tmp_path / "savepoint" / METADATA).exists()
