"""Queries on two streams of files, and a migration between two parts of their history."""

from __future__ import annotations

import json
import os

import attrs
from pyspark.sql import functions as F  # noqa: N812 - as its users write it

from stateshift.compat.queries.changes import FieldChanges
from stateshift.spark.queries.migration import migrate_checkpoint
from stateshift.state.formats.spark.reader import SparkCheckpoint

SCHEMA = "k string, l string, n int, d double, at timestamp"
STORE = "spark.sql.streaming.stateStore."
ROCKSDB = {"providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
STORES = {
    "default": {},
    "rocksdb": ROCKSDB,
    "rocksdb, changelogs, checksums": ROCKSDB
    | {"rocksdb.changelogCheckpointing.enabled": "true", "rowChecksum.enabled": "true"},
    "rocksdb, format 2": ROCKSDB | {"checkpointFormatVersion": "2"},
}


def row(number, minute, side=0, keys=9):
    return {
        "k": f"k{number % keys}" if number % 13 else None,
        "l": f"ö{number % 4}" if number % 11 else None,
        "n": (number + side) % 5,
        "d": number / 4,
        "at": f"2026-01-01T00:{minute:02}:{number % 60:02}Z",
    }


def batch(first, last, minute, keys=9):
    """Rows of both sides, some twice; those of the right side are some of the same keys."""
    left = [row(number, minute, keys=keys) for number in range(first, last)]
    left += [one | {"d": None} for one in left[::7]]
    right = [row(number, minute + 1, side=1, keys=keys) for number in range(first, last, 2)]
    return left, right


BEFORE = [batch(0, 40, 0), batch(20, 50, 2)]
AFTER = [batch(0, 60, 4), batch(60, 61, 30), batch(61, 62, 50)]  # each key again; then the watermark passes all


@attrs.define
class TwoStreams:
    """Runs queries on two streams of files, a batch each."""

    spark: object
    folder: object
    files: int = 0

    def set_store(self, name):
        for key, value in STORES[name].items():
            self.spark.conf.set(STORE + key, value)

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
        assert all(one.read == one.written + one.merged + one.dropped for one in report.states)
        self.feed(AFTER)
        migrated, whole = self.run(new, "new"), self.run(new, "whole")
        assert migrated == whole
        return report, migrated


def stored(checkpoint):
    """The bytes of all entries: of each operator, store and partition, the values of keys, in their order."""
    found = {}
    for operator in SparkCheckpoint.open(checkpoint).operators:
        for store in operator.stores:
            for partition in range(store.partitions):
                of = found.setdefault((operator.number, store.name, partition), {})
                for keys, values in store.stored_blocks(partition):
                    for key, value in zip(keys, values, strict=True):
                        of.setdefault(key, []).append(value)
    return found


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


JOIN_CHANGES = FieldChanges(
    renames={"key.field0": "key.field1", "key.field1": "key.field0", "left.value.low": "left.value.small"},
    fills={"left.value.note": "-"},
)


def in_sessions(s, _):
    session = F.session_window("at", "3 minutes")
    return s.groupBy(session, "k", "l").agg(F.sum("n"), F.max("n"), F.min("d")).drop("session_window")


def in_sessions_anew(s, _):
    session, wide = F.session_window("at", "3 minutes"), F.col("n").cast("bigint")
    renamed = s.withColumnRenamed("k", "user")
    return renamed.groupBy("l", session, "user").agg(F.max(wide), F.sum("n")).drop("session_window")


SESSION_CHANGES = FieldChanges(renames={f"{part}.user": f"{part}.k" for part in ("key", "value")})
