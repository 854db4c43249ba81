"""Whoever writes a savepoint, that of another job is never replaced without a word."""

from __future__ import annotations

import pytest
from damaged_checkpoints import run

from stateshift import (
    Job,
    KeyedProcessFunction,
    Operator,
    SavepointWriter,
    TargetExists,
    ValueStateDescriptor,
)
from stateshift.state.formats.flink.metadata import METADATA, SavepointMetadata
from stateshift.state.publication.commit import Commit
from stateshift.state.storage.files import Folder
from stateshift.state.testing import KeyedProcessHarness, snapshot_together


class Remember(KeyedProcessFunction):
    def __init__(self, name):
        self.name = name

    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor(self.name, str))

    def process_element(self, value, ctx):
        self.last.update(value)
        yield value


def harness(name, uid):
    made = KeyedProcessHarness(Remember(name), lambda value: value, str, uid=uid)
    made.open()
    made.process_element("a")
    return made


def files(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def by_another_run(place):
    source = place.parent / "source"
    harness("last", "other").snapshot(source)
    status, told = run("migrate", source, place, "--rename-state", "last=newest")
    assert status == 2, told
    raise TargetExists(told)


def by_a_writer(place):
    job = Job([Operator("other", key=str, states=[ValueStateDescriptor("last", str)])])
    SavepointWriter(place, job)


WRITERS = {
    "snapshot": lambda place: harness("last", "other").snapshot(place),
    "checkpoint": lambda place: harness("last", "other").snapshot(place, is_checkpoint=True),
    "the same job": lambda place: harness("total", "one").snapshot(place),
    "together": lambda place: snapshot_together([harness("last", "other")], place),
    "commit": lambda place: Commit(Folder.at(place)).publish(SavepointMetadata.new(()), job="another", states=()),
    "writer": by_a_writer,
    "migration": by_another_run,
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_savepoint_stays_as_it_was(writer, tmp_path):
    place = tmp_path / "savepoint"
    harness("total", "one").snapshot(place)
    before = files(place)

    with pytest.raises(TargetExists, match="there is a savepoint in"):
        WRITERS[writer](place)

    assert before == files(place)


def test_files_of_others_stay_where_a_snapshot_is_taken(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")

    with pytest.raises(TargetExists, match=r"notes\.txt"):
        harness("total", "one").snapshot(tmp_path)

    assert {"notes.txt": b"mine"} == files(tmp_path)


def test_a_snapshot_leaves_nothing_but_a_savepoint(tmp_path):
    harness("total", "one").snapshot(tmp_path)

    assert METADATA in files(tmp_path)
    assert not [name for name in files(tmp_path) if name.startswith(("_claim", "_run"))]
