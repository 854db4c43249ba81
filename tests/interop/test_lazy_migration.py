"""Real Flink and a lazy migration: it refuses checkpoints while one goes on, and restores savepoints and each end."""

from __future__ import annotations

import attrs
import pyarrow as pa
import pytest
from lazy_lives import Life
from live_backends import BACKENDS
from streaming_batches import close_slots

from stateshift import (
    DeclarationError,
    Job,
    KeyedProcessFunction,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    Repartition,
    Savepoint,
    SavepointFormatType,
    ValueStateDescriptor,
)
from stateshift.spark.streaming.savepoints import take_savepoint
from stateshift.state.migration.edits import parse_edits
from stateshift.state.streaming import slot
from stateshift.state.testing import KeyedProcessHarness, migrate_in_process


@attrs.frozen
class Number:
    key: int


class Numbers(KeyedProcessFunction):
    """Keeps numbers of a type in two states."""

    def __init__(self, of):
        self.of = of

    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("number", self.of))
        self.map = runtime_context.get_map_state(MapStateDescriptor("by name", str, self.of))

    def process_element(self, value, ctx):
        self.value.update(self.of(ctx.get_current_key()))
        self.map.put("x", self.of(ctx.get_current_key()))


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
    canonical = MigrationOptions(format=SavepointFormatType.CANONICAL)
    migrate_in_process(half, tmp_path / "migrated", job, canonical)
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


def test_flink_restores_each_end_of_a_lazy_migration_of_a_query(
    flink_restore, same_contents, restorations, tmp_path, monkeypatch
):
    functions = {1: Numbers(int), 2: Numbers(float)}
    rows = {"schema": {"key": pa.int64()}, "key": ("key",), "element": Number, "output": int, "uid": "numbers"}
    life = Life(tmp_path, BACKENDS["rocksdb"], functions, **rows)
    monkeypatch.setattr(slot, "MIGRATED_PER_BATCH", 0)
    try:
        life.start(1)
        life.engine.batch([{"key": key} for key in range(4800)])
        life.start(2, "lazy", MigrationOptions())
        life.engine.batch([{"key": key} for key in range(4500, 5000)])

        with pytest.raises(DeclarationError, match="is not over"):
            take_savepoint(life.place, tmp_path / "refused")
        states = [ValueStateDescriptor("number", float), MapStateDescriptor("by name", str, float)]
        job = Job([Operator("numbers", key=int, states=states)])
        migrate_in_process(Savepoint.open(life.place), tmp_path / "migrated", job, MigrationOptions())
        monkeypatch.setattr(slot, "MIGRATED_PER_BATCH", 5000)
        for _ in range(4):
            life.engine.batch([{"key": key} for key in range(20)])
            life.engine.new_process()
        for _ in range(2):  # the first start sees that nothing is left, and the second gives the table its name
            life.start(2)
            life.engine.batch([{"key": key} for key in range(20)])
        take_savepoint(life.place, tmp_path / "over")
    finally:
        close_slots()

    ends = [("migrated", "rocksdb", 2), ("over", "hashmap", None)]
    for place, backend, parallelism in ends:
        restored = flink_restore(tmp_path / place, backend=backend, parallelism=parallelism)
        assert same_contents(expected(range(5000)), restored) == []
        restorations.append((f"lazy migration of a query, {place}", "2.3", "2.3", backend, parallelism))
