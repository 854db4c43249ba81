"""Changes that Spark accepts in silence: what it does alone, then the verdict, with and without knowing the old query.

Each change is two queries on one checkpoint. Spark runs the old one on a first batch and the new one on a second, and
the rows that it then yields are written down here. The verdict is on the checkpoint as the old query left it: by
itself, with the old code, and with a recording. Beside them changes that Spark refuses.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from pyspark.errors import StreamingQueryException
from spark_queries import F, Stream

from stateshift.compat.queries.description import from_data, to_data
from stateshift.compat.queries.verdict import judge
from stateshift.spark import check_query, describe
from stateshift.state.formats.spark.reader import SparkCheckpoint
from stateshift.state.formats.spark.recording import Recorder
from stateshift.state.storage.files import Folder

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
OLD = [("x", "p", 10, 1, "2026-01-01 00:00:00"), ("x", "q", 20, 2, "2026-01-01 00:03:00")]
NEW = [("x", "p", 15, 3, "2026-01-01 00:04:00"), ("q", "x", 5, 4, "2026-01-01 00:05:00")]


@attrs.frozen
class Change:
    """A change of a query.

    Attributes:
        was: The old query.
        now: The new query.
        alone: The rows that Spark yields for the new query.
        seen: The decision on the checkpoint alone, and its rules.
        known: The decision with the old code or a recording, and its rules; None: any.
    """

    was: Callable[[Stream], Any]
    now: Callable[[Stream], Any]
    alone: list[tuple[Any, ...]]
    seen: tuple[str, list[str]]
    known: tuple[str, list[str]]
    mode: str = "update"


def state_of(names):
    def count(key, frames, state):
        import pandas as pd

        kept = dict(zip(names, state.get if state.exists else ("", ""), strict=True))
        for frame in frames:
            for row in frame.itertuples():
                kept = {"first": kept["first"] or row.b, "last": row.b}
        state.update(tuple(kept[name] for name in names))
        yield pd.DataFrame({"a": [key[0]], "first": [kept["first"]], "last": [kept["last"]]})

    def build(stream):
        return (
            stream.source()
            .groupBy("a")
            .applyInPandasWithState(
                count,
                "a string, first string, last string",
                f"{names[0]} string, {names[1]} string",
                "update",
                "NoTimeout",
            )
        )

    return build


def numbers(schema):
    """State of some numbers, each 1."""
    count = schema.count(",") + 1

    def keep(key, frames, state):
        import pandas as pd

        found = state.get if state.exists else None
        for _ in frames:
            state.update((1,) * count)
        yield pd.DataFrame({"a": [key[0]], "found": [str(found)]})

    return lambda stream: (
        stream.source()
        .groupBy("a")
        .applyInPandasWithState(keep, "a string, found string", schema, "update", "NoTimeout")
    )


def joined(key="a", columns=("a", "b", "more"), names=None):
    def build(stream):
        left = stream.late().withColumn("more", F.upper("a")).select(*columns, "at").toDF(*(names or columns), "at")
        right = stream.source("t").select(F.col("a").alias("k"), F.col("w").alias("n"), F.col("at").alias("then"))
        on = F.expr(f"{key} = k and then >= at - interval 1 minute and then <= at + interval 4 minutes")
        both = left.join(right.withWatermark("then", "10 minutes"), on)
        return both.select("a", "b", "more", "n", F.date_format("at", "HH:mm"))

    return build


def grouped(*keys, of=("count(*)",)):
    return lambda stream: stream.source().groupBy(*keys).agg(*map(F.expr, of))


def by_struct(text):
    return lambda stream: stream.source().groupBy(F.expr(text)).agg(F.count("*"))


def windowed(length):
    parts = [f"date_format(window.{name}, 'HH:mm')" for name in ("start", "end")]
    return lambda stream: (
        stream.late().groupBy(F.window("at", length)).agg(F.sum("w").alias("n")).selectExpr(*parts, "n")
    )


def sessions(gap):
    parts = [f"date_format(session_window.{name}, 'HH:mm')" for name in ("start", "end")]
    return lambda stream: (
        stream.late().groupBy(F.session_window("at", gap), "a").agg(F.sum("w").alias("n")).selectExpr("a", *parts, "n")
    )


def without_duplicates(*columns):
    return lambda stream: stream.source().dropDuplicates(list(columns)).select("a", "b", "w")


def twice(first, second):
    return lambda stream: stream.source().dropDuplicates([first]).dropDuplicates([second]).select("a", "b", "w")


def filtered(least):
    return lambda stream: stream.source().where(F.col("w") >= least).groupBy("a").agg(F.count("*"))


CHANGES = {
    "sum becomes max": Change(
        grouped("a", of=["sum(w)"]), grouped("a", of=["max(w)"]), [("q", 5), ("x", 30)],
        ("migrate", ["SPK-4", "SPK-3", "SPK-17"]), ("migrate", ["SPK-4", "SPK-3"]),
    ),
    "sum and max change places": Change(
        grouped("a", of=["sum(w)", "max(w)"]), grouped("a", of=["max(w)", "sum(w)"]),
        [("q", 5, 5), ("x", 30, 35)], ("migrate", ["SPK-2", "SPK-17"]), ("migrate", ["SPK-2"]),
    ),
    "two sums change places": Change(
        grouped("a", of=["sum(w)", "sum(v)"]), grouped("a", of=["sum(v)", "sum(w)"]),
        [("q", 4, 5), ("x", 33, 18)], ("start", ["SPK-17"]), ("migrate", ["SPK-2"]),
    ),
    "another column is summed": Change(
        grouped("a", of=["sum(w)"]), grouped("a", of=["sum(cast(v as bigint))"]), [("q", 4), ("x", 33)],
        ("start", ["SPK-17"]), ("migrate", ["SPK-10"]),
    ),
    "an average becomes a sum and a count": Change(
        grouped("a", of=["avg(w)"]), grouped("a", of=["sum(cast(w as double))", "count(w)"]),
        [("q", 5.0, 1), ("x", 45.0, 3)], ("start", ["SPK-17"]), ("start", []),
    ),
    "two keys change places": Change(
        grouped("a", "b"), grouped("b", "a"), [("p", "x", 1), ("x", "q", 2)],
        ("refuse", ["SPK-2", "SPK-17"]), ("migrate", ["SPK-2"]),
    ),
    "another key": Change(
        grouped("a"), grouped("b"), [("p", 1), ("x", 3)],
        ("refuse", ["SPK-4", "SPK-11", "SPK-17"]), ("refuse", ["SPK-4", "SPK-11"]),
    ),
    "another length of a window": Change(
        windowed("10 minutes"), windowed("5 minutes"), [("00:00", "00:05", 15), ("00:05", "00:10", 5)],
        ("start", ["SPK-17"]), ("refuse", ["SPK-10"]),
    ),
    "another gap of sessions": Change(
        sessions("5 minutes"), sessions("30 seconds"), [("q", "00:05", "00:05", 5), ("x", "00:00", "00:08", 45)],
        ("start", ["SPK-17"]), ("refuse", ["SPK-10"]), mode="complete",
    ),
    "a field in its old place has another name": Change(
        numbers("n int, m int"), numbers("n int, o int"), [("q", "None"), ("x", "(1, 1)")],
        ("start", ["SPK-18", "SPK-17"]), ("start", ["SPK-18"]),
    ),
    "other rows": Change(
        filtered(0), filtered(12), [("x", 3)], ("start", ["SPK-17"]), ("refuse", ["SPK-13"]),
    ),
    "two columns without duplicates change places": Change(
        without_duplicates("a", "b"), without_duplicates("b", "a"), [("x", "p", 15)],
        ("refuse", ["SPK-2", "SPK-17"]), ("migrate", ["SPK-2"]),
    ),
    "another column without duplicates": Change(
        without_duplicates("a"), without_duplicates("b"), [("x", "p", 15)],
        ("refuse", ["SPK-4", "SPK-11", "SPK-17"]), ("refuse", ["SPK-4", "SPK-11"]),
    ),
    "two operators change places": Change(
        twice("a", "b"), twice("b", "a"), [("x", "p", 15)],
        ("migrate", ["SPK-14", "SPK-17", "SPK-14", "SPK-17"]), ("refuse", None),
    ),
    "two fields of the users' state change places": Change(
        state_of(["first", "last"]), state_of(["last", "first"]), [("q", "x", "x"), ("x", "q", "p")],
        ("refuse", ["SPK-2", "SPK-17"]), ("refuse", ["SPK-2", "SPK-21"]),
    ),
    "two values of a join change places": Change(
        joined(), joined(columns=("a", "more", "b")),
        [
            ("q", "x", "Q", 5, "00:05"), ("x", "X", "p", 15, "00:00"), ("x", "X", "q", 15, "00:03"),
            ("x", "p", "X", 15, "00:04"), ("x", "p", "X", 20, "00:04"),
        ],
        ("refuse", ["SPK-2", "SPK-17"]), ("migrate", ["SPK-2"]), mode="append",
    ),
    "two values of a join exchange their names": Change(
        joined(), joined(names=("a", "more", "b")),
        [
            ("q", "Q", "x", 5, "00:05"), ("x", "X", "p", 15, "00:00"), ("x", "X", "p", 15, "00:04"),
            ("x", "X", "p", 20, "00:04"), ("x", "X", "q", 15, "00:03"),
        ],
        ("refuse", ["SPK-2", "SPK-17"]), ("start", []), mode="append",
    ),
    "fields of a struct in the key exchange their names": Change(
        by_struct("struct(w as x, w * 10 as y) as s"), by_struct("struct(w as y, w * 10 as x) as s"),
        [((15, 150), 1), ((5, 50), 1)],
        ("refuse", ["SPK-2", "SPK-17"]), ("start", []),
    ),
    "fields of a struct in the key change places": Change(
        by_struct("struct(w as x, w * 10 as y) as s"), by_struct("struct(w * 10 as y, w as x) as s"),
        [((150, 15), 1), ((50, 5), 1)],
        ("refuse", ["SPK-2", "SPK-17"]), ("migrate", ["SPK-2"]),
    ),
    "a sum of the same with another deviation": Change(
        grouped("a", of=["round(stddev_samp(w), 2)"]), grouped("a", of=["round(var_pop(w), 2)"]),
        [("q", 0.0), ("x", 16.67)],
        ("start", ["SPK-17"]), ("start", []),
    ),
    "another percentage": Change(
        grouped("a", of=["percentile(w, 0.5)"]), grouped("a", of=["percentile(w, 0.9)"]),
        [("q", 5.0), ("x", 19.0)],
        ("start", ["SPK-17"]), ("start", []),
    ),
    "a key whose name changed its case": Change(
        grouped("a"), grouped("A"), [("q", 1), ("x", 3)], ("start", ["SPK-17"]), ("start", []),
    ),
    "another key of a join": Change(
        joined(), joined("b"),
        [("q", "x", "Q", 15, "00:05"), ("x", "p", "X", 15, "00:00"), ("x", "q", "X", 15, "00:03")],
        ("start", ["SPK-17"]), ("refuse", ["SPK-10", "SPK-13"]), mode="append",
    ),
}  # fmt: skip
IN_BRIEF = ("another column is summed", "sum becomes max")


@pytest.fixture
def stream(stateshift_spark, tmp_path):
    return Stream(stateshift_spark, tmp_path)


def told(report):
    return str(report.decision), [finding.rule for finding in report.all_findings()]


@pytest.mark.parametrize(
    "name", [name if name in IN_BRIEF else pytest.param(name, marks=pytest.mark.faults) for name in sorted(CHANGES)]
)
def test_spark_starts_and_the_check_says_why_it_should_not_spk_10_and_13_and_17(stream, name):
    change = CHANGES[name]
    stream.rows(*OLD)
    stream.rows(*OLD, to="t")
    stream.run(change.was(stream), change.mode)
    saved = stream.saved()
    stream.rows(*NEW)
    stream.rows(*NEW, to="t")

    alone = stream.run(change.now(stream), change.mode)
    seen = check_query(saved, change.now(stream))
    known = check_query(saved, change.now(stream), was=change.was(stream))
    unchanged = check_query(saved, change.was(stream), was=change.was(stream))
    log = SparkCheckpoint.open(saved).log
    Recorder(Folder.at(saved), describe(change.was(stream)), log.query_id, log.committed).record()
    recorded = check_query(saved, change.now(stream))

    assert alone == change.alone
    assert told(seen) == change.seen
    decision, rules = change.known
    assert told(known) == (decision, rules if rules is not None else told(known)[1])
    assert told(unchanged) == ("start", [])
    flags = [tuple(map(str, finding.flags)) for finding in seen.all_findings() if finding.rule == "SPK-17"]
    assert flags == [("unverified",)] * len(seen.operators)
    assert {one.was.computation.source for one in known.operators} == {"the old code"}
    assert told(recorded) == told(known)
    assert {one.was.computation.source for one in recorded.operators} == {
        f"the recording of batches {log.committed} to {log.committed}"
    }
    assert (seen.is_whole, recorded.is_whole) == (False, True)


REFUSED = {
    "an aggregate more": (
        grouped("a"), grouped("a", of=["count(*)", "sum(w)"]), "VALUE_SCHEMA", ("migrate", ["SPK-3", "SPK-17"]),
    ),
    "a wider maximum": (
        grouped("a", of=["max(v)"]), grouped("a", of=["max(cast(v as bigint))"]), "VALUE_SCHEMA",
        ("migrate", ["SPK-5", "SPK-17"]),
    ),
    "a key more": (
        without_duplicates("a"), without_duplicates("a", "b"), "KEY_SCHEMA", ("migrate", ["SPK-11", "SPK-17"]),
    ),
    "a field more": (numbers("n int"), numbers("n int, m int"), "VALUE_SCHEMA", ("migrate", ["SPK-3", "SPK-17"])),
    "a field less": (numbers("n int, m int"), numbers("n int"), "VALUE_SCHEMA", ("migrate", ["SPK-4", "SPK-17"])),
    "a wider field": (numbers("n int"), numbers("n bigint"), "VALUE_SCHEMA", ("migrate", ["SPK-5", "SPK-17"])),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [name if name == "a wider maximum" else pytest.param(name, marks=pytest.mark.faults) for name in sorted(REFUSED)],
)
def test_what_spark_refuses_is_told_before_the_start_spk_3_to_5_and_11(stream, name):
    was, now, said, expected = REFUSED[name]
    stream.rows(*OLD)
    stream.run(was(stream))
    saved = stream.saved()
    stream.rows(*NEW)

    with pytest.raises(StreamingQueryException, match=f"STATE_STORE_{said}_NOT_COMPATIBLE"):
        stream.run(now(stream))

    assert told(check_query(saved, now(stream))) == expected


def as_stored(query):
    """What a checkpoint of a query shows."""
    bare = query.computing(lambda one: attrs.evolve(one, columns={}, facts={}, unseen=(), source="", details={}))
    return attrs.evolve(bare, inputs=None)


def with_times(time_to_live):
    from pyspark.sql.streaming import StatefulProcessor

    class Keep(StatefulProcessor):
        def init(self, handle):
            self.kept = handle.getValueState("kept", "n bigint", time_to_live)

        def handleInputRows(self, key, rows, timers):  # noqa: N802 - Spark's
            yield from ()

        def close(self):
            pass

    return lambda stream: (
        stream.source().groupBy("a").transformWithStateInPandas(Keep(), "a string", "Update", "ProcessingTime")
    )


def test_each_release_of_spark_judges_the_changes_alike(stream):
    """`make oldest` runs it with the oldest one, `make releases` with those between."""
    found, expected = {}, {}
    for name, change in CHANGES.items():
        was, now = (describe(build(stream), output_mode=change.mode) for build in (change.was, change.now))
        seen, known = judge(as_stored(was), now), judge(as_stored(was), now, known=was)
        unchanged = judge(as_stored(was), was, known=was)
        decision, rules = change.known
        found[name] = told(seen), told(known), told(unchanged)
        expected[name] = change.seen, (decision, told(known)[1] if rules is None else rules), ("start", [])

    assert expected == found


def test_each_release_of_spark_knows_the_times_to_live_and_the_code_of_a_processor(stream):
    was, now = (describe(with_times(of)(stream), output_mode="update") for of in (1000, 2000))

    assert [
        ("time to live of kept", "SPK-12", "1000 ms", "2000 ms"),
    ] == [
        (one.path[2:-1], one.rule, one.old, one.new)
        for one in judge(as_stored(was), now, known=was).all_findings()
        if one.rule == "SPK-12"
    ]
    assert ["Keep"] == [one.name for one in was.computations[0].details["function"]]
    assert was.computations[0].unseen == ()


def sampled(stream):
    stream.source("t")  # makes its folder
    table = stream.spark.read.schema("a string, n int").json(str(stream.folder / "t")).sample(fraction=0.5, seed=7)
    return stream.source().join(table, "a").groupBy("a").agg(F.collect_list("b"), F.collect_set("v"))


RECORDED = {
    "join": (joined(), "append"),
    "sessions": (sessions("5 minutes"), "append"),
    "windows": (windowed("10 minutes"), "append"),
    "sample and collections": (sampled, "update"),
    "present time": (lambda stream: grouped("a")(stream).where("a <> string(current_date())"), "update"),
    "times to live": (with_times(1000), "update"),
}


def test_what_spark_4_0_recorded_is_compared_with_what_this_one_plans(stream):
    """Some expressions had other names there, and fewer arguments. STATESHIFT_RECORD=1 with Spark 4.0 writes it."""
    file = ROOT / "tests" / "fixtures" / "spark-4.0" / "descriptions.json"
    plans = {name: describe(build(stream), output_mode=mode) for name, (build, mode) in RECORDED.items()}
    if os.environ.get("STATESHIFT_RECORD") and stream.spark.version.startswith("4.0."):
        text = json.dumps({name: to_data(plan) for name, plan in plans.items()}, indent=1)
        file.write_text(text.replace(str(stream.folder), "FOLDER") + "\n")

    recorded = json.loads(file.read_text().replace("FOLDER", str(stream.folder)))
    found = {}
    for name, now in plans.items():
        was = from_data(recorded[name], "a recording")
        decision, rules = told(judge(as_stored(was), now, known=was))
        found[name] = decision, set(rules) - {"SPK-21"}  # PySpark, of one release, is part of a processor's code

    assert {one["spark"] for one in recorded.values()} == {"4.0.0"}
    assert dict.fromkeys(RECORDED, ("start", set())) == found
