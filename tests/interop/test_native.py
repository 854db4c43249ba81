"""Real Flink restores native savepoints of its heap backend that a migration has turned into canonical ones."""

from __future__ import annotations

import pytest

from stateshift import Job, Operator
from stateshift.spark.migrate import migrate


@pytest.mark.parametrize(("name", "key"), [("hashmap-native-long-p2-m128", int), ("hashmap-native-string-snappy", str)])
def test_flink_restores_what_was_native_on_either_backend(
    flink_restore, same_contents, savepoint_of, expected_of, spark, tmp_path, name, key
):
    migrate(savepoint_of(name), tmp_path / "savepoint", Job([Operator("keyed-op", key=key)]), session=spark)

    for backend in ("hashmap", "rocksdb"):
        restored = flink_restore(tmp_path / "savepoint", backend=backend)
        assert same_contents(expected_of(name), restored) == []
