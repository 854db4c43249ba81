"""Real Flink restores what our backends write: savepoints of each, checkpoints of the heap backend."""

import shutil
from functools import partial

import pytest
from live_backends import BACKENDS

from stateshift import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    ReducingStateDescriptor,
    Savepoint,
    ValueStateDescriptor,
)
from stateshift.compat.description import StateKind
from stateshift.state.backends.restore import restore_keyed
from stateshift.state.backends.snapshots import (
    HeapCheckpointStrategy,
    OperatorSnapshot,
    SavepointStrategy,
    SnapshotTarget,
    SubtaskSnapshot,
    publish_snapshot,
)
from stateshift.state.formats.flink.metadata import SubtaskState
from stateshift.state.key_groups import key_group_range
from stateshift.state.publication.commit import Commit
from stateshift.state.publication.publish import stream_name
from stateshift.state.storage.files import Folder
from stateshift.state.timers import queue_parts

FIXTURES = {
    "hashmap-long-p2-m128-snappy": 2,
    "rocksdb-zoo-p1-m200": 1,
    "rocksdb-string-p1-m200-snappy": 1,
    "rocksdb-namespaced-p2-m200": 2,
    "hashmap-windows-p2-m128": 2,
    "hashmap-collections": 1,
}
"""Savepoints that Flink wrote, and their parallelism."""


def descriptor(state):
    """The descriptor of a stored state, of the types that its snapshots restore to."""
    value = state.description.value.snapshot.restore_serializer()
    namespace = state.description.namespace.snapshot.restore_serializer()
    match state.kind:
        case StateKind.VALUE:
            return ValueStateDescriptor(state.name, value, namespace=namespace)
        case StateKind.LIST:
            return ListStateDescriptor(state.name, value.element, namespace=namespace)
        case StateKind.MAP:
            return MapStateDescriptor(state.name, value.key, value.value, nullable_values=True, namespace=namespace)
        case StateKind.REDUCING:
            return ReducingStateDescriptor(state.name, max, value, namespace=namespace)
    return AggregatingStateDescriptor(state.name, None, value, namespace=namespace)


def live(make, operator, folder, parallelism):
    """Backends that hold the keyed state of an operator as objects: each state and each queue has a handle."""
    stored, key = operator.stored, operator.key.restore_serializer()
    maximum = stored.max_parallelism
    for index in range(parallelism):
        backend = make(key, maximum, key_group_range(index, parallelism, maximum))
        restore_keyed(backend, stored, folder)
        for state in operator.states:
            if state.kind is StateKind.TIMERS:
                backend.create_timer_queue(
                    *queue_parts(state.name), state.description.value.snapshot.children()[1].restore_serializer()
                )
            elif state.kind.is_keyed:
                backend.get_or_create_keyed_state(descriptor(state))
        yield backend


def rewritten(source, target, make, parallelism, strategy_of):
    """Restore a savepoint into backends, and write what these hold."""
    savepoint, folder = Savepoint.open(source), Folder.at(target)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("_metadata"))  # files of operator state
    commit, operators = Commit(folder), []
    for operator in savepoint.operators:
        stored = operator.stored
        kept = {subtask.index: subtask for subtask in stored.subtasks}
        results = []
        backends = live(make, operator, savepoint.folder, parallelism) if operator.key is not None else ()
        for index, backend in enumerate(backends):
            snapshot = strategy_of(backend).snapshot(
                SnapshotTarget(5, 0, commit, stream_name(operator.operator_id, "keyed", index))
            )
            snapshot.run()
            results.append(snapshot.result())
            backend.dispose()
        subtasks = [
            SubtaskSnapshot(result, kept.get(index, SubtaskState(index)).managed_operator)
            for index, result in enumerate(results)
        ] or [SubtaskSnapshot(lists=subtask.managed_operator) for _, subtask in sorted(kept.items())]
        identity = Operator(operator.uid, operator_id="" if operator.uid else operator.operator_id)
        operators.append(OperatorSnapshot(identity, stored.max_parallelism, subtasks))
    publish_snapshot(commit, operators, 5, is_checkpoint=strategy_of is not SavepointStrategy)
    return target


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FIXTURES)
def test_flink_restores_a_savepoint_of_each_backend(
    flink_restore, same_contents, savepoint_of, expected_of, restorations, tmp_path, name, backend
):
    written = rewritten(savepoint_of(name), tmp_path / "s", BACKENDS[backend], FIXTURES[name], SavepointStrategy)

    for flink_backend, parallelism in (("hashmap", None), ("rocksdb", 3)):
        restored = flink_restore(written, backend=flink_backend, parallelism=parallelism)
        assert same_contents(expected_of(name), restored) == []
        restorations.append((f"{name} by {backend}", "2.3", "2.3", flink_backend, parallelism))


@pytest.mark.parametrize("name", FIXTURES)
def test_flink_restores_a_heap_checkpoint(
    flink_restore, same_contents, savepoint_of, expected_of, restorations, tmp_path, name
):
    make = BACKENDS["hashmap"]
    compressed = partial(HeapCheckpointStrategy, compressed="snappy" in name)
    written = rewritten(savepoint_of(name), tmp_path / "s", make, FIXTURES[name], compressed)

    for parallelism in (None, 3):
        restored = flink_restore(written, parallelism=parallelism)
        assert same_contents(expected_of(name), restored) == []
        restorations.append((f"{name}, checkpoint", "2.3", "2.3", "hashmap", parallelism))
