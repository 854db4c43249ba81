"""Real Flink restores native savepoints that we write, on the backend that opens their files."""

from __future__ import annotations

import copy

import native_snapshots
import pytest

from stateshift import BigInt, Job, MigrationOptions, Operator, SavepointFormatType, ValueStateDescriptor, migrate

KEYS = {"Long": int, "String": str, "Java Tuple2<String, Long>": tuple[str, int]}
NATIVE = MigrationOptions(format=SavepointFormatType.NATIVE)


@pytest.fixture
def written(tmp_path):
    """`written(source, job, **options)`: a native savepoint, migrated from a savepoint or a snapshot."""

    def make(source, job=None, **options):
        report = migrate(source, tmp_path / "native", job, MigrationOptions(format="native", **options))
        return report.target

    return make


@pytest.mark.parametrize("name", native_snapshots.NAMES)
def test_flink_restores_what_was_native(flink_restore, same_contents, written, restorations, name):
    release = native_snapshots.RELEASES[name]

    restored = flink_restore(written(native_snapshots.snapshot(name)), backend="rocksdb", release=release)

    assert same_contents(native_snapshots.expected(name), restored) == []
    restorations.append((name, release, release, "rocksdb", None))
