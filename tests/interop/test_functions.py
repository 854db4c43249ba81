"""Real Flink goes on with the operator state of our functions, which went on with that of a Java job."""

import pytest

from stateshift import (
    CheckpointedFunction,
    KeyedBroadcastProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    Savepoint,
)
from stateshift.state.testing import BroadcastHarness, HarnessSnapshot, ProcessHarness, TaskInfo, snapshot_together


class Lists(MapFunction, CheckpointedFunction):
    """Has a split and a union list; of the union list each subtask stores its own half, as it came."""

    def __init__(self, index):
        self.index = index

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.buffer = store.get_list_state(ListStateDescriptor("buffer", int))
        self.names = store.get_union_list_state(ListStateDescriptor("names", str))
        names = self.names.get()
        half = len(names) // 2
        self.own = names[half:] if self.index else names[:half]

    def snapshot_state(self, context):
        self.names.update(self.own)

    def map(self, value):
        return value


def test_flink_goes_on_with_lists(flink_restore, same_contents, savepoint_of, expected_of, restorations, tmp_path):
    name = "hashmap-operator-only-p2-m128"
    before = HarnessSnapshot.of(Savepoint.open(savepoint_of(name)), "list-op")
    subtasks = [ProcessHarness(Lists(i), task=TaskInfo(index=i, parallelism=2), uid="list-op") for i in range(2)]
    for harness in subtasks:
        harness.restore(before)
    snapshot_together(subtasks, tmp_path / "s")

    for parallelism in (None, 3):
        assert same_contents(expected_of(name), flink_restore(tmp_path / "s", parallelism=parallelism)) == []
        restorations.append((f"{name} by functions", "2.3", "2.3", "hashmap", parallelism))


class Rules(KeyedBroadcastProcessFunction):
    """Reads a broadcast map; the keyed states of the job are carried."""

    def process_element(self, value, ctx):
        yield dict(ctx.get_broadcast_state(MapStateDescriptor("rules", str, int)).items())

    def process_broadcast_element(self, value, ctx):
        return None


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_flink_goes_on_with_a_broadcast_map_and_timers(
    flink_restore, same_contents, savepoint_of, expected_of, restorations, tmp_path, backend
):
    name = "hashmap-long-p2-m128-snappy"
    before = HarnessSnapshot.of(Savepoint.open(savepoint_of(name)), "keyed-op")
    tasks = [TaskInfo(index=index, parallelism=2) for index in range(2)]
    subtasks = [BroadcastHarness(Rules(), int, int, task=task, uid="keyed-op") for task in tasks]
    for harness in subtasks:
        harness.restore(before)
    subtasks[1].process_element(-1)
    snapshot_together(subtasks, tmp_path / "s")
    expected = expected_of(name)
    expected["operators"] = [operator for operator in expected["operators"] if operator["uid"] == "keyed-op"]

    assert {f"rule-{number}": number * number for number in range(5)} == subtasks[1].output[0]
    assert same_contents(expected, flink_restore(tmp_path / "s", backend=backend)) == []
    restorations.append((f"{name} by functions", "2.3", "2.3", backend, None))
