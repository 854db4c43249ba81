"""A checkpoint migrated for a query that was only planned; the query then goes on as if it had seen all of history."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.streaming.state import GroupStateTimeout
from spark_queries import F, Stream, settings

from stateshift.compat.queries.changes import Backfill, FieldChanges
from stateshift.serializers.errors import DeclarationError, IncompatibleState
from stateshift.spark.queries.migration import migrate_checkpoint
from stateshift.state.formats.spark.reader import SparkCheckpoint

pytestmark = pytest.mark.slow

FIRST = [(f"k{one % 7}", f"l{one % 3}", one, 2 * one % 5, "2026-01-01 00:00:00") for one in range(30)]
LAST = [(f"k{one % 9}", f"l{one % 4}", 3 * one, one % 6, "2026-01-01 00:01:00") for one in range(40)]


@pytest.fixture
def stream(spark, tmp_path):
    with settings(spark, spark__sql__shuffle__partitions="5", spark__sql__session__timeZone="UTC"):
        yield Stream(spark, tmp_path)


@pytest.fixture
def old(stream):
    """`old(query)`: a query has read the first rows, and others wait; return its checkpoint."""

    def run(query, mode="update"):
        stream.rows(*FIRST)
        stream.run(query(stream.source()), mode)
        saved = stream.saved()
        stream.rows(*LAST)
        return saved

    return run


@pytest.fixture
def go_on(stream, tmp_path):
    """`go_on(old, query, …)`: migrate for a query, and run it on the copy; return the report and its rows."""

    def run(old, query, mode="update", **said):
        target = tmp_path / "new"
        writer = query(stream.source()).writeStream.outputMode(mode)
        report = migrate_checkpoint(old, target, query=writer, **said)
        collected = []
        runner = stream.writer(query(stream.source()), collected, mode).option("checkpointLocation", str(target))
        runner.start().awaitTermination()
        return report, sorted(collected, key=str)

    return run


@pytest.fixture
def over_all(stream, tmp_path):
    """`over_all(query)`: what the query says of the keys of the last rows, after all rows."""

    def run(query):
        frame = stream.spark.read.schema(stream.source().schema).json(str(tmp_path / "s"))
        keys = {(row[0], row[1]) for row in LAST}
        rows = [tuple(row) for row in query(frame).collect()]
        return sorted((row for row in rows if row[:2] in keys), key=str)

    return run


def of(*aggregates):
    return lambda s: s.groupBy("a", "b").agg(*map(F.expr, aggregates))


SUMS = of("sum(w)", "sum(v)")


def test_an_aggregate_more_needs_no_probe(old, go_on, over_all):
    query = of("sum(w)", "count(*)", "sum(v)")
    checkpoint = old(SUMS)
    with pytest.raises(IncompatibleState, match=r"value\.count .*the field is new"):
        go_on(checkpoint, query, was=None)

    report, rows = go_on(checkpoint, of("sum(w)", "max(w) as m", "sum(v)"),
                         changes={0: FieldChanges(fills={"value.max": None})})  # fmt: skip

    expected = over_all(of("sum(w)", "sum(v)"))
    assert [(*row[:3], row[4]) for row in rows] == expected
    assert report.query.known_from == ""
    assert "the checkpoint does not show what each aggregate and key is computed from" in report.query.not_compared[0]


def test_two_sums_that_change_places_are_converted_by_what_they_sum(stream, old, go_on, over_all):
    changed = of("sum(v)", "sum(w)")

    report, rows = go_on(old(SUMS), changed, was=SUMS(stream.source()))

    assert report.states[0].action == "convert"
    assert report.query.known_from == "the old code"
    assert report.query.not_compared == ()
    assert rows == over_all(changed)


def test_another_column_under_the_same_name_is_never_copied_in_silence(stream, old, go_on):
    checkpoint, was = old(of("sum(w)")), of("sum(w)")(stream.source())
    changed = of("sum(v) as `sum(w)`")
    with pytest.raises(IncompatibleState, match=r"value\.sum  sum\(w\) -> sum\(v\)  the column is computed") as raised:
        go_on(checkpoint, changed, was=was)
    assert 'fills={"value.sum": None}' in str(raised.value)
    assert "--" not in str(raised.value)

    _, rows = go_on(checkpoint, changed, was=was, changes={0: FieldChanges(fills={"value.sum": None})})

    new = {row[:2]: 0 for row in LAST}
    for row in LAST:
        new[row[:2]] += row[3]
    assert {row[:2]: row[2] for row in rows} == new


def test_a_change_of_rows_is_accepted_or_refused(stream, old, go_on):
    checkpoint, was = old(of("sum(w)")), of("sum(w)")(stream.source())

    def filtered(s):
        return of("sum(w)")(s.where("v > 1"))

    with pytest.raises(IncompatibleState, match=r"SPK-13") as raised:
        go_on(checkpoint, filtered, was=was)
    assert 'accept=("SPK-13",)' in str(raised.value)

    report, _ = go_on(checkpoint, filtered, was=was, accept=("SPK-13",))
    assert {one.action for one in report.states} == {"copy"}


def test_a_widened_aggregate_and_exchanged_keys_are_taken_over(stream, old, go_on, over_all):
    def changed(s):
        return s.groupBy("b", "a").agg(F.max(F.col("v").cast("bigint")))

    _, rows = go_on(old(of("max(v)")), changed, was=of("max(v)")(stream.source()))

    assert sorted(((a, b, v) for b, a, v in rows), key=str) == over_all(of("max(v)"))


def unseen(s):
    return s.withWatermark("at", "1 hour").dropDuplicates(["a", "b"])


def test_an_operator_that_moves_takes_its_state_along_and_a_new_one_starts_empty(old, go_on, tmp_path):
    def counted(s):
        return unseen(s).groupBy("a").count()

    report, rows = go_on(old(unseen, "append"), counted)

    new_keys = {row[:2] for row in LAST} - {row[:2] for row in FIRST}
    counts = {}
    for a, _ in new_keys:
        counts[a] = counts.get(a, 0) + 1
    assert dict(rows) == counts
    assert {(one.was, one.becomes) for one in report.query.operators} == {
        ("", "0 (aggregation)"),
        ("0 (dropDuplicates)", "1 (dropDuplicates)"),
    }
    assert report.states[0].action == "new"
    stored = SparkCheckpoint.open(tmp_path / "new")
    assert [one.title for one in stored.operators] == ["0 (aggregation)", "1 (dropDuplicates)"]


def test_state_is_dropped_only_if_that_is_said(old, go_on):
    def counted(s):
        return s.groupBy("a").count()

    checkpoint = old(lambda s: counted(unseen(s)), "update")
    with pytest.raises(IncompatibleState, match=r"operator 1 \(dropDuplicates\): \$ .*the new query has no operator"):
        go_on(checkpoint, counted)

    report, rows = go_on(checkpoint, counted, operators={1: None})

    assert [one.was for one in report.query.operators if not one.becomes] == ["1 (dropDuplicates)"]
    assert report.query.warnings[0] == "the state of operator 1 (dropDuplicates) is dropped"
    before = {a: len({b for of, b, *_ in FIRST if of == a}) for a, *_ in FIRST}
    assert dict(rows) == {a: before.get(a, 0) + sum(1 for one in LAST if one[0] == a) for a, *_ in LAST}


def test_of_two_alike_none_is_guessed(old, go_on):
    def twice(s):
        return unseen(s.where("w > 3")).where("v > 0").dropDuplicates(["a", "b"])

    checkpoint = old(twice, "append")

    with pytest.raises(IncompatibleState, match="it may be operator 0 of the new query"):
        go_on(checkpoint, unseen, "append")

    go_on(checkpoint, unseen, "append", operators={0: None, 1: 0})


def test_the_copy_may_have_a_query_id_of_its_own(old, go_on, tmp_path):
    checkpoint = old(SUMS)

    report, _ = go_on(checkpoint, SUMS, new_query_id=True)

    ids = [SparkCheckpoint.open(place).log.query_id for place in (checkpoint, tmp_path / "new")]
    assert ids[0] != ids[1] == report.query.query_id
    assert "Delta takes the batch of the other query for a new one" in report.query.going_back


def total_state():
    """The functions of the old and the new query; as local ones they are sent to workers whole."""

    def old_state(key, frames, state):
        import pandas as pd

        (data,) = state.get if state.exists else (pickle.dumps({"total": 0}),)
        total = pickle.loads(data)["total"] + sum(int(frame.w.sum()) for frame in frames)
        state.update((pickle.dumps({"total": total}),))
        yield pd.DataFrame({"a": [key[0]], "total": [total]})

    def new_state(key, frames, state):
        import pandas as pd

        _, total = state.get if state.exists else ("new", 0)
        total += sum(int(frame.w.sum()) for frame in frames)
        state.update(("", total))
        yield pd.DataFrame({"a": [key[0]], "total": [total]})

    return old_state, new_state


def unpickled(column):
    totals = [pickle.loads(one)["total"] for one in column.field("data").to_pylist()]
    return pa.StructArray.from_arrays([pa.array(["moved"] * len(totals)), pa.array(totals)], names=["note", "total"])


def test_pickled_state_becomes_typed_by_a_function(old, go_on):
    old_state, new_state = total_state()

    def query(function, schema):
        return lambda s: s.groupBy("a").applyInPandasWithState(
            function, "a string, total bigint", schema, "update", GroupStateTimeout.NoTimeout
        )

    checkpoint = old(query(old_state, "data binary"))
    converters = {"value.groupState": unpickled}

    report, rows = go_on(
        checkpoint, query(new_state, "note string, total bigint"), changes={0: FieldChanges(converters=converters)}
    )

    totals = {a: sum(one[2] for one in FIRST + LAST if one[0] == a) for a, *_ in LAST}
    assert dict(rows) == totals
    assert any("is converted by" in one.reason for one in report.plan.operators[0].states[0].findings)


def test_an_aggregate_that_changes_is_converted_by_a_function(stream, old, go_on, over_all):
    def changed(s):
        return s.groupBy("a", "b").agg(F.sum(F.col("w").cast("double") / 2))

    def halved(column):
        return pc.divide(column.cast(pa.float64()), 2.0)

    changes = {0: FieldChanges(converters={"value.sum": halved})}
    _, rows = go_on(old(of("sum(w)")), changed, was=of("sum(w)")(stream.source()), changes=changes)

    assert rows == over_all(changed)


def test_an_aggregate_more_is_filled_by_key_from_history(stream, old, go_on, over_all, tmp_path):
    query = of("sum(w)", "max(v)", "avg(w)")
    checkpoint = old(of("sum(w)"))
    history = stream.spark.createDataFrame(FIRST, "a string, b string, w bigint, v int, at string")
    grouped = history.groupBy("b", "a").agg(
        F.max("v").alias("most"), F.sum("w").cast("double").alias("whole"), F.count("w").alias("rows")
    )
    fills = {
        "value.max": Backfill(grouped, "most"),
        "value.sum#2": Backfill(grouped, "whole"),
        "value.count": Backfill(grouped, "rows"),
    }

    def said(fills):
        return {0: FieldChanges(renames={"value.sum": "value.sum"}, fills=fills)}

    fewer = fills | {"value.max": Backfill(grouped.where("a < 'k3'"), "most")}
    with pytest.raises(IncompatibleState, match=r"keys in a block have no row in the DataFrame that fills value\.max"):
        migrate_checkpoint(checkpoint, tmp_path / "fewer", query=query(stream.source()), changes=said(fewer))

    _, rows = go_on(checkpoint, query, changes=said(fills))

    assert rows == over_all(query)


def test_a_frame_that_does_not_fit_is_refused_before_anything_is_written(stream, old, tmp_path):
    checkpoint = old(of("sum(w)"))
    query = of("sum(w)", "max(v)")(stream.source()).writeStream.outputMode("update")

    def fill(frame, column="most", **more):
        changes = {0: FieldChanges(fills={"value.max": Backfill(frame, column, **more)})}
        return migrate_checkpoint(checkpoint, tmp_path / "new", query=query, changes=changes)

    table = pa.table({"a": ["k1", "k1"], "b": ["l1", "l1"], "most": pa.array([1, 2], pa.int32())})
    with pytest.raises(DeclarationError, match="has no column b; it has a, most"):
        fill(table.drop_columns(["b"]))
    with pytest.raises(DeclarationError, match="1 rows of a key that has another row"):
        fill(table)
    with pytest.raises(DeclarationError, match="values of another type"):
        fill(table.slice(1).set_column(2, "most", pa.array(["x"])))
    assert not (tmp_path / "new").exists()

    report = fill(table.slice(1), is_complete=False)
    assert report.states[0].action == "convert"


def test_one_new_side_is_given(old, stream, tmp_path):
    checkpoint = old(SUMS)
    for given in ({}, {"query": SUMS(stream.source()), "like": checkpoint}):
        with pytest.raises(DeclarationError, match="one of query= and like="):
            migrate_checkpoint(checkpoint, tmp_path / "new", **given)
