"""`start` refuses what Spark would go on with wrongly, and keeps beside the checkpoint what a query computes."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import pytest
from spark_queries import F, Stream, settings

from stateshift.compat.policy import Policy
from stateshift.serializers.compatibility import Flag
from stateshift.serializers.errors import CorruptFile, DeclarationError, IncompatibleState
from stateshift.spark import check_query, describe, start
from stateshift.state.formats.spark.reader import SparkCheckpoint
from stateshift.state.formats.spark.recording import Recorder, find_recording
from stateshift.state.storage.files import Folder

pytestmark = pytest.mark.slow

ROWS = [("x", "p", 10, 1, "2026-01-01 00:00:00"), ("y", "q", 20, 2, "2026-01-01 00:03:00")]


@pytest.fixture
def stream(stateshift_spark, tmp_path):
    return Stream(stateshift_spark, tmp_path)


def total(rows, column="w", name="total"):
    return rows.groupBy("a").agg(F.sum(column).alias(name))


def recorded(stream, query):
    """Record a query as `start` does once the last batch is committed."""
    log = SparkCheckpoint.open(stream.checkpoint).log
    Recorder(Folder.at(stream.checkpoint), describe(query), log.query_id, log.committed).record()


def rules(report):
    return [finding.rule for finding in report.all_findings()]


def test_a_query_is_recorded_and_another_one_is_not_started(stream):
    stream.rows(*ROWS)
    start(stream.writer(total(stream.source()))).awaitTermination()
    stream.rows(*ROWS)

    for thread in threading.enumerate():
        if thread.name == "stateshift recording":
            thread.join()  # it ends with the query
    changed = total(stream.source(), F.col("v").cast("bigint"))
    with pytest.raises(IncompatibleState, match=r"sum\(w\) -> sum\(v\) .*SPK-10") as refused:
        start(stream.writer(changed))

    assert "Nothing was started." in str(refused.value)
    assert stream.spark.streams.active == []
    log = SparkCheckpoint.open(stream.checkpoint).log
    assert (log.committed, log.unfinished) == (0, None)
    recording = find_recording(SparkCheckpoint.open(stream.checkpoint))
    assert (recording.first, recording.last, recording.is_whole) == (0, 0, True)
    assert stream.run(total(stream.source(), name="other")) == [("x", 20), ("y", 40)]  # Spark ignores the folder


def test_what_spark_handles_rightly_starts_spk_1(stream):
    stream.rows(*ROWS)
    query = total(stream.source().where("w > 0"))
    stream.run(query)
    recorded(stream, query)
    rebuilt = (
        stream.source()
        .withColumn("more", F.col("w"))
        .select(F.col("a").alias("name"), "b", "more")
        .filter(F.lit(0) < F.col("more"))
        .groupBy("name")
        .agg(F.sum("more").alias("other"))
    )

    with settings(stream.spark, spark__sql__shuffle__partitions="3"):
        report = check_query(stream.checkpoint, rebuilt)
        stream.rows(*ROWS)
        alone = stream.run(rebuilt)

    assert (report.exit_status(require_recording=True), rules(report)) == (0, [])
    assert alone == [("x", 20), ("y", 40)]


@pytest.mark.parametrize("way", ["union", "join", "never read"])
def test_a_source_that_stands_twice_starts_again_spk_15(stream, way):
    def build():
        source = stream.late()
        if way == "join":
            return (
                source.alias("l").join(source.alias("r"), F.expr("l.a = r.a and l.at = r.at")).selectExpr("l.a", "r.w")
            )
        other = source.where("1 = 0") if way == "never read" else source
        return total(source.union(other))

    for number in range(3):
        stream.rows((f"x{number}", "p", 10, 1, f"2026-01-01 00:0{number}:00"))
        query = start(
            stream.writer(build(), mode="append" if way == "join" else "update"),
            policy=Policy(forbid=Flag),
            require_recording=True,
        )
        query.awaitTermination()
        for thread in threading.enumerate():
            if thread.name == "stateshift recording":
                thread.join()

    log = SparkCheckpoint.open(stream.checkpoint).log
    assert len(log.last.sources) == 2
    assert log.committed >= 2


def test_a_recording_counts_for_the_batches_that_it_names(stream, tmp_path):
    stream.rows(*ROWS)
    query = total(stream.source())
    stream.run(query)
    recorded(stream, query)
    whole = stream.saved()
    (written,) = Path(stream.checkpoint, "_stateshift", "queries").iterdir()
    data = json.loads(written.read_text())

    stream.rows(*ROWS)
    stream.run(query)  # nobody records this batch
    later = find_recording(SparkCheckpoint.open(stream.checkpoint))
    report = check_query(stream.checkpoint, query)
    written.write_text(json.dumps(data | {"query_id": "another"}))

    assert (later.first, later.last, later.is_whole) == (0, 0, False)
    assert (report.exit_status(), report.exit_status(require_recording=True)) == (0, 4)
    assert find_recording(SparkCheckpoint.open(stream.checkpoint)) is None
    assert find_recording(SparkCheckpoint.open(whole)).is_whole

    shutil.copytree(whole, tmp_path / "damaged")
    (tmp_path / "damaged" / "_stateshift" / "queries" / "0.json").write_text("{}")
    with pytest.raises(CorruptFile, match="recording of a query is damaged"):
        check_query(tmp_path / "damaged", query)


def test_a_start_that_fails_leaves_no_recording(stream):
    stream.rows(*ROWS)
    recorder = Recorder(Folder.at(stream.checkpoint), describe(total(stream.source())), "id", 0)

    recorder.record()

    assert not Path(stream.checkpoint).exists()


def test_a_query_without_a_checkpoint_is_not_started(stream):
    with pytest.raises(DeclarationError, match="no checkpoint"):
        start(total(stream.source()).writeStream.format("noop").outputMode("update"))
