"""Timers that a job on RocksDB kept on the heap: carried over from a checkpoint, missing in a native savepoint.

The fixtures are of the job `tests/interop/flink-restore/src/main/fx/HeapTimers.java`.
"""

from __future__ import annotations

import json
import shutil

import attrs
import pytest

from stateshift import (
    IncompatibleState,
    Job,
    MigrationOptions,
    Operator,
    Repartition,
    Savepoint,
    ValueStateDescriptor,
    migrate,
)
from stateshift.state.formats.flink.handles import InlineHandle
from stateshift.state.formats.flink.metadata import METADATA, read_metadata, write_metadata
from stateshift.state.formats.flink.sources import open_stream
from stateshift.state.savepoint.verify import Outcome, verify

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


def raw_file(checkpoint, subtask):
    """The file of the timers of one subtask."""
    return checkpoint / Savepoint.open(checkpoint).operator(TIMERS).stored.subtasks[subtask].raw_keyed.stream.path


def raw_checks(checkpoint):
    return {check.where: check for check in verify(checkpoint).checks if check.name == "raw state"}


def test_what_only_the_operator_can_read_is_unproven(checkpoint):
    checks = raw_checks(checkpoint)

    assert [Outcome.UNPROVEN] * 2 == [check.status for check in checks.values()]
    assert f"{KEPT}: 2 streams with 28,450 bytes, which only the operator itself can read" == checks[TIMERS].detail


@pytest.mark.parametrize("subtask", [0, 1])
def test_a_stream_of_timers_without_the_mark_of_the_others_is_a_failure(checkpoint, subtask):
    """One of zeros has the size that it should have: only its content shows that it is damaged."""
    file = raw_file(checkpoint, subtask)
    file.write_bytes(bytes(file.stat().st_size))

    check = raw_checks(checkpoint)[TIMERS]

    lacks = f"the mark of timers is missing in subtask {subtask} at key group {64 * subtask}, although others have it"
    assert (Outcome.FAILED, f"{KEPT}: {lacks}") == (check.status, check.detail)
    assert not verify(checkpoint).ok


def test_each_key_group_of_timers_has_the_mark(checkpoint):
    handle, file = Savepoint.open(checkpoint).operator(TIMERS).stored.subtasks[0].raw_keyed, raw_file(checkpoint, 0)
    data = bytearray(file.read_bytes())
    data[handle.offsets[40]] ^= 1
    file.write_bytes(data)

    assert "subtask 0 at key group 40," in raw_checks(checkpoint)[TIMERS].detail


def test_a_missing_stream_of_timers_is_one_failure(checkpoint):
    raw_file(checkpoint, 0).unlink()

    failed = [check for check in verify(checkpoint).checks if check.status is Outcome.FAILED]

    assert ["structure"] == [check.name for check in failed]


def test_a_report_of_a_migration_has_what_was_carried_over_as_bytes(checkpoint, tmp_path):
    data = migrate(checkpoint, tmp_path / "after").to_data()

    assert [
        {"operator": TIMERS, "what": KEPT, "streams": 2, "bytes": 28450},
        {"operator": WINDOWS, "what": KEPT, "streams": 2, "bytes": 30050},
    ] == data["carried_over"]


def test_operators_with_such_timers_keep_their_parallelism_and_key_groups(checkpoint, tmp_path):
    with pytest.raises(IncompatibleState, match="the operator has raw state"):
        migrate(checkpoint, tmp_path / "after", None, MigrationOptions(parallelism=3))
    with pytest.raises(IncompatibleState, match="the operator has raw keyed state"):
        migrate(checkpoint, tmp_path / "after", None, MigrationOptions(repartition=Repartition(max_parallelism=256)))

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
