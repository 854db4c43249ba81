"""Native snapshots of RocksDB and ForSt as DataFrames, at the last checkpoint of a job as of a savepoint."""

from __future__ import annotations

import shutil

import native_snapshots
import pytest
from a_few import a_few

from stateshift import Savepoint
from stateshift.spark import register

CLAIMED = "rocksdb-incremental-tuple-claimed"


@pytest.fixture(scope="module")
def read(spark):
    """`read(place, state=…)`: a DataFrame of a state of the keyed operator."""
    register(spark)
    given = {"operator": native_snapshots.KEYED}
    return lambda place, **options: spark.read.format("savepoint").options(**given, **options).load(str(place))


def as_row(value):
    """A key as Spark has it: a tuple is a row of its fields."""
    return tuple(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("name", a_few(native_snapshots.NAMES))
def test_states_are_read_with_equal_contents(read, name):
    place = native_snapshots.snapshot(name)
    operator = Savepoint.open(place).operator(native_snapshots.KEYED)
    counts, labels = (list(operator.state(state).read_entries()) for state in ("count", "labels"))

    found = read(place, state="count")
    assert {entry.key: entry.value for entry in counts} == {as_row(row.key): row.value for row in found.collect()}
    assert found.rdd.getNumPartitions() > 1
    assert {(entry.key, name, text) for entry in labels for name, text in entry.value.items()} == {
        (as_row(row.key), row.user_key, row.value) for row in read(place, state="labels").collect()
    }


def test_lists_and_timers_are_read(read):
    place = native_snapshots.snapshot("forst-incremental-long-p2-m128")
    operator = Savepoint.open(place).operator(native_snapshots.KEYED)

    events = {entry.key: entry.value for entry in operator.state("events").read_entries()}
    timers = operator.state("_timer_state/event_user-timers").read_timers()

    assert events == {row.key: row.value for row in read(place, state="events").collect()}
    rows = read(place, state="_timer_state/event_user-timers").collect()
    assert len(list(timers)) == len(rows) > 0


def test_a_moved_checkpoint_is_read_where_its_roots_are_given(read, tmp_path):
    copy = native_snapshots.copied(CLAIMED, tmp_path / "copy")
    shutil.move(copy, tmp_path / "alone")
    roots = f"{native_snapshots.ORIGINAL_ROOT}={copy.parents[1]}"

    with pytest.raises(Exception, match="allow_roots="):
        read(tmp_path / "alone", state="count").collect()

    rows = read(tmp_path / "alone", state="count", checkpoint_roots=roots).collect()
    entries = Savepoint.open(native_snapshots.snapshot(CLAIMED)).operator(native_snapshots.KEYED).state("count")
    assert {entry.key: entry.value for entry in entries.read_entries()} == {tuple(row.key): row.value for row in rows}
