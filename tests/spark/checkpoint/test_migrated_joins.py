"""Queries of joins, sessions and several operators that change: the copy is what Spark writes for the new query.

Each time the new query runs twice: on the migrated copy, and on a checkpoint of its own, over all history. Where
nothing of the new state is unknown, both have the same bytes in the same partitions, and go on with the same rows.
"""

from __future__ import annotations

import json
import os

import attrs
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as its users write it
from spark_queries import settings

from stateshift.spark.checkpoint.migrating.conversion import FieldChanges
from stateshift.spark.checkpoint.migrating.migration import migrate_checkpoint
from stateshift.spark.checkpoint.reader import SparkCheckpoint

pytestmark = pytest.mark.slow

SCHEMA = "k string, l string, n int, d double, at timestamp"
FORMAT = "spark.sql.streaming.join.stateFormatVersion"


def row(number, minute, side=0):
    return {
        "k": f"k{number % 9}" if number % 13 else None,
        "l": f"ö{number % 4}" if number % 11 else None,
        "n": (number + side) % 5,
        "d": number / 4,
        "at": f"2026-01-01T00:{minute:02}:{number % 60:02}Z",
    }


def batch(first, last, minute):
    """Rows of both sides; those of the right side are some of the same keys."""
    left = [row(number, minute) for number in range(first, last)]
    right = [row(number, minute + 1, side=1) for number in range(first, last, 2)]
    return left, right


BEFORE = [batch(0, 40, 0), batch(20, 50, 2)]
AFTER = [batch(0, 60, 4), batch(60, 61, 30), batch(61, 62, 50)]  # each key again; then the watermark passes all


@attrs.define
class TwoStreams:
    """Runs queries on two streams of files, a batch each."""

    spark: object
    folder: object
    files: int = 0

    def feed(self, batches):
        for both in batches:
            for name, rows in zip("st", both, strict=True):
                folder = self.folder / name
                folder.mkdir(exist_ok=True)
                file = folder / f"{self.files}.json"
                file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
                os.utime(file, (self.files, self.files))  # Spark reads them in the order of their times
            self.files += 1

    def stream(self, name):
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1")
        return reader.json(str(self.folder / name)).withWatermark("at", "10 minutes")

    def run(self, query, checkpoint):
        """Run a query over what is there; return its rows, sorted."""
        found = []
        writer = (
            query(self.stream("s"), self.stream("t"))
            .writeStream.outputMode("append")
            .foreachBatch(lambda frame, _: found.extend(tuple(one) for one in frame.collect()))
            .option("checkpointLocation", str(self.folder / checkpoint))
        )
        writer.trigger(availableNow=True).start().awaitTermination()
        return sorted(found, key=str)

    def goes_on(self, old, new, changes, facts_of):
        """Migrate `old` to `new` between two parts of history; both checkpoints of the new query go on alike."""
        self.feed(BEFORE)
        self.run(old, "old")
        self.run(new, "whole")
        before = facts_of(self.folder / "old")

        report = migrate_checkpoint(
            self.folder / "old", self.folder / "new", like=self.folder / "whole", changes=changes
        )

        assert facts_of(self.folder / "old") == before
        assert stored(self.folder / "new") == stored(self.folder / "whole")
        assert all(sum(one.read) == sum(one.written) for one in report.stores)
        self.feed(AFTER)
        migrated, whole = self.run(new, "new"), self.run(new, "whole")
        assert migrated == whole
        return report, migrated


def stored(checkpoint):
    """The bytes of all entries: of each operator, store and partition, the values of keys."""
    found = {}
    for operator in SparkCheckpoint.open(checkpoint).operators:
        for store in operator.stores:
            for partition in range(store.partitions):
                of = found.setdefault((operator.number, store.name, partition), {})
                for keys, values in store.stored_blocks(partition):
                    of.update(zip(keys, values, strict=True))
    return found


@pytest.fixture
def streams(spark, tmp_path):
    with settings(spark, spark__sql__shuffle__partitions="5", spark__sql__session__timeZone="UTC"):
        yield TwoStreams(spark, tmp_path)
    spark.conf.unset(FORMAT)


IN_TIME = "then >= at - interval 1 minutes and then <= at + interval 4 minutes"


def joined(how):
    def query(s, t):
        right = t.select(F.col("k").alias("k2"), F.col("n").alias("n2"), "l", F.col("at").alias("then"))
        condition = f"k = k2 and n = n2 and {IN_TIME}"
        return s.select("k", "n", "d", F.lower("k").alias("small"), "at").join(right, F.expr(condition), how)

    return query


def joined_anew(how):
    """Keys in another order, one of them wider; on the left columns more, fewer, renamed and moved; two swapped."""

    def query(s, t):
        n = F.col("n").cast("bigint")
        left = s.select("at", F.lit("-").alias("note"), F.lower("k").alias("low"), n.alias("n"), "k")
        right = t.select(F.col("k").alias("k2"), "l", n.alias("n2"), F.col("at").alias("then"))
        return left.join(right, F.expr(f"n = n2 and k = k2 and {IN_TIME}"), how)

    return query


@pytest.mark.parametrize(
    ("how", "version"),
    [
        ("left_outer", "2"),
        *(
            pytest.param(how, version, marks=pytest.mark.faults)
            for how, version in (("inner", "2"), ("right_outer", "2"), ("full_outer", "3"), ("left_semi", "4"))
        ),
    ],
)
def test_a_join_goes_on_with_other_keys_and_other_columns_on_both_sides(streams, facts_of, how, version):
    """Spark 4.3 starts no join of format 1; its default provider lays out 3 and 4 like 2."""
    streams.spark.conf.set(FORMAT, version)
    renames = {"key.field0": "key.field1", "key.field1": "key.field0", "left.value.low": "left.value.small"}
    changes = {0: FieldChanges(renames=renames, fills={"left.value.note": "-"})}

    report, rows = streams.goes_on(joined(how), joined_anew(how), changes, facts_of)

    assert len(report.stores) == 4
    assert all(one.is_converted for one in report.stores)
    assert len(rows) > 10


def test_sessions_go_on_with_keys_renamed_and_exchanged_and_other_aggregates(streams, facts_of):
    def old(s, _):
        session = F.session_window("at", "3 minutes")
        return s.groupBy(session, "k", "l").agg(F.sum("n"), F.max("n"), F.min("d")).drop("session_window")

    def new(s, _):
        session, wide = F.session_window("at", "3 minutes"), F.col("n").cast("bigint")
        renamed = s.withColumnRenamed("k", "user")
        return renamed.groupBy("l", session, "user").agg(F.max(wide), F.sum("n")).drop("session_window")

    renames = {f"{part}.user": f"{part}.k" for part in ("key", "value")}

    _, rows = streams.goes_on(old, new, {0: FieldChanges(renames=renames)}, facts_of)

    assert len(rows) > 10


@pytest.mark.faults
def test_both_operators_of_a_query_change_in_one_migration(streams, facts_of):
    def old(s, _):
        rows = s.dropDuplicates(["k", "n", "at"])
        return rows.groupBy(F.window("at", "5 minutes"), "k").agg(F.min("n"), F.max("d")).drop("window")

    def new(s, _):
        rows = s.withColumn("n", F.col("n").cast("bigint")).dropDuplicates(["at", "k", "n"])
        rows = rows.withColumnRenamed("k", "user")
        return rows.groupBy("user", F.window("at", "5 minutes")).agg(F.min("n")).drop("window")

    report, rows = streams.goes_on(old, new, {0: FieldChanges(renames={"key.user": "key.k"})}, facts_of)

    assert [one.kind for one in report.stores] == ["aggregation", "dropDuplicates"]
    assert all(one.is_converted for one in report.stores)
    assert len(rows) > 10


@pytest.mark.faults
def test_a_join_and_the_aggregation_behind_it_change_in_one_migration(streams, facts_of):
    def old(s, t):
        rows = joined("inner")(s, t).select("k", "n", "at")
        return rows.groupBy(F.window("at", "5 minutes"), "k").agg(F.sum("n")).drop("window")

    def new(s, t):
        rows = joined_anew("inner")(s, t).select("k", "n", "at")
        return rows.groupBy("k", F.window("at", "5 minutes")).agg(F.sum("n")).drop("window")

    renames = {"key.field0": "key.field1", "key.field1": "key.field0"}

    report, rows = streams.goes_on(old, new, {1: FieldChanges(renames=renames)}, facts_of)

    assert [one.kind for one in report.stores] == ["aggregation", *["stream-stream join"] * 4]
    assert rows


@pytest.mark.faults
def test_a_limit_is_copied_beside_what_changes(streams):
    def old(s, _):
        return s.dropDuplicates(["k", "l"]).select("k", "l").limit(most)

    def new(s, _):
        return s.dropDuplicates(["l", "k"]).select("k", "l").limit(most)

    before, every = ({(one["k"], one["l"]) for both in part for one in both[0]} for part in (BEFORE, BEFORE + AFTER))
    most = (len(before) + len(every)) // 2
    streams.feed(BEFORE)
    first = streams.run(old, "old")
    streams.run(new, "whole")

    report = migrate_checkpoint(streams.folder / "old", streams.folder / "new", like=streams.folder / "whole")

    assert [(one.kind, one.is_converted) for one in report.stores] == [("limit", False), ("dropDuplicates", True)]
    assert stored(streams.folder / "new") == stored(streams.folder / "whole")
    streams.feed(AFTER)
    later = streams.run(new, "new")
    assert set(first) == before
    assert len({*first, *later}) == len(first + later) == most < len(every)
