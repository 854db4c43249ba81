"""Strategies: what they write is read back, what they hold is released in every ending."""

import threading
from concurrent.futures import CancelledError

import attrs
import pytest

from stateshift import (
    HashMapStateBackend,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    Savepoint,
    TimeDomain,
    TimeWindow,
    ValueNotConvertible,
    ValueStateDescriptor,
    serializer_for,
)
from stateshift.serializers.flink.namespaces import VOID_NAMESPACE, TimeWindowSerializer, VoidNamespaceSerializer
from stateshift.state.backends.snapshots import (
    HeapCheckpointStrategy,
    OperatorSnapshot,
    SavepointStrategy,
    SnapshotTarget,
    SubtaskSnapshot,
    publish_snapshot,
)
from stateshift.state.formats.flink.handles import CANONICAL, NATIVE
from stateshift.state.formats.flink.keyed_readers import open_keyed
from stateshift.state.publication.commit import Commit
from stateshift.state.savepoint.verify import verify
from stateshift.state.storage.files import Folder

OPERATOR = Operator("keyed-op", key=int)
STRATEGIES = {"savepoint": SavepointStrategy, "checkpoint": HeapCheckpointStrategy}


def filled(key_groups=range(8), keys=range(100)):
    backend = HashMapStateBackend(serializer_for(int), 8, key_groups)
    value = backend.get_or_create_keyed_state(ValueStateDescriptor("value", str))
    windows = backend.get_or_create_keyed_state(ListStateDescriptor("list", str, namespace=TimeWindowSerializer()))
    mapped = backend.get_or_create_keyed_state(MapStateDescriptor("map", str, int | None))
    backend.get_or_create_keyed_state(ListStateDescriptor("empty", int))
    timers = backend.create_timer_queue("user-timers", TimeDomain.EVENT_TIME, VoidNamespaceSerializer())
    for key in keys:
        try:
            backend.set_current_key(key)
        except ValueNotConvertible:
            continue  # of another subtask
        value.update("," * key)
        for start in range(key % 3):
            windows.set_current_namespace(TimeWindow(start, start + 1))
            windows.update([","] * (key % 5 + 1))
        mapped.put_all({"a": key, "b": None})
        timers.add(1000 - key, key, VOID_NAMESPACE)
    return backend


def contents(blocks):
    """All entries, sorted within a key group and state, as the order of maps is not part of the format."""
    found = {}
    for block in blocks:
        found.setdefault((block.key_group, block.state_id), []).extend(block.items())
    return {place: sorted(items) for place, items in found.items()}


def target_in(place, subtask=0):
    folder = Folder.at(place)
    folder.create()
    return SnapshotTarget(3, 1_700_000_000_000, Commit(folder), f"{OPERATOR.id}-keyed-{subtask}")


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_what_a_strategy_writes_is_what_was_frozen(tmp_path, strategy, compressed):
    backend = filled()
    frozen = backend.freeze()
    target = target_in(tmp_path / "s")
    snapshot = strategy(backend, compressed=compressed).snapshot(target)
    backend.set_current_key(1)
    backend.get_or_create_keyed_state(ValueStateDescriptor("value", str)).clear()
    snapshot.run()
    result = snapshot.result()

    assert {frozen} == backend.snapshots
    assert {"value": 100, "list": 99, "map": 200, "empty": 0, "_timer_state/event_user-timers": 100} == {
        info.name: count for info, count in result.counts
    }
    with open_keyed(result.handle, target.commit.folder, 8) as reader:
        assert attrs.evolve(frozen.header, compressed=compressed) == reader.header
        assert contents(frozen.blocks()) == contents(reader.blocks())


@pytest.mark.parametrize("is_checkpoint", [False, True])
def test_a_published_snapshot_verifies_and_restores_at_another_parallelism(tmp_path, is_checkpoint):
    groups = [range(3), range(3, 6), range(6, 8)]
    subtasks, commit = [], target_in(tmp_path / "s").commit
    for index, key_groups in enumerate(groups):
        backend = filled(key_groups)
        strategy = backend.checkpoint_strategy() if is_checkpoint else SavepointStrategy(backend)
        target = SnapshotTarget(7, 0, commit, f"{OPERATOR.id}-keyed-{index}")
        future = strategy.snapshot(target)
        future.run()
        subtasks.append(SubtaskSnapshot(future.result()))
    publish_snapshot(commit, [OperatorSnapshot(OPERATOR, 8, subtasks)], 7, is_checkpoint=is_checkpoint)
    savepoint = Savepoint.open(tmp_path / "s")
    whole = HashMapStateBackend(serializer_for(int), 8, range(8))
    handles = [subtask.keyed.handle for subtask in subtasks]
    for handle in handles:
        with open_keyed(handle, commit.folder, 8) as reader:
            whole.restore(reader)

    assert verify(savepoint).ok
    assert {NATIVE if is_checkpoint else CANONICAL} == {handle.tag for handle in handles}
    assert contents(filled().freeze().blocks()) == contents(whole.freeze().blocks())
    values = {entry.key: entry.value for entry in savepoint.operator("keyed-op").state("value").read_entries()}
    assert {key: "," * key for key in range(100)} == values


def test_a_backend_without_states_has_no_handle(tmp_path):
    backend = HashMapStateBackend(serializer_for(int), 8, range(8))
    snapshot = SavepointStrategy(backend).snapshot(target_in(tmp_path / "s"))
    snapshot.run()

    assert snapshot.result().handle is None


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_a_failed_snapshot_releases_and_leaves_no_file(tmp_path, strategy):
    backend = filled()
    backend.set_current_key(5)
    backend.get_or_create_keyed_state(ValueStateDescriptor("value", str)).update(5)
    snapshot = strategy(backend).snapshot(target_in(tmp_path / "s"))
    snapshot.run()

    with pytest.raises(ValueNotConvertible):
        snapshot.result()
    assert set() == backend.snapshots
    assert [] == list((tmp_path / "s").iterdir())


def test_a_snapshot_that_is_cancelled_before_it_runs_releases(tmp_path):
    backend = filled()
    snapshot = SavepointStrategy(backend).snapshot(target_in(tmp_path / "s"))

    assert snapshot.cancel()
    assert set() == backend.snapshots
    snapshot.run()
    with pytest.raises(CancelledError):
        snapshot.result()


def test_a_snapshot_that_is_cancelled_while_it_runs_ends_and_releases(tmp_path):
    backend = filled()
    target = target_in(tmp_path / "s")
    reached, goes_on = threading.Event(), threading.Event()
    steps = target.steps

    def slow_steps(items):
        for item in steps(items):
            reached.set()
            assert goes_on.wait(60)
            yield item

    target.steps = slow_steps
    snapshot = SavepointStrategy(backend).snapshot(target)
    thread = threading.Thread(target=snapshot.run)
    thread.start()
    assert reached.wait(60)
    assert not snapshot.cancel()
    goes_on.set()
    thread.join()

    with pytest.raises(CancelledError):
        snapshot.result()
    assert set() == backend.snapshots
    assert [] == list((tmp_path / "s").iterdir())
