"""Subtasks whose headers differ in the subclasses that each has met are read, and joined, as one state."""

import attrs
import pytest

from stateshift import Decision, Job, Operator, Savepoint, check, parse_edits
from stateshift.compat.planner import plan
from stateshift.state.formats.flink.handles import CANONICAL, InlineHandle, KeyGroupsHandle
from stateshift.state.formats.flink.keyed_stream import KeyedStreamReader, write_keyed_stream
from stateshift.state.formats.flink.metadata import read_metadata, write_metadata
from stateshift.state.formats.flink.sources import InlineBytes
from stateshift.state.migration.rescale import reshape
from stateshift.state.migration.run import publish_result, split
from stateshift.state.migration.run_task import perform
from stateshift.state.savepoint.verify import verify
from stateshift.state.storage.files import Folder

FANCY, OTHER = "fx.Scenarios$FancyAddress", "fx.Scenarios$OtherAddress"


@pytest.fixture
def subtasks(savepoint_copy):
    """A savepoint of Flink, redistributed to eight subtasks; the last has met another subclass than the others."""
    folder = savepoint_copy("rocksdb-subclass-unregistered")
    metadata = read_metadata((folder / "_metadata").read_bytes())
    (operator,) = (one for one in metadata.operators if one.subtasks and one.uid == "keyed-op")
    handle = operator.subtasks[0].managed_keyed
    reader = KeyedStreamReader.open(InlineBytes(handle.stream.data), handle)
    dealt = []
    for index, groups in enumerate(range(first, first + 16) for first in range(0, 128, 16)):
        data, offsets = write_keyed_stream(reader.header, groups, reader.blocks(groups))
        if index == 7:
            data = data.replace(FANCY.encode(), OTHER.encode())
        stream = InlineHandle("stream", data)
        dealt.append(
            attrs.evolve(
                operator.subtasks[0],
                index=index,
                managed_keyed=KeyGroupsHandle(CANONICAL, groups.start, offsets, stream),
            )
        )
    operators = tuple(
        attrs.evolve(one, parallelism=8, subtasks=tuple(dealt)) if one is operator else one
        for one in metadata.operators
    )
    (folder / "_metadata").write_bytes(write_metadata(attrs.evolve(metadata, operators=operators)))
    return folder


def homes(savepoint):
    return {entry.key: entry.value for entry in savepoint.operator("keyed-op").state("home").read_entries()}


def test_both_subclasses_are_described_and_read(subtasks, savepoint_of):
    savepoint = Savepoint.open(subtasks)
    state = savepoint.operator("keyed-op").state("home")
    whole = homes(Savepoint.open(savepoint_of("rocksdb-subclass-unregistered")))

    assert "" == state.unsupported
    described = state.description.value.snapshot
    assert {FANCY, OTHER} == {name for name, _ in described.unregistered_subclasses()}
    found = homes(savepoint)
    assert {FANCY, OTHER} < {home._type_name for home in found.values()}
    assert whole.keys() == found.keys()
    assert {k: v._asdict() for k, v in whole.items()} == {k: v._asdict() for k, v in found.items()}


def test_their_streams_are_joined_under_one_header(subtasks, tmp_path):
    source, target = Savepoint.open(subtasks), Folder.at(tmp_path / "new")
    job = Job([Operator("keyed-op", key=int)])
    report = check(parse_edits(drop=["homes"]).apply(source.describe()), job.describe())
    assert Decision.MIGRATE == report.decision
    migration = reshape(source, plan(report), parallelism=1)
    target.create()
    tasks = split(source, migration)
    publish_result(source, migration, tasks, [perform(task, source.folder, target) for task in tasks], target)

    found = Savepoint.open(target.place)
    assert 1 == found.operator("keyed-op").parallelism
    assert homes(source) == homes(found)
    assert verify(found).ok
