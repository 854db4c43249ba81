"""Timers that a job on RocksDB kept on the heap: carried over from a checkpoint, missing in a native savepoint.

The fixtures are of the job `tests/interop/flink-restore/src/main/fx/HeapTimers.java`.
"""

from __future__ import annotations

import json
import shutil

import attrs
import pytest

from stateshift import Job, Operator, ValueStateDescriptor
from stateshift.serializers.errors import IncompatibleState
from stateshift.spark.migrate import migrate, repartition
from stateshift.state.migration.options import MigrationOptions
from stateshift.state.savepoint.handles import InlineHandle
from stateshift.state.savepoint.metadata import METADATA, read_metadata, write_metadata
from stateshift.state.savepoint.reader import Savepoint
from stateshift.state.savepoint.sources import open_stream

TIMERS, WINDOWS = "timers", "windows"
KEPT = "raw keyed state (timers that the job kept on the heap)"
WIDER = Job([Operator(TIMERS, key=str, states=[ValueStateDescriptor("count", int)])])
CHECKPOINT, NATIVE = "rocksdb-heap-timers-p2", "rocksdb-heap-timers-native-p1"
WITH_QUEUES = "rocksdb-native-long-p2-m200"


@pytest.fixture
def snapshot_copy(root, tmp_path):
    """`snapshot_copy(name)`: a copy of a native fixture, which a test may damage."""

    def copy(name):
        folder = shutil.copytree(root / "tests/fixtures/flink-2.3-native" / name, tmp_path / name)
        return folder / json.loads((folder / "expected.json").read_text(encoding="utf-8"))["snapshot"]

    return copy


@pytest.fixture
def checkpoint(snapshot_copy):
    return snapshot_copy(CHECKPOINT)


def raw_bytes(savepoint):
    """Give the bytes of each stream of raw keyed state, by operator and subtask, with its key groups and offsets."""
    found = {}
    for operator in savepoint.operators:
        for subtask in operator.stored.subtasks:
            if subtask.raw_keyed is not None:
                with open_stream(subtask.raw_keyed.stream, operator.folder) as source:
                    data = source.read_at(0, source.size)
                handle = subtask.raw_keyed
                found[operator.uid, subtask.index] = (data, handle.tag, handle.key_groups, handle.offsets)
    return found


@pytest.mark.parametrize("job", [None, WIDER], ids=["same types", "another type"])
def test_a_migration_carries_the_timers_of_a_checkpoint_over_byte_for_byte(checkpoint, tmp_path, job):
    source = Savepoint.open(checkpoint)
    migrate(checkpoint, tmp_path / "after", job)

    after = Savepoint.open(tmp_path / "after")
    assert {(TIMERS, 0), (TIMERS, 1), (WINDOWS, 0), (WINDOWS, 1)} == raw_bytes(after).keys()
    assert raw_bytes(source) == raw_bytes(after)
    for savepoint in (source, after):
        assert [(KEPT,), (KEPT,)] == [savepoint.operator(uid).keeps for uid in (TIMERS, WINDOWS)]


def test_other_raw_keyed_state_is_not_called_timers(checkpoint):
    data = (checkpoint / METADATA).read_bytes()
    metadata = read_metadata(data)

    def of_another(subtask):
        handle = subtask.raw_keyed
        if handle is None:
            return subtask
        stream = InlineHandle("raw", b"\0" * handle.size)
        return attrs.evolve(subtask, raw_keyed=attrs.evolve(handle, stream=stream))

    operators = [attrs.evolve(one, subtasks=tuple(map(of_another, one.subtasks))) for one in metadata.operators]
    (checkpoint / METADATA).write_bytes(write_metadata(attrs.evolve(metadata, operators=tuple(operators))))

    assert ("raw keyed state",) == Savepoint.open(checkpoint).operator(TIMERS).keeps


def test_raw_keyed_state_that_cannot_be_read_is_not_called_timers(checkpoint):
    handle = Savepoint.open(checkpoint).operator(TIMERS).stored.subtasks[0].raw_keyed
    (checkpoint / handle.stream.path).unlink()

    assert ("raw keyed state",) == Savepoint.open(checkpoint).operator(TIMERS).keeps


def test_operators_with_such_timers_keep_their_parallelism_and_key_groups(checkpoint, tmp_path):
    with pytest.raises(IncompatibleState, match="the operator has raw state"):
        migrate(checkpoint, tmp_path / "after", None, MigrationOptions(parallelism=3))
    with pytest.raises(IncompatibleState, match="the operator has raw keyed state"):
        repartition(checkpoint, tmp_path / "after", max_parallelism=256)

    assert not (tmp_path / "after").exists()


def test_a_native_savepoint_without_any_timers_says_that_flink_leaves_such_timers_out(snapshot_copy, tmp_path):
    source = snapshot_copy(NATIVE)
    report = migrate(source, tmp_path / "after", None)

    assert {} == raw_bytes(Savepoint.open(source))
    assert "use its last checkpoint, or take a canonical savepoint" in report.missing_timers
    assert report.missing_timers == report.to_data()["missing_timers"] == Savepoint.open(source).missing_timers


@pytest.mark.parametrize("name", [CHECKPOINT, WITH_QUEUES, "rocksdb-incremental-string-p1-m128"])
def test_nothing_is_missing_from_a_checkpoint_or_where_there_are_queues_of_timers(snapshot_copy, name):
    assert "" == Savepoint.open(snapshot_copy(name)).missing_timers


def test_nothing_is_missing_from_a_canonical_savepoint(savepoint_of):
    assert "" == Savepoint.open(savepoint_of("rocksdb-account-v1")).missing_timers
