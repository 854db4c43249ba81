"""Checkpoints of live state in tests: one operator, whose subtasks are backends."""

from pathlib import Path

from stateshift import Operator
from stateshift.state.backends.restore import restore_keyed
from stateshift.state.backends.snapshots import OperatorSnapshot, SnapshotTarget, SubtaskSnapshot, publish_snapshot
from stateshift.state.formats.flink.metadata import METADATA, read_metadata
from stateshift.state.publication.commit import Commit
from stateshift.state.publication.publish import stream_name
from stateshift.state.savepoint.states import keyed_handles

OPERATOR = Operator("keyed-op", key=int)


def take(storage, backends, checkpoint_id=None, operator=OPERATOR):
    """Take a checkpoint of the subtasks of an operator; return its folder and the handles."""
    number = storage.next_id if checkpoint_id is None else checkpoint_id
    with storage.checkpoint(number) as folder:
        commit, subtasks = Commit(folder), []
        for index, backend in enumerate(backends):
            name = stream_name(operator.id, "keyed", index)
            future = backend.checkpoint_strategy().snapshot(SnapshotTarget(number, 0, commit, name, storage.shared))
            future.run()
            subtasks.append(SubtaskSnapshot(future.result()))
        parts = OperatorSnapshot(operator, backends[0].max_parallelism, subtasks)
        publish_snapshot(commit, [parts], number, is_checkpoint=True)
    for backend in backends:
        backend.checkpoint_strategy().notify_checkpoint_complete(number)
    return folder, [subtask.keyed.handle for subtask in subtasks]


def restore(folder, *backends):
    """Restore the subtasks of the one operator of a checkpoint that has keyed state."""
    operators = read_metadata(folder.read(METADATA)).operators
    (stored,) = (operator for operator in operators if list(keyed_handles(operator)))
    for backend in backends:
        restore_keyed(backend, stored, folder)


def contents(*backends):
    """All entries by state and key, whichever subtask has them."""
    found = {}
    for backend in backends:
        frozen = backend.freeze()
        for block in frozen.blocks():
            for key, value in block.items():
                place = frozen.header.states[block.state_id].name, key
                assert place not in found
                found[place] = value
        frozen.release()
    return found


def files_of(folder):
    """The files below a folder, relative to it."""
    root = Path(folder.place)
    return {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()}
