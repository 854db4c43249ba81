"""Real Flink restores state whose keys were rewritten: another number of key groups, another type (ROLE-4)."""

from __future__ import annotations

import operator as functions

import pytest

from stateshift import (
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    MigrationOptions,
    Operator,
    Repartition,
    Savepoint,
    SavepointWriter,
    TimerServiceDescriptor,
    TimeWindow,
    ValueStateDescriptor,
    migrate,
)
from stateshift.state.savepoint.json_encoding import tagged_operator


@pytest.fixture(scope="module")
def repartitioned(spark, tmp_path_factory):
    """`repartitioned(source, job, parallelism=…, max_parallelism=…, merge=…)`: keys rewritten, on Spark."""

    def run(source, job=None, *, parallelism=None, **wanted):
        target = tmp_path_factory.mktemp("repartitioned") / "savepoint"
        options = MigrationOptions(repartition=Repartition(**wanted), parallelism=parallelism)
        migrate(source, target, job, options, session=spark)
        return target

    return run


@pytest.mark.parametrize(
    ("name", "groups", "parallelism", "backend", "restored_at"),
    [
        ("hashmap-long-p2-m128-snappy", 1000, None, "hashmap", 3),
        ("hashmap-long-p2-m128-snappy", 1000, 3, "rocksdb", 2),
        ("rocksdb-string-p1-m128", 1000, 4, "rocksdb", 1),
        ("rocksdb-tuple-p2-m128", 1000, 3, "hashmap", 4),
        ("rocksdb-long-p2-m200-files", 100, None, "rocksdb", 3),
        ("hashmap-windows-p2-m128", 1000, 4, "rocksdb", 2),
        ("hashmap-operator-only-p2-m128", 1000, None, "hashmap", 2),
    ],
)
def test_another_number_of_key_groups_has_the_same_contents(
    flink_restore, same_contents, expected_of, savepoint_of, repartitioned, name, groups, parallelism, backend,
    restored_at,
):  # fmt: skip
    target = repartitioned(savepoint_of(name), parallelism=parallelism, max_parallelism=groups)

    restored = flink_restore(target, backend=backend, parallelism=restored_at)

    assert {groups} == {operator.max_parallelism for operator in Savepoint.open(target).operators}
    assert same_contents(expected_of(name), restored) == []


def under_texts(expected):
    """What a job wrote, with its keys as texts."""
    for operator in expected["operators"]:
        for state in operator.get("keyed", {}).values():
            state["entries"] = [[str(key), *rest] for key, *rest in state["entries"]]
        for domain, timers in (operator.get("timers") or {}).items():
            operator["timers"][domain] = [[str(key), *rest] for key, *rest in timers]
    return expected


TEXTS = Job([Operator("keyed-op", key=str, key_converter=str)])


@pytest.mark.parametrize("scenario", ["all-string", None])
@pytest.mark.parametrize(("backend", "restored_at"), [("hashmap", 3), ("rocksdb", 2)])
def test_int_keys_become_texts_for_a_program_whose_keys_are_strings(
    flink_restore, same_contents, expected_of, savepoint_of, repartitioned, scenario, backend, restored_at
):
    """With the scenario, descriptors and keys are those of a Java job, and Flink makes its own checks of them."""
    name = "hashmap-long-p2-m128-snappy"
    target = repartitioned(savepoint_of(name), TEXTS, max_parallelism=1000, parallelism=3)

    restored = flink_restore(target, scenario=scenario, backend=backend, parallelism=restored_at)

    assert same_contents(under_texts(expected_of(name)), restored) == []


def test_flink_refuses_the_same_program_on_the_old_keys(flink_restore, savepoint_of):
    """Else the test above would prove nothing of keys."""
    restored = flink_restore(savepoint_of("hashmap-long-p2-m128-snappy"), scenario="all-string")

    assert "failed" == restored["status"]


def orders(key, **options):
    states = [
        ValueStateDescriptor("total", int),
        ListStateDescriptor("lines", str),
        MapStateDescriptor("stock", str, float),
        ListStateDescriptor("windows", int, namespace=TimeWindow),
        ValueStateDescriptor("named", int, namespace=str),
    ]
    return Job([Operator("orders", key=key, states=states, timers=[TimerServiceDescriptor()], **options)])


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_merged_keys_windows_and_named_namespaces_are_restored(
    flink_restore, same_contents, repartitioned, tmp_path, backend
):
    """A key of variable length gives the entries of such namespaces another form, with the lengths of both."""
    with SavepointWriter(tmp_path / "source", orders(int), parallelism=2) as writer:
        for number in range(300):
            window = TimeWindow(number, number + 10)
            writer.put("orders", "total", number, number)
            writer.put("orders", "lines", number, [f"of {number}"])
            writer.put("orders", "stock", number, {"books": number / 2, str(number): 1.0})
            writer.put("orders", "windows", number, [number, 44], namespace=window)
            writer.put("orders", "named", number, number, namespace="ä" * (number % 290))
            writer.register_event_time_timer("orders", 4102444800000 + number, number)
    job = orders(str, key_converter=lambda number: str(number // 10) * 3)
    merge = dict.fromkeys(("total", "lines", "stock"), functions.add)

    target = repartitioned(tmp_path / "source", job, max_parallelism=1000, parallelism=3, merge=merge)

    found = Savepoint.open(target)
    expected = {"operators": [tagged_operator(operator, operator.states) for operator in found.operators]}
    totals = {entry.key: entry.value for entry in found.operator("orders").state("total").read_entries()}
    assert {str(tens) * 3: sum(range(10 * tens, 10 * tens + 10)) for tens in range(30)} == totals
    assert same_contents(expected, flink_restore(target, backend=backend, parallelism=2)) == []


def test_flink_1_20_restores_its_own_state_in_another_number_of_key_groups(
    flink_restore, same_contents, expected_of, savepoint_of, repartitioned
):
    name = "hashmap-string-p2-m128-snappy"
    target = repartitioned(savepoint_of(name, version="1.20"), max_parallelism=1000, parallelism=3)

    restored = flink_restore(target, backend="rocksdb", parallelism=2, release="1.20")

    assert same_contents(expected_of(name, version="1.20"), restored) == []
