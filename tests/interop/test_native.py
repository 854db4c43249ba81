"""Real Flink restores native snapshots that a migration has turned into canonical savepoints, unchanged and changed."""

from __future__ import annotations

import copy

import native_snapshots
import pytest

from stateshift import BigInt, Job, MigrationOptions, Operator, SavepointFormatType, ValueStateDescriptor, migrate

KEYS = {"Long": int, "String": str, "Java Tuple2<String, Long>": tuple[str, int]}
PLACES = [("hashmap", None), ("rocksdb", 3)]


@pytest.mark.parametrize(("name", "key"), [("hashmap-native-long-p2-m128", int), ("hashmap-native-string-snappy", str)])
def test_flink_restores_what_was_native_on_either_backend(
    flink_restore, same_contents, savepoint_of, expected_of, spark, tmp_path, name, key
):
    migrate(savepoint_of(name), tmp_path / "savepoint", Job([Operator("keyed-op", key=key)]), session=spark)

    for backend in ("hashmap", "rocksdb"):
        restored = flink_restore(tmp_path / "savepoint", backend=backend)
        assert same_contents(expected_of(name), restored) == []


@pytest.fixture(scope="module")
def canonical(tmp_path_factory):
    """`canonical(name, job, parallelism)`: a snapshot of RocksDB or ForSt, migrated."""

    def made(name, job=None, parallelism=None):
        target = tmp_path_factory.mktemp("canonical") / "savepoint"
        migrate(
            native_snapshots.snapshot(name),
            target,
            job,
            MigrationOptions(parallelism=parallelism, format=SavepointFormatType.CANONICAL),
        )
        return target

    return made


@pytest.mark.parametrize(("backend", "parallelism"), PLACES)
@pytest.mark.parametrize("name", native_snapshots.NAMES)
def test_flink_restores_the_last_checkpoint_of_a_job_as_a_savepoint(
    flink_restore, same_contents, canonical, restorations, name, backend, parallelism
):
    release = native_snapshots.RELEASES[name]
    restored = flink_restore(canonical(name), backend=backend, parallelism=parallelism, release=release)

    assert same_contents(native_snapshots.expected(name), restored) == []
    restorations.append((name, release, release, backend, parallelism))


@pytest.mark.parametrize(("backend", "parallelism"), PLACES)
@pytest.mark.parametrize("name", native_snapshots.NAMES)
def test_flink_restores_it_with_a_type_that_was_changed(
    flink_restore, same_contents, canonical, name, backend, parallelism
):
    """Which Flink itself refuses: a long becomes a BigInteger; at the parallelism of the restore, too."""
    expected = copy.deepcopy(native_snapshots.expected(name))
    keyed = next(operator for operator in expected["operators"] if operator["uid"] == native_snapshots.KEYED)
    count = keyed["keyed"]["count"]
    count["entries"] = [[key, {"$bigint": str(value)}] for key, value in count["entries"]]
    assert count["entries"]
    states = [ValueStateDescriptor("count", BigInt)]
    job = Job([Operator(native_snapshots.KEYED, key=KEYS[keyed["key_type"]], states=states)])

    release = native_snapshots.RELEASES[name]
    restored = flink_restore(
        canonical(name, job, parallelism), backend=backend, parallelism=parallelism, release=release
    )

    assert same_contents(expected, restored) == []
