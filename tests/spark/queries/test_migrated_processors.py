"""Processors of transformWithState that change: Spark goes on from a migrated copy, with every variable and timer."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import time
from collections import Counter
from contextlib import nullcontext

import attrs
import pandas as pd
import pytest
from pyspark.errors import StreamingQueryException
from spark_processors import AFTER_MS, keeping
from spark_processors import CHANGES as KEEPING_CHANGES
from spark_queries import settings
from spark_streams import AFTER, BEFORE, TwoStreams

from stateshift.compat.queries.changes import FieldChanges
from stateshift.serializers.errors import UnsupportedFormat
from stateshift.spark.queries.migration import migrate_checkpoint
from stateshift.state.formats.spark.reader import SparkCheckpoint
from stateshift.state.migration.queries.checkpoint_copy import UNFINISHED

pytestmark = pytest.mark.slow

STORE = "spark.sql.streaming.stateStore."
SCHEMA = "k string, g int, l string, n int"
HOUR_MS = 3_600_000
LONG_MS = 10**12
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
OUTPUT = "k string, n bigint, names string, seen string, brief boolean, lasting boolean, last string, timer boolean"
ROWS = [{"k": f"k{one % 7}", "g": one % 7 - 3, "l": f"ö{one % 3}", "n": one} for one in range(40)]
KEYS = sorted({one["k"] for one in ROWS})


def processors():
    """The old and the new processor; as local ones they are sent to workers whole."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Old(StatefulProcessor):
        def init(self, handle):
            self.handle = handle
            self.count = handle.getValueState("count", "n int, low float, parts struct<a: int, b: string>")
            self.names = handle.getListState("names", "l string, n int")
            self.seen = handle.getMapState("seen", "n int", "l string")
            self.brief = handle.getValueState("brief", "l string", 1)
            self.lasting = handle.getListState("lasting", "l string", HOUR_MS)
            self.last = handle.getValueState("last", "l string", HOUR_MS)
            self.gone = handle.getValueState("gone", "l string")

        def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803 - Spark's names
            n, _, parts = self.count.get() or (0, 0.0, (1, "one"))
            for row in rows:
                n += row.n
                self.names.appendValue((row.l, row.n))
                self.seen.updateValue((row.n % 4,), (row.l,))
                self.lasting.appendValue((row.l,))
                self.last.update((row.l,))
            self.count.update((n, 0.5, parts))
            self.brief.update(("x",))
            self.gone.update(("x",))
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)
            yield Row(k=key[0], n=n, names="", seen="", brief=True, lasting=True, last="", timer=False)

        def close(self):
            pass

    class New(StatefulProcessor):
        def init(self, handle):
            self.handle = handle
            self.total = handle.getValueState(
                "total", "note string, parts struct<b: string, c: int, a: bigint>, low double, n bigint", LONG_MS
            )
            self.names = handle.getListState("names", "n bigint, l string, note string", HOUR_MS)
            self.seen = handle.getMapState("seen", "n bigint", "l string, m int", HOUR_MS)
            self.brief = handle.getValueState("brief", "l string", 1)
            self.lasting = handle.getListState("lasting", "name string", 2 * HOUR_MS)
            self.last = handle.getValueState("last", "l string")
            self.more = handle.getValueState("more", "l string")

        def seen_now(self, key, *, is_timer):
            note, parts, low, n = self.total.get() or ("new", ("", 0, 0), 0.0, 0)
            names = "".join(f"{one[1]}{one[0]}{one[2]}" for one in self.names.get())
            seen = " ".join(sorted(f"{at[0]}{one[0]}{one[1]}" for at, one in self.seen.iterator()))
            brief = self.brief.exists()
            lasting = len(list(self.lasting.get())) > 0
            last = self.last.get()
            facts = f"{note} {parts[0]} {parts[1]} {parts[2]} {low} {last[0] if last else None} {self.more.exists()}"
            return Row(k=key[1], n=n, names=names, seen=seen, brief=brief, lasting=lasting, last=facts, timer=is_timer)

        def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803 - Spark's names
            for _ in rows:
                pass
            yield self.seen_now(key, is_timer=False)

        def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):  # noqa: N802, N803 - Spark's names
            yield self.seen_now(key, is_timer=True)

        def close(self):
            pass

    return Old(), New()


@attrs.define
class Queries:
    """Runs the old and the new query on files, a batch for each run."""

    spark: object
    folder: object
    files: int = 0

    def feed(self, rows):
        self.folder.joinpath("in").mkdir(parents=True, exist_ok=True)
        file = self.folder.joinpath("in", f"{self.files}.json")
        file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        self.files += 1
        os.utime(file, (self.files, self.files))

    def query(self, which):
        stream = self.spark.readStream.schema(SCHEMA).json(str(self.folder / "in"))
        old, new = processors()
        if which == "old":
            grouped, processor = stream.groupBy("k", "g"), old
        else:
            grouped, processor = stream.selectExpr("bigint(g) g", "k as user").groupBy("g", "user"), new
        query = grouped.transformWithState(processor, OUTPUT, "update", "processingTime")
        return query.writeStream.outputMode("update")

    def run(self, which, checkpoint):
        found = []
        writer = self.query(which).foreachBatch(lambda frame, _: found.extend(frame.collect()))
        writer = writer.option("checkpointLocation", str(self.folder / checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()
        return found


CHANGES = FieldChanges(
    renames={
        "key.user": "key.k", "total": "count", "lasting[].name": "lasting[].l",
    },
    fills={"total.note": "old", "total.parts.c": 5, "names[].note": "!", "seen{}.m": 3},
    ttls={"total": str(LONG_MS), "names": str(LONG_MS), "seen": str(LONG_MS), "lasting": f"+{HOUR_MS}"},
    drops=["gone"],
)  # fmt: skip


@pytest.mark.parametrize(
    ("encoding", "version", "is_planned"),
    [
        ("unsaferow", "1", False),
        ("unsaferow", "1", True),
        pytest.param("avro", "2", False, marks=pytest.mark.faults),
        pytest.param("avro", "2", True, marks=pytest.mark.faults),
    ],
)
def test_a_processor_goes_on_with_every_variable_and_timer(
    spark, tmp_path, monkeypatch, facts_of, encoding, version, is_planned
):
    given = {
        STORE + "providerClass": ROCKSDB,
        STORE + "encodingFormat": encoding,
        STORE + "checkpointFormatVersion": version,
        STORE + "rocksdb.changelogCheckpointing.enabled": "true" if version == "2" else "false",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.shuffle.partitions": "5",
    }
    with settings(spark, **given):
        queries, probes = Queries(spark, tmp_path), Queries(spark, tmp_path / "probe")
        queries.feed(ROWS)
        queries.run("old", "old")
        before = facts_of(tmp_path / "old")
        places = tmp_path / "old", tmp_path / "new"
        if is_planned:
            new_side = {"query": queries.query("new"), "was": queries.query("old")}
        else:
            probes.feed(ROWS[:1])
            probes.run("new", "checkpoint")
            new_side = {"like": tmp_path / "probe" / "checkpoint"}
        how = new_side | {"changes": {0: CHANGES}}
        queries.feed([{"k": one["k"], "g": one["g"], "l": "", "n": 0} for one in ROWS[:7]])
        with monkeypatch.context() as patch:
            patch.setattr("stateshift.state.migration.queries.checkpoint_copy.read_logs", lambda _: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                migrate_checkpoint(*places, **how)
        shutil.copytree(places[1], tmp_path / "unfinished")
        with pytest.raises(Exception, match=UNFINISHED):
            queries.run("new", "unfinished")
        shutil.copytree(places[0], tmp_path / "alone")
        with pytest.raises(StreamingQueryException, match="STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"):
            queries.run("new", "alone")

        report = migrate_checkpoint(*places, **how)

        assert facts_of(places[0]) == before
        stores = {one.state: one for one in report.states}
        assert stores["gone"].action == "drop"
        assert stores["more"].action == "new"
        assert stores["names"].read == stores["names"].written == len(ROWS)
        shutil.rmtree(tmp_path / "probe", ignore_errors=True)
        time.sleep(0.1)  # the timers of the old query end a millisecond after its batch
        found = queries.run("new", "new")
        queries.feed([{"k": one["k"], "g": one["g"], "l": "", "n": 0} for one in ROWS[:7]])
        again = queries.run("new", "new")

    assert sorted(one.k for one in found if one.timer) == KEYS
    assert not [one for one in again if one.timer]
    for rows in (found, again):
        assert sorted(one.k for one in rows if not one.timer) == KEYS
        for one in rows:
            of = [row for row in ROWS if row["k"] == one.k]
            last = {row["n"] % 4: row["l"] for row in of}
            assert one.n == sum(row["n"] for row in of)
            assert one.names == "".join(f"{row['l']}{row['n']}!" for row in of)
            assert one.seen == " ".join(sorted(f"{at}{text}3" for at, text in last.items()))
            assert (one.brief, one.lasting) == (False, True)
            assert one.last == f"old one 5 1 0.5 {of[-1]['l']} False"
    kept = {one.name: one for one in SparkCheckpoint.open(tmp_path / "new").operators[0].stores}
    assert sum(one.entries for one in kept["brief"].measure()) == 0
    assert sum(one.entries for one in kept["lasting"].measure()) == len(ROWS)


@pytest.fixture
def on_databases(spark):
    """`on_databases(encoding="avro")`: stores on RocksDB with five partitions, until the `with` block ends."""

    def given(encoding="unsaferow"):
        more = {"spark.sql.shuffle.partitions": "5", "spark.sql.session.timeZone": "UTC"}
        return settings(spark, **{STORE + "providerClass": ROCKSDB, STORE + "encodingFormat": encoding}, **more)

    return given


@pytest.mark.parametrize(
    ("is_pandas", "encoding"),
    [
        (False, "unsaferow"),
        (True, "unsaferow"),
        pytest.param(False, "avro", marks=pytest.mark.faults),
        pytest.param(True, "avro", marks=pytest.mark.faults),
    ],
)
def test_timers_of_event_time_fire_once_also_for_processors_of_pandas(
    spark, tmp_path, facts_of, on_databases, is_pandas, encoding
):
    how = {"is_pandas": is_pandas, "has_nulls": not is_pandas}
    with on_databases(encoding):
        queries = keeping(**how), keeping(is_new=True, **how)
        report, rows = TwoStreams(spark, tmp_path).goes_on(*queries, {0: KEEPING_CHANGES}, facts_of)

    ends = {}
    for row in (row for left, _ in BEFORE for row in left):
        key, first = (row["k"], row["l"]), dt.datetime.fromisoformat(row["at"])
        if not is_pandas or None not in key:
            ends.setdefault(key, int(first.timestamp() * 1000) + AFTER_MS)
    fired = [((one[0], one[1]), one[-1]) for one in rows if one[-1] is not None]
    assert len(fired) == len(dict(fired))
    assert {key: ended for key, ended in fired if key in ends} == ends
    timers = next(one for one in report.states if "Timers" in one.state)
    assert timers.written == len(ends)


@pytest.mark.faults
def test_null_keys_of_pandas_move_as_spark_has_them_and_as_texts_they_stay(spark, tmp_path, facts_of, on_databases):
    """With pandas 3 they are stored as the text NaN, in the partition of a null; with pandas 2 they are nulls."""
    queries = keeping(is_pandas=True), keeping(is_new=True, is_pandas=True)
    are_texts = int(pd.__version__.partition(".")[0]) >= 3
    told = pytest.raises(UnsupportedFormat, match="a null of a key as the text NaN") if are_texts else nullcontext()

    with on_databases():
        with told:
            TwoStreams(spark, tmp_path).goes_on(*queries, {0: KEEPING_CHANGES}, facts_of)
        state = spark.read.format("statestore").option("stateVarName", "total").load(str(tmp_path / "old"))
        keys = [tuple(row.key) for row in state.collect()]

    assert are_texts == any("NaN" in key for key in keys)
    assert are_texts != any(None in key for key in keys)


def beside(processor=None, *, distinct):
    """Rows of one stream, distinct ones by an operator with the number 0; and those of a processor of the other."""

    def query(s, t):
        rows, others = t.select("k", "l", "n"), s if processor is None else processor(s, t)
        return (rows.distinct() if distinct else rows).union(others.select("k", "l", "n"))

    return query


def rows_of(batches, side):
    return {(one["k"], one["l"], one["n"]) for both in batches for one in both[side]}


@pytest.mark.parametrize("version", [pytest.param("1", marks=pytest.mark.faults), "2"])
def test_a_processor_gets_another_number_and_changes(spark, tmp_path, on_databases, version):
    old, new = beside(keeping(), distinct=False), beside(keeping(is_new=True), distinct=True)
    with on_databases(), settings(spark, **{STORE + "checkpointFormatVersion": version}):
        streams = TwoStreams(spark, tmp_path)
        streams.feed(BEFORE)
        streams.run(old, "old")
        streams.run(new, "whole")

        report = migrate_checkpoint(
            tmp_path / "old", tmp_path / "new", like=tmp_path / "whole", changes={0: KEEPING_CHANGES}
        )

        assert [one.was[:1] for one in sorted(report.query.operators, key=lambda one: one.becomes)] == ["", "0"]
        streams.feed(AFTER)
        migrated, whole = streams.run(new, "new"), streams.run(new, "whole")
    seen_by_whole_alone = rows_of(BEFORE, 1) & rows_of(AFTER, 1)
    assert Counter(migrated) == Counter(whole) + Counter(seen_by_whole_alone)
    assert len(whole) > 20


@pytest.mark.parametrize("version", [pytest.param("1", marks=pytest.mark.faults), "2"])
def test_a_processor_starts_empty_beside_what_stays(spark, tmp_path, on_databases, version):
    new = beside(keeping(is_new=True), distinct=True)
    with on_databases(), settings(spark, **{STORE + "checkpointFormatVersion": version}):
        streams, fresh = TwoStreams(spark, tmp_path), TwoStreams(spark, tmp_path / "fresh")
        streams.feed(BEFORE)
        streams.run(beside(distinct=True), "old")
        fresh.folder.mkdir()
        fresh.feed(AFTER)
        counted = fresh.run(keeping(is_new=True), "checkpoint")
        fresh.run(new, "like")

        report = migrate_checkpoint(tmp_path / "old", tmp_path / "new", like=fresh.folder / "like")

        assert [one.was[:1] for one in sorted(report.query.operators, key=lambda one: one.becomes)] == ["0", ""]
        streams.feed(AFTER)
        found = streams.run(new, "new")
    expected = Counter(one[:3] for one in counted) + Counter(rows_of(AFTER, 1) - rows_of(BEFORE, 1))
    assert Counter(found) == expected
    assert len(counted) > 20
