"""Processors of transformWithState that change: what Spark alone does with the checkpoint, then the verdict."""

from __future__ import annotations

import pytest
from spark_queries import Stream, settings

from stateshift.spark import check_query

pytestmark = pytest.mark.slow

STORE = "spark.sql.streaming.stateStore."
OLD = [("x", "p", 10, 1, "2026-01-01 00:00:00"), ("y", "q", 20, 2, "2026-01-01 00:03:00")]
NEW = [("x", "p", 15, 3, "2026-01-01 00:04:00"), ("q", "y", 5, 4, "2026-01-01 00:05:00")]
HOUR_MS = 3_600_000


def keeping(schema="first string, last string", names=("first", "last"), *, key="a", ttl_ms=None):
    """A query that keeps what it saw first and last of a key, and yields both."""

    def build(stream):
        from pyspark.sql import Row
        from pyspark.sql.streaming import StatefulProcessor

        class Keeping(StatefulProcessor):
            def init(self, handle):
                self.kept = handle.getValueState("kept", schema, ttl_ms)

            def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803 - Spark's names
                kept = dict(zip(names, self.kept.get() or [""] * len(names), strict=True))
                for row in rows:
                    kept = {name: kept.get(name) or row.b for name in names} | {"last": row.b}
                self.kept.update(tuple(kept[name] for name in names))
                yield Row(k=key[0], first=kept["first"], last=kept["last"])

            def close(self):
                pass

        output, mode = "k string, first string, last string", "none" if ttl_ms is None else "processingTime"
        return stream.source().groupBy(key).transformWithState(Keeping(), output, "update", mode)

    return build


CASES = {
    "two fields change places": (
        keeping(), keeping("last string, first string", ("last", "first")), "unsaferow",
        [("q", "y", "y"), ("x", "p", "p")], ("refuse", ["SPK-2", "SPK-17"]), ("refuse", ["SPK-2", "SPK-21"]),
    ),
    "another grouping key": (
        keeping(), keeping(key="b"), "unsaferow",
        [("p", "p", "p"), ("y", "q", "y")], ("refuse", ["SPK-4", "SPK-11", "SPK-17"]), ("refuse", ["SPK-4", "SPK-11"]),
    ),
    "another time to live": (
        keeping(ttl_ms=HOUR_MS), keeping(ttl_ms=1), "unsaferow",
        [("q", "y", "y"), ("x", "p", "p")], ("start", ["SPK-17"]), ("refuse", ["SPK-12", "SPK-21"]),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        name if name == "another time to live" else pytest.param(name, marks=pytest.mark.faults)
        for name in sorted(CASES)
    ],
)
def test_spark_starts_with_another_processor_and_the_check_says_why_it_should_not(stateshift_spark, tmp_path, name):
    was, now, encoding, alone, seen, known = CASES[name]
    stream = Stream(stateshift_spark, tmp_path)
    given = {
        STORE + "providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        STORE + "encodingFormat": encoding,
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    with settings(stateshift_spark, **given):
        stream.rows(*OLD)
        stream.run(was(stream))
        saved = stream.saved()
        stream.rows(*NEW)

        assert stream.run(now(stream)) == alone
        for report, expected in (
            (check_query(saved, now(stream)), seen),
            (check_query(saved, now(stream), was=was(stream)), known),
            (check_query(saved, was(stream), was=was(stream)), ("start", [])),
        ):
            assert (str(report.decision), [finding.rule for finding in report.all_findings()]) == expected
