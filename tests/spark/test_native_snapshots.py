"""Native snapshots of RocksDB and ForSt, migrated on Spark: the same as in one process, to the byte."""

from __future__ import annotations

import native_snapshots
import pytest
from a_few import a_few

from stateshift import BigInt, Job, MigrationOptions, Operator, Repartition, Savepoint, ValueStateDescriptor, migrate
from stateshift.state.savepoint.verify import verify

KEYS = {"Long": int, "String": str, "Java Tuple2<String, Long>": tuple[str, int]}


def changed(name):
    """A job with one type that is not the stored one."""
    keyed = next(one for one in native_snapshots.expected(name)["operators"] if one["uid"] == native_snapshots.KEYED)
    states = [ValueStateDescriptor("count", BigInt)]
    return Job([Operator(native_snapshots.KEYED, key=KEYS[keyed["key_type"]], states=states)])


def streams_of(folder):
    """The keyed streams of a savepoint, by subtask."""
    return {index: (folder / handle.stream.path).read_bytes() if hasattr(handle.stream, "path") else handle.stream.data
            for index, handle in native_snapshots.keyed_handles(folder).items()}  # fmt: skip


@pytest.mark.parametrize("name", a_few(native_snapshots.NAMES))
def test_spark_writes_what_one_process_writes(spark, facts_of, tmp_path, name):
    place, options = native_snapshots.snapshot(name), MigrationOptions(parallelism=5)
    before = facts_of(native_snapshots.home(name))

    migrate(place, tmp_path / "here", changed(name), options)
    migrate(place, tmp_path / "there", changed(name), options, session=spark)

    assert 5 == len(streams_of(tmp_path / "here"))
    assert streams_of(tmp_path / "here") == streams_of(tmp_path / "there")
    assert verify(Savepoint.open(tmp_path / "there")).ok
    assert before == facts_of(native_snapshots.home(name))


@pytest.mark.slow
def test_keys_are_rewritten_from_a_database(spark, tmp_path):
    """Another number of key groups: every task reads every database."""
    place = native_snapshots.snapshot("rocksdb-incremental-rescaled-2-to-3")
    migrate(place, tmp_path / "new", None, MigrationOptions(repartition=Repartition(max_parallelism=64)), session=spark)

    new, old = (Savepoint.open(one).operator(native_snapshots.KEYED) for one in (tmp_path / "new", place))
    assert 64 == new.max_parallelism
    for state in ("count", "labels", "events", "session"):
        assert {e.key: e.value for e in old.state(state).read_entries()} == {
            e.key: e.value for e in new.state(state).read_entries()
        }
    assert verify(Savepoint.open(tmp_path / "new")).ok
