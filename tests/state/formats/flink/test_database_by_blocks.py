"""Native snapshots, read by blocks of their files: their entries are those that RocksDB gives."""

from __future__ import annotations

import native_snapshots
import pytest

from stateshift.state.formats.flink.keyed_readers import open_keyed
from stateshift.state.rocksdb.database import Database
from stateshift.state.savepoint.reader import Savepoint
from stateshift.state.transcode.executor_choice import ExecutorName
from stateshift.state.transcode.frames import survey

pytest.importorskip("numba")


def entries(savepoint, handle, max_parallelism, executor):
    """The entries by key group and state."""
    found = {}
    with open_keyed(handle, savepoint.folder, max_parallelism, executor=executor) as reader:
        for block in reader.blocks():
            assert survey(block.data, b"").last == block.last_entry
            found.setdefault((block.key_group, block.state_id), []).extend(block.items())
            block.data[:] = b"\xff" * len(block.data)  # it is the consumer's
    return found


@pytest.mark.parametrize("name", native_snapshots.NAMES)
def test_the_entries_are_those_that_rocksdb_gives(name, monkeypatch):
    savepoint, by_blocks = Savepoint.open(native_snapshots.snapshot(name)), []
    read = Database.by_blocks

    def noted(*arguments):
        found = read(*arguments)
        by_blocks.append(found is not None)
        return found

    monkeypatch.setattr(Database, "by_blocks", noted)
    for operator in savepoint.metadata.operators:
        for subtask in operator.subtasks:
            handle = subtask.managed_keyed
            if handle is not None:
                one, other = (
                    entries(savepoint, handle, operator.max_parallelism, executor)
                    for executor in (ExecutorName.OBJECTS, ExecutorName.NUMBA)
                )
                assert one == other
    assert any(by_blocks)
