"""Queries of joins, sessions and several operators that change: the copy is what Spark writes for the new query.

Each time the new query runs twice: on the migrated copy, and on a checkpoint of its own, over all history. Where
nothing of the new state is unknown, both have the same bytes in the same partitions, and go on with the same rows.
"""

from __future__ import annotations

import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as its users write it
from spark_queries import settings
from spark_streams import (
    AFTER,
    BEFORE,
    JOIN_CHANGES,
    SESSION_CHANGES,
    STORE,
    STORES,
    TwoStreams,
    in_sessions,
    in_sessions_anew,
    joined,
    joined_anew,
    stored,
)

from stateshift.compat.queries.changes import FieldChanges
from stateshift.spark.queries.migration import migrate_checkpoint

pytestmark = pytest.mark.slow

FORMAT = "spark.sql.streaming.join.stateFormatVersion"


@pytest.fixture
def streams(spark, tmp_path):
    with settings(spark, spark__sql__shuffle__partitions="5", spark__sql__session__timeZone="UTC"):
        yield TwoStreams(spark, tmp_path)
    for name in (FORMAT, *(STORE + name for of in STORES.values() for name in of)):
        spark.conf.unset(name)


@pytest.mark.parametrize(
    ("how", "version", "store"),
    [
        ("left_outer", "2", "default"),
        ("left_outer", "3", "rocksdb"),
        ("full_outer", "4", "rocksdb, changelogs, checksums"),
        *(
            pytest.param(*each, marks=pytest.mark.faults)
            for each in (
                ("inner", "2", "default"),
                ("right_outer", "2", "default"),
                ("full_outer", "3", "default"),
                ("left_semi", "4", "default"),
                ("full_outer", "3", "rocksdb, changelogs, checksums"),
                ("left_semi", "3", "rocksdb, format 2"),
                ("inner", "4", "rocksdb"),
                ("right_outer", "4", "rocksdb, format 2"),
            )
        ),
    ],
)
def test_a_join_goes_on_with_other_keys_and_other_columns_on_both_sides(streams, facts_of, how, version, store):
    """Spark 4.3 starts no join of format 1; its default provider lays out 3 and 4 like 2, RocksDB otherwise."""
    streams.spark.conf.set(FORMAT, version)
    streams.set_store(store)

    report, rows = streams.goes_on(joined(how), joined_anew(how), {0: JOIN_CHANGES}, facts_of)

    assert len(report.states) == 4
    assert {one.action for one in report.states} == {"convert"}
    assert len(rows) > 10


@pytest.mark.parametrize(
    "store",
    [
        "default",
        "rocksdb",
        *(pytest.param(one, marks=pytest.mark.faults) for one in STORES if one not in {"default", "rocksdb"}),
    ],
)
def test_sessions_go_on_with_keys_renamed_and_exchanged_and_other_aggregates(streams, facts_of, store):
    streams.set_store(store)
    _, rows = streams.goes_on(in_sessions, in_sessions_anew, {0: SESSION_CHANGES}, facts_of)

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

    assert [one.operator for one in report.states] == ["0 (aggregation)", "1 (dropDuplicates)"]
    assert {one.action for one in report.states} == {"convert"}
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

    assert [one.operator for one in report.states] == ["0 (aggregation)", *["1 (stream-stream join)"] * 4]
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

    changes = {1: FieldChanges(renames={"key.k": "key.k", "key.l": "key.l"})}
    report = migrate_checkpoint(
        streams.folder / "old", streams.folder / "new", like=streams.folder / "whole", changes=changes
    )

    assert [(one.operator, one.action) for one in report.states] == [
        ("0 (limit)", "copy"), ("1 (dropDuplicates)", "convert"),
    ]  # fmt: skip
    assert stored(streams.folder / "new") == stored(streams.folder / "whole")
    streams.feed(AFTER)
    later = streams.run(new, "new")
    assert set(first) == before
    assert len({*first, *later}) == len(first + later) == most < len(every)


def stores_to_try(first):
    """All state stores; all but one of them in the run of faults."""
    return [one if one == first else pytest.param(one, marks=pytest.mark.faults) for one in STORES]


JOINS_TO_TRY = [
    ("4", "rocksdb, format 2"),
    *(
        pytest.param(*each, marks=pytest.mark.faults)
        for each in (("2", "default"), ("2", "rocksdb, format 2"), ("3", "rocksdb, changelogs, checksums"))
    ),
]


def distinct(s, _):
    return s.dropDuplicates(["k", "l", "d"])


def distinct_counted(s, _):
    rows = s.dropDuplicates(["d", "l", "k"])
    return rows.groupBy(F.window("at", "4 minutes"), "k").agg(F.count("*"))


@pytest.mark.parametrize("store", stores_to_try("rocksdb, format 2"))
def test_an_operator_gets_another_number_and_the_one_behind_it_starts_empty(streams, store):
    streams.set_store(store)
    streams.feed(BEFORE)
    streams.run(distinct, "old")
    streams.run(distinct_counted, "whole")

    report = migrate_checkpoint(streams.folder / "old", streams.folder / "new", like=streams.folder / "whole")

    assert [(one.operator, one.action) for one in report.states] == [
        ("0 (aggregation)", "new"), ("1 (dropDuplicates)", "convert"),
    ]  # fmt: skip
    assert {(one.was, one.becomes) for one in report.query.operators} == {
        ("", "0 (aggregation)"), ("0 (dropDuplicates)", "1 (dropDuplicates)"),
    }  # fmt: skip
    assert report.states[0].written == 0
    streams.feed(AFTER)
    migrated, whole = streams.run(distinct_counted, "new"), streams.run(distinct_counted, "whole")
    assert migrated == [one for one in whole if one[0].start.minute >= 4]  # what came after the migration
    assert len(migrated) > 5


@pytest.mark.parametrize(("version", "store"), JOINS_TO_TRY)
def test_a_join_gets_another_number_and_changes(streams, version, store):
    def anew(s, t):
        rows = joined_anew("inner")(s, t).withColumn("then", F.unix_micros("then"))
        return rows.dropDuplicates(["at", "then", "k", "n", "l"])

    streams.spark.conf.set(FORMAT, version)
    streams.set_store(store)
    streams.feed(BEFORE)
    streams.run(joined("inner"), "old")
    streams.run(anew, "whole")

    report = migrate_checkpoint(
        streams.folder / "old", streams.folder / "new", like=streams.folder / "whole", changes={0: JOIN_CHANGES}
    )

    assert [one.was[:1] for one in sorted(report.query.operators, key=lambda one: one.becomes)] == ["", "0"]
    streams.feed(AFTER)
    migrated, whole = streams.run(anew, "new"), streams.run(anew, "whole")
    assert migrated == whole
    assert len(migrated) > 10


@pytest.mark.parametrize(("version", "store"), JOINS_TO_TRY)
def test_a_join_starts_empty_where_the_state_of_another_operator_is_dropped(streams, version, store):
    def old(s, t):
        return s.union(t).dropDuplicates(["k", "l", "n", "d", "at"])

    streams.spark.conf.set(FORMAT, version)
    streams.set_store(store)
    streams.feed(BEFORE)
    streams.run(old, "old")
    fresh = TwoStreams(streams.spark, streams.folder / "fresh")
    fresh.folder.mkdir()
    fresh.feed(AFTER)
    whole = fresh.run(joined("inner"), "checkpoint")

    report = migrate_checkpoint(
        streams.folder / "old", streams.folder / "new", like=fresh.folder / "checkpoint", operators={0: None}
    )

    assert {one.action for one in report.states} == {"new"}
    assert len(report.query.warnings) == 1
    streams.feed(AFTER)
    assert streams.run(joined("inner"), "new") == whole
    assert len(whole) > 10


@pytest.mark.parametrize(
    ("of", "function", "merged"),
    [
        (F.upper, pc.utf8_upper, 0),
        pytest.param(
            lambda k: F.substring(k, 1, 1),
            lambda keys: pc.utf8_slice_codeunits(keys, 0, 1),
            8,
            marks=pytest.mark.faults,
        ),
    ],
)
def test_an_aggregation_goes_on_with_keys_that_a_function_returns(streams, facts_of, of, function, merged):
    def counted(key):
        def query(s, _):
            rows = s.groupBy(F.window("at", "5 minutes"), key(F.col("k")).alias("k"))
            return rows.agg(F.sum("n"), F.max("d"), F.count("l"))

        return query

    streams.set_store("rocksdb")
    rules = {"value.sum": "sum", "value.max": "max", "value.count": "sum"} if merged else {}
    path = "key._groupingexpression"  # so Spark calls what is no plain column
    changes = FieldChanges(renames={path: "key.k"}, converters={path: function}, merges=rules)

    report, rows = streams.goes_on(counted(lambda k: k), counted(of), {0: changes}, facts_of)

    assert report.states[0].merged == merged
    assert rows
