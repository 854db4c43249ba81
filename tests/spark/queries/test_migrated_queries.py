"""Queries of Spark that change: the new one goes on from a migrated copy, as if it had seen all of history."""

from __future__ import annotations

import json
import os
import shutil
from collections import defaultdict

import attrs
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions
from pyspark.sql.streaming.state import GroupStateTimeout
from spark_queries import settings

from stateshift.compat.queries.changes import FieldChanges
from stateshift.serializers.errors import IncompatibleState, MigrationFailed, TargetExists
from stateshift.spark.queries.migration import migrate_checkpoint
from stateshift.spark.queries.verification import verify_checkpoint
from stateshift.state.formats.spark.reader import SparkCheckpoint
from stateshift.state.migration.queries.checkpoint_copy import UNFINISHED

pytestmark = pytest.mark.slow

SCHEMA = "k string, l string, n int, at timestamp"
STREAMING = "spark.sql.streaming."
ROCKSDB = {"providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
STORES = {
    "default": {},
    "rocksdb": ROCKSDB,
    "rocksdb, changelogs, format 2": ROCKSDB
    | {"rocksdb.changelogCheckpointing.enabled": "true", "checkpointFormatVersion": "2", "rowChecksum.enabled": "true"},
}


def row(number, *, k=None, minute=0):
    return {
        "k": f"k{number % 7}" if k is None else k,
        "l": f"ö{number % 5}" if number % 11 else None,
        "n": number * 37 % 101 - 50,
        "at": f"2026-01-01T00:{minute:02}:00Z",
    }


FIRST = [row(number) for number in range(40)]
SECOND = [row(number, minute=1) for number in range(20, 77)]
LAST = [row(number, minute=2) for number in range(84)]  # each key of before, and some more


@attrs.define
class Queries:
    """Runs queries that read files, a batch each."""

    spark: object
    folder: object
    files: int = 0

    def feed(self, *batches):
        self.folder.joinpath("in").mkdir(exist_ok=True)
        for rows in batches:
            text = "\n".join(map(json.dumps, rows))
            file = self.folder.joinpath("in", f"{self.files}.json")
            file.write_text(text, encoding="utf-8")
            self.files += 1
            os.utime(file, (self.files, self.files))  # Spark reads them in the order of their times

    def run(self, query, checkpoint, mode="update"):
        """Run a query over what is there; return the rows of each batch."""
        batches = []
        stream = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1")
        writer = (
            query(stream.json(str(self.folder / "in")))
            .writeStream.outputMode(mode)
            .foreachBatch(lambda frame, _: batches.append([tuple(one) for one in frame.collect()]))
            .option("checkpointLocation", str(self.folder / checkpoint))
        )
        writer.trigger(availableNow=True).start().awaitTermination()
        return batches

    def probe(self, query, mode="update"):
        """The checkpoint of a query that has seen one row of its own."""
        other = Queries(self.spark, self.folder / "probe")
        other.folder.mkdir()
        other.feed([row(1)])
        other.run(query, "checkpoint", mode)
        return other.folder / "checkpoint"

    def migrate(self, query, mode="update", **changes):
        """Migrate `old` to `new` for a query."""
        return migrate_checkpoint(
            self.folder / "old", self.folder / "new", like=self.probe(query, mode), changes={0: FieldChanges(**changes)}
        )


@pytest.fixture
def queries(spark, tmp_path):
    with settings(spark, spark__sql__shuffle__partitions="5", spark__sql__session__timeZone="UTC"):
        yield Queries(spark, tmp_path)


@pytest.fixture
def setting(spark):
    """`setting(name, value)`: a setting of the session until the test ends."""
    names = []

    def change(name, value):
        names.append(name)
        spark.conf.set(name, value)

    yield change
    for name in names:
        spark.conf.unset(name)


def by_key(rows, *names):
    grouped = defaultdict(list)
    for one in rows:
        grouped[tuple(one[name] for name in names)].append(one["n"])
    return grouped


def sums(s):
    return s.groupBy("k", "l").agg(functions.sum("n"), functions.max("n"))


def more_by_l_and_k(s):
    return s.groupBy("l", "k").agg(
        functions.count("*").alias("c"), functions.max(functions.col("n").cast("bigint")), functions.sum("n")
    )


@pytest.mark.parametrize("store", sorted(STORES))
def test_an_aggregation_goes_on_with_a_new_aggregate_a_wider_one_and_exchanged_keys(queries, facts_of, setting, store):
    for name, value in STORES[store].items():
        setting(STREAMING + "stateStore." + name, value)
    queries.feed(FIRST, SECOND)
    queries.run(sums, "old")
    before = facts_of(queries.folder / "old")
    queries.feed(LAST)
    shutil.copytree(queries.folder / "old", queries.folder / "refused")
    with pytest.raises(StreamingQueryException, match="STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"):
        queries.run(more_by_l_and_k, "refused")

    report = queries.migrate(more_by_l_and_k, fills={"value.count": 0})

    assert facts_of(queries.folder / "old") == before
    (store,) = report.states
    assert store.read == store.written == len(by_key(FIRST + SECOND, "l", "k"))
    sizes = [
        [one.entries for one in SparkCheckpoint.open(queries.folder / name).operators[0].stores[0].measure()]
        for name in ("old", "new")
    ]
    assert (len(sizes[1]), sum(sizes[1])) == (5, store.written)
    assert sizes[0] != sizes[1]
    assert {"ok"} == {str(one.status) for one in verify_checkpoint(queries.folder / "new").checks}
    (batch,) = queries.run(more_by_l_and_k, "new")
    after = verify_checkpoint(queries.folder / "new")
    assert (after.ok, "the copy has gone on to batch 2" in after.checks[0].detail) == (True, True)
    history, new = by_key(FIRST + SECOND + LAST, "l", "k"), by_key(LAST, "l", "k")
    assert {(one[0], one[1]): one[2:] for one in batch} == {
        key: (len(new[key]), max(values), sum(values)) for key, values in history.items()
    }


def test_spark_refuses_an_unfinished_copy_and_the_next_run_finishes_it(queries, monkeypatch):
    queries.feed(FIRST)
    queries.run(sums, "old")
    probe = queries.probe(more_by_l_and_k)
    changes = {0: FieldChanges(fills={"value.count": 0})}
    places = queries.folder / "old", queries.folder / "new"
    with monkeypatch.context() as patch:
        patch.setattr("stateshift.state.migration.queries.checkpoint_copy.read_logs", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            migrate_checkpoint(*places, like=probe, changes=changes)
    queries.feed(LAST)

    with pytest.raises(Exception, match=UNFINISHED):
        queries.run(more_by_l_and_k, "new")
    with pytest.raises(TargetExists, match="another migration"):
        migrate_checkpoint(*places, like=probe, changes={0: FieldChanges(fills={"value.count": 1})})

    (store,) = migrate_checkpoint(*places, like=probe, changes=changes).states

    assert store.read == store.written
    (batch,) = queries.run(more_by_l_and_k, "new")
    assert len(batch) == len(by_key(LAST, "l", "k"))


def test_a_batch_that_is_not_committed_is_refused_or_dropped(queries):
    queries.feed(FIRST, SECOND)
    queries.run(sums, "old")
    (queries.folder / "old" / "commits" / "1").unlink()
    (queries.folder / "old" / "commits" / ".1.crc").unlink()
    probe = queries.probe(sums)
    places = queries.folder / "old", queries.folder / "new"

    with pytest.raises(MigrationFailed, match="batch 1 is planned and not committed") as raised:
        migrate_checkpoint(*places, like=probe)

    assert "twice" in str(raised.value)
    assert not places[1].exists()
    report = migrate_checkpoint(*places, like=probe, drop_uncommitted=True)
    assert (report.query.batch, report.query.dropped_batch) == (0, 1)
    (batch,) = queries.run(sums, "new")
    history = by_key(FIRST + SECOND, "k", "l")
    assert {one[:2]: one[2] for one in batch} == {key: sum(history[key]) for key in by_key(SECOND, "k", "l")}


def late(s):
    return s.withWatermark("at", "10 minutes")


@pytest.mark.parametrize("store", sorted(STORES))
def test_a_dedup_goes_on_with_fewer_columns(queries, setting, store):
    for name, value in STORES[store].items():
        setting(STREAMING + "stateStore." + name, value)
    queries.feed(FIRST)
    queries.run(lambda s: s.dropDuplicates(["k", "l", "n"]), "old", "append")
    fewer = lambda s: s.dropDuplicates(["l", "k"])  # noqa: E731 - as the old query
    queries.feed([*LAST, row(2, k="new"), row(7, k="new")])

    report = queries.migrate(fewer, "append")

    seen = by_key(FIRST, "k", "l")
    (store,) = report.states
    assert (store.read, store.written) == (40, len(seen))
    assert store.merged == 40 - len(seen)
    (batch,) = queries.run(fewer, "new", "append")
    now = by_key([*LAST, row(2, k="new"), row(7, k="new")], "k", "l")
    assert sorted(map(str, (one[:2] for one in batch))) == sorted(str(key) for key in now if key not in seen)


@pytest.mark.faults
def test_a_dedup_within_the_watermark_keeps_the_latest_time(queries):
    queries.feed(FIRST, SECOND)
    queries.run(lambda s: late(s).dropDuplicatesWithinWatermark(["k", "l"]), "old", "append")
    fewer = lambda s: late(s).dropDuplicatesWithinWatermark(["k"])  # noqa: E731 - as the old query
    later = [row(0, minute=30), row(1, minute=31, k="new"), row(2, minute=33, k="new")]
    queries.feed(later)

    report = queries.migrate(fewer, "append", merges={"value.expiresAtMicros": "max"})

    first = {}
    for one in FIRST + SECOND:
        first.setdefault((one["k"], one["l"]), int(one["at"][14:16]))
    latest = {k: 10 + max(minute for (of, _), minute in first.items() if of == k) for k, _ in first}
    assert report.states[0].written == len(latest)
    store = SparkCheckpoint.open(queries.folder / "new").operators[0].stores[0]
    kept = [pair for one in store.blocks() for pair in zip(one.key.field(0), one.value.field(0), strict=True)]
    assert {key.as_py(): value.as_py() // 60_000_000 % 60 for key, value in kept} == latest
    batches = queries.run(fewer, "new", "append")
    assert [one[0] for batch in batches for one in batch] == ["new"]


@pytest.mark.faults
def test_distinct_rows_with_columns_in_another_order(queries):
    queries.feed(FIRST)
    queries.run(lambda s: s.select("k", "l").distinct(), "old", "append")
    queries.feed(LAST)
    other = lambda s: s.select("l", "k").distinct()  # noqa: E731 - as the old query

    with pytest.raises(IncompatibleState, match="names and places of"):
        queries.migrate(other, "append")
    shutil.rmtree(queries.folder / "probe")
    queries.migrate(other, "append", renames={"key.k": "key.k", "key.l": "key.l"})

    (batch,) = queries.run(other, "new", "append")
    seen, now = by_key(FIRST, "l", "k"), by_key(LAST, "l", "k")
    assert sorted(map(str, batch)) == sorted(str(key) for key in now if key not in seen)


@pytest.mark.faults
def test_aggregates_of_windows_with_a_renamed_key_and_the_watermark_kept(queries):
    def old(s):
        return late(s).groupBy(functions.window("at", "5 minutes"), "k").agg(functions.sum("n").alias("total"))

    def new(s):
        renamed = late(s).withColumnRenamed("k", "user")
        window = functions.window("at", "5 minutes")
        return renamed.groupBy("user", window).agg(functions.sum("n").alias("total"), functions.min("n").alias("least"))

    queries.feed(FIRST, [row(1, minute=20)])
    queries.run(old, "old", "append")
    queries.feed([*LAST, row(3, minute=21)], [row(3, minute=59)])

    report = queries.migrate(new, "append", renames={"key.user": "key.k"}, fills={"value.min": None})

    assert report.query.watermark_ms == SparkCheckpoint.open(queries.folder / "old").log.watermark_ms > 0
    rows = [one for batch in queries.run(new, "new", "append") for one in batch]
    assert sorted((user, window.start.minute, total) for user, window, total, _ in rows) == [
        ("k1", 20, row(1)["n"]),
        ("k3", 20, row(3)["n"]),
    ]


@pytest.mark.faults
def test_state_format_1_has_the_keys_among_the_values(queries, setting):
    setting(STREAMING + "aggregation.stateFormatVersion", "1")
    queries.feed(FIRST)
    queries.run(sums, "old")
    queries.feed(LAST)

    queries.migrate(more_by_l_and_k, fills={"value.count": 0})

    (batch,) = queries.run(more_by_l_and_k, "new")
    history, new = by_key(FIRST + LAST, "l", "k"), by_key(LAST, "l", "k")
    assert {(one[0], one[1]): one[2:] for one in batch} == {
        key: (len(new[key]), max(values), sum(values)) for key, values in history.items()
    }


@pytest.mark.faults
def test_a_group_key_less_with_a_rule_for_each_value(queries):
    queries.feed(FIRST, SECOND)
    queries.run(sums, "old")
    queries.feed(LAST)
    fewer = lambda s: s.groupBy("l").agg(functions.sum("n"), functions.max("n"))  # noqa: E731 - as the old query

    queries.migrate(fewer, merges={"value.sum": "sum", "value.max": "max"})

    (batch,) = queries.run(fewer, "new")
    history = by_key(FIRST + SECOND + LAST, "l")
    assert {one[:1]: one[1:] for one in batch} == {key: (sum(each), max(each)) for key, each in history.items()}


def states():
    """The functions of the old and the new query; as local ones they are sent to workers whole."""

    def old(key, frames, state):
        import pandas as pd

        total, parts = state.get if state.exists else (0, (0, "first"))
        for frame in frames:
            total += int(frame.n.sum())
        state.update((total, parts))
        yield pd.DataFrame({"k": [key[0]], "total": [total], "note": [""]})

    def new(key, frames, state):
        import pandas as pd

        note, parts, total = state.get if state.exists else ("new", ("first", 0, 0), 0)
        for frame in frames:
            total += int(frame.n.sum())
        state.update((note, parts, total))
        yield pd.DataFrame({"k": [key[0]], "total": [total], "note": [f"{note} {parts[0]} {parts[1]}"]})

    return old, new


@pytest.mark.faults
@pytest.mark.parametrize(("version", "store"), [("1", "default"), ("2", "default"), ("2", "rocksdb")])
def test_pandas_state_with_fields_added_moved_and_widened_also_nested_ones(queries, setting, version, store):
    for name, value in STORES[store].items():
        setting(STREAMING + "stateStore." + name, value)
    setting(STREAMING + "flatMapGroupsWithState.stateFormatVersion", version)
    old_state, new_state = states()

    def query(function, schema):
        return lambda s: s.groupBy("k").applyInPandasWithState(
            function, "k string, total bigint, note string", schema, "update", GroupStateTimeout.NoTimeout
        )

    old = query(old_state, "total int, parts struct<a: int, b: string>")
    new = query(new_state, "note string, parts struct<b: string, c: int, a: bigint>, total bigint")
    queries.feed(FIRST)
    queries.run(old, "old")
    queries.feed([*LAST, row(0, k="other")])
    state = "value.groupState" if version == "2" else "value"

    queries.migrate(new, fills={f"{state}.note": "moved", f"{state}.parts.c": 5})

    (batch,) = queries.run(new, "new")
    history = by_key(FIRST + LAST, "k")
    expected = {key: (sum(each), "moved first 5") for key, each in history.items()}
    assert {one[:1]: one[1:] for one in batch} == expected | {("other",): (row(0)["n"], "new first 0")}
