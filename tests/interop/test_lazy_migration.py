"""Real Flink and a lazy migration: it refuses checkpoints while one goes on, and restores savepoints and each end."""

from __future__ import annotations

import pytest
from live_backends import BACKENDS

from stateshift import (
    Job,
    KeyedProcessFunction,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    Repartition,
    Savepoint,
    ValueStateDescriptor,
)
from stateshift.state.edits import parse_edits
from stateshift.state.migration.in_process import migrate_in_process
from stateshift.state.testing import KeyedProcessHarness


class Numbers(KeyedProcessFunction):
    """Keeps numbers of a type in two states."""

    def __init__(self, of):
        self.of = of

    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("number", self.of))
        self.map = runtime_context.get_map_state(MapStateDescriptor("by name", str, self.of))

    def process_element(self, value, ctx):
        self.value.update(self.of(value))
        self.map.put("x", self.of(value))


def expected(numbers):
    values = [[key, float(key)] for key in numbers]
    maps = [[key, {"$map": [["x", float(key)]]}] for key in numbers]
    keyed = {"number": {"entries": values}, "by name": {"entries": maps}}
    return {"operators": [{"operator_id": OPERATOR_ID, "keyed": keyed}]}


OPERATOR_ID = Operator("numbers").id


@pytest.fixture
def harness():
    made = KeyedProcessHarness(Numbers(int), int, int, backend=BACKENDS["rocksdb"], uid="numbers")
    yield made
    made.close()


def test_flink_refuses_what_is_half_migrated_and_restores_the_rest(
    flink_restore, same_contents, restorations, harness, tmp_path
):
    harness.process_elements(*range(4800))
    harness.restore(harness.snapshot(tmp_path / "before", is_checkpoint=True), function=Numbers(float), lazy=True)
    harness.process_elements(*range(4500, 5000))
    harness.migrate_some(100)
    harness.snapshot(tmp_path / "half", is_checkpoint=True)
    harness.snapshot(tmp_path / "savepoint")
    while harness.migrate_some(100):
        pass
    harness.snapshot(tmp_path / "over", is_checkpoint=True)

    half, states = Savepoint.open(tmp_path / "half"), [ValueStateDescriptor("number", float)]
    job = Job([Operator("numbers", key=int, states=[*states, MapStateDescriptor("by name", str, float)])])
    renamed = MigrationOptions(edits=parse_edits(rename_states=["number=other"]))
    migrate_in_process(half, tmp_path / "migrated", job, MigrationOptions())
    other_groups = MigrationOptions(repartition=Repartition(max_parallelism=64))
    migrate_in_process(half, tmp_path / "groups", job, other_groups)
    migrate_in_process(half, tmp_path / "renamed", None, renamed)
    for place in ("half", "renamed"):
        refused = flink_restore(tmp_path / place, backend="rocksdb")
        assert "failed" == refused["status"]
        assert any("stateshift/lazy-migration" in cause for cause in refused["causes"])
    ends = [(*end, parallelism) for end in (("savepoint", "hashmap"), ("savepoint", "rocksdb"), ("over", "rocksdb"))
            for parallelism in (None, 3)]  # fmt: skip
    ends += [("migrated", "hashmap", None), ("migrated", "rocksdb", 3), ("groups", "rocksdb", None)]
    for place, backend, parallelism in ends:
        restored = flink_restore(tmp_path / place, backend=backend, parallelism=parallelism)
        assert same_contents(expected(range(5000)), restored) == []
        restorations.append((f"lazy migration, {place}", "2.3", "2.3", backend, parallelism))
