"""Real Flink restores what was redistributed to other subtasks, and what we compressed."""

from __future__ import annotations

import pytest

from stateshift import (
    Compression,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    Savepoint,
    SavepointWriter,
    TimerServiceDescriptor,
    TimeWindow,
    ValueStateDescriptor,
    migrate,
)
from stateshift.state.savepoint.json_encoding import tagged_operator

# Flink's local cluster has four slots: no more than four subtasks can be started in it.
SHAPES = [
    ("hashmap-long-p2-m128-snappy", 3, Compression.KEEP, "rocksdb", 2),
    ("hashmap-string-p2-m128-files", 5, Compression.SNAPPY, "hashmap", 4),
    ("rocksdb-tuple-p2-m128", 1, Compression.SNAPPY, "rocksdb", 3),
    ("rocksdb-string-p1-m200-snappy", 2, Compression.NONE, "hashmap", 1),
    ("rocksdb-windows-p1-m200", 3, Compression.SNAPPY, "rocksdb", 1),
    ("hashmap-operator-only-p2-m128", 5, Compression.SNAPPY, "hashmap", 2),
]


@pytest.fixture(scope="module")
def reshaped(spark, tmp_path_factory):
    """`reshaped(source, parallelism=…, compression=…)`: the same types, dealt out again."""

    def run(source, **shape):
        target = tmp_path_factory.mktemp("reshaped") / "savepoint"
        same = Savepoint.open(source).describe().as_probe()
        migrate(source, target, same, MigrationOptions(**shape), session=spark)
        return target

    return run


@pytest.mark.parametrize(("name", "parallelism", "compression", "backend", "restored_at"), SHAPES)
def test_contents_are_the_same(
    flink_restore, same_contents, expected_of, savepoint_of, reshaped, name, parallelism, compression, backend,
    restored_at,
):  # fmt: skip
    target = reshaped(savepoint_of(name), parallelism=parallelism, compression=compression)

    restored = flink_restore(target, backend=backend, parallelism=restored_at)

    assert same_contents(expected_of(name), restored) == []


def subtasks(restored):
    """What each subtask has of each operator state; in which order it gets runs of elements is up to Java's hashes."""
    return [
        {name: list(map(sorted, state["subtasks"])) for name, state in operator["operator"].items()}
        for operator in restored["operators"]
        if operator.get("operator")
    ]


@pytest.mark.parametrize("parallelism", [1, 3, 4])
def test_each_subtask_gets_the_elements_that_flink_would_give_it(flink_restore, reshaped, tmp_path, parallelism):
    names = ["pending", "offsets", "elements", "Aa", "BB", "a", "union-like"]
    lists = [ListStateDescriptor(name, int) for name in names]
    job = Job([Operator("lists", list_states=lists, union_list_states=[ListStateDescriptor("known", str)])])
    with SavepointWriter(tmp_path / "source", job, parallelism=2) as writer:
        for number, name in enumerate(names):
            for element in range(number + 3):
                writer.add("lists", name, 100 * number + element, subtask=element % 2)
        for element in range(7):
            writer.add("lists", "known", f"known-{element}", subtask=element // 4)

    by_flink = flink_restore(tmp_path / "source", parallelism=parallelism)
    by_us = flink_restore(reshaped(tmp_path / "source", parallelism=parallelism), parallelism=parallelism)

    assert "restored" == by_flink["status"] == by_us["status"]
    assert subtasks(by_flink)
    assert subtasks(by_flink) == subtasks(by_us)


ALL = Job(
    [
        Operator(
            "all",
            key=str,
            states=[
                ValueStateDescriptor("value", str),
                MapStateDescriptor("map", int, float),
                ListStateDescriptor("windows", int, namespace=TimeWindow),
                ListStateDescriptor("named", Int32, namespace=str),
            ],
            timers=[TimerServiceDescriptor()],
            list_states=[ListStateDescriptor("list", str)],
            broadcast_states=[MapStateDescriptor("rules", str, int)],
        ),
        Operator("sessions", key=int, timers=[TimerServiceDescriptor("window-timers", namespace=TimeWindow)]),
    ]
)


def write_all(place, **shape):
    """Savepoints with entries and timers of hundreds of keys."""
    with SavepointWriter(place, ALL, **shape) as writer:
        for number in range(300):
            key, window = f"key-{number}", TimeWindow(number, number + 10)
            writer.put("all", "value", key, key * 3)
            writer.put("all", "map", key, {item: item / 2 for item in range(number % 4)})
            writer.put("all", "windows", key, [number, 44], namespace=window)
            writer.put("all", "named", key, [number], namespace="ä" * (number % 300))
            writer.register_event_time_timer("all", 4102444800000 + number, key)
            writer.register_processing_time_timer("all", 4102444800000 - number, key)
            writer.register_event_time_timer("sessions", number - 5, number, namespace=window)
            writer.add("all", "list", key, subtask=number % 2)
        writer.put_broadcast("all", "rules", "limit", 7)


@pytest.mark.parametrize(
    ("max_parallelism", "parallelism", "restored_at", "backend"),
    [(64, 5, 2, "hashmap"), (129, 3, 4, "rocksdb"), (300, 1, 3, "hashmap"), (128, 2, 1, "rocksdb")],
)
def test_timers_windows_and_lists_of_ours_are_restored(
    flink_restore, same_contents, reshaped, tmp_path, max_parallelism, parallelism, restored_at, backend
):
    shape = {"max_parallelism": max_parallelism, "parallelism": 2, "compression": Compression.SNAPPY}
    write_all(tmp_path / "source", **shape)
    source = Savepoint.open(tmp_path / "source")
    expected = {"operators": [tagged_operator(operator, operator.states) for operator in source.operators]}

    restored = flink_restore(reshaped(source.place, parallelism=parallelism), backend=backend, parallelism=restored_at)

    assert same_contents(expected, restored) == []
