"""A query that was not started is described as Spark itself writes it: each fixture is the checkpoint of its query."""

from __future__ import annotations

import importlib.util
import json

import pytest
from spark_checkpoints import FIXTURES, place
from spark_queries import F, Stream, settings

from stateshift.compat.queries.description import from_data, to_data
from stateshift.compat.queries.verdict import judge
from stateshift.serializers.errors import DeclarationError, UnsupportedFormat
from stateshift.spark import describe
from stateshift.spark.queries import planning
from stateshift.spark.queries.check import check_query
from stateshift.state.formats.spark.reader import SparkCheckpoint

IN_BRIEF = ("aggregation", "join-inner", "limit", "pandas", "rocksdb", "two", "window")
REST = (
    "aggregation-v1", "dedup", "dedup-within", "distinct", "global", "join-outer", "join-semi", "join-v3", "join-v4",
    "pandas-v1", "rocksdb-dedup", "rocksdb-format-2", "rocksdb-join", "rocksdb-limit", "rocksdb-pandas",
    "rocksdb-session", "session", "types",
)  # fmt: skip


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("fixture_queries", FIXTURES / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.WORK = tmp_path_factory.mktemp("sources")
    for name in ("s", "t"):
        (module.WORK / "in" / name).mkdir(parents=True)
    return module.CASES


@pytest.fixture
def stream(stateshift_spark, tmp_path):
    return Stream(stateshift_spark, tmp_path)


@pytest.mark.parametrize("name", [*IN_BRIEF, *(pytest.param(name, marks=pytest.mark.slow) for name in REST)])
def test_a_query_is_described_as_spark_wrote_its_checkpoint(stateshift_spark, cases, name):
    build, mode, _ = cases[name]
    stored = SparkCheckpoint.open(place(name)).describe()

    query = describe(build(stateshift_spark), checkpoint=place(name), output_mode=mode)

    assert [(one.number, one.kind, one.stores) for one in query.computations] == [
        (one.number, one.kind, one.stores) for one in stored.computations
    ]
    assert all(one.stores for one in query.computations)
    assert len(query.sources) == len(stored.sources)
    assert query.settings == stored.settings
    assert from_data(json.loads(json.dumps(to_data(query))), query.origin) == query


@pytest.mark.parametrize(
    "name",
    ["aggregation", "join-v4", *(pytest.param(name, marks=pytest.mark.slow) for name in ("join-v3", "rocksdb-join"))],
)
def test_an_unchanged_query_starts_and_one_line_says_what_is_not_seen_spk_17(stateshift_spark, cases, name):
    build, mode, _ = cases[name]
    query = build(stateshift_spark).writeStream.outputMode(mode)

    report = check_query(place(name), query)

    assert report.exit_status() == 0
    assert [(one.rule, tuple(map(str, one.flags))) for one in report.all_findings()] == [("SPK-17", ("unverified",))]
    assert report.exit_status(require_recording=True) in {1, 4}


def columns(query, store="default"):
    return describe(query, output_mode="update").computations[0].columns[store]


def test_what_stands_in_columns_is_told_in_columns_of_the_source(stream):
    rows = stream.late()
    renamed = rows.select(F.col("a").alias("key"), (F.col("w") + 1).alias("more"), "at")
    windows = rows.groupBy(F.window("at", "10 minutes", "5 minutes"), "a").agg(F.expr("sum(v) filter (where w > 3)"))

    assert columns(renamed.groupBy("key").agg(F.sum("more"))) == {"key.key": "a", "value.sum": "sum((1 + w))"}
    assert columns(windows) == {
        "key.window": "window(at, 10 minutes, every 5 minutes) or window(at, 10 minutes, every 5 minutes, back 5"
        " minutes)",
        "key.a": "a",
        "value.sum": "sum(v) where (3 < w)",
    }
    assert columns(rows.groupBy(F.session_window("at", "3 minutes"), "a").count())["value.session_window"] == (
        "session_window(at, 3 minutes)"
    )


def test_two_ways_to_write_one_query_are_described_alike(stream):
    rows = stream.source()
    one = rows.where("w > 3").where("v = 1").groupBy("a").agg(F.sum("w").alias("x"), F.avg("w"))
    other = rows.withColumn("y", F.col("w")).where("1 = v and 3 < y").groupBy(F.col("a")).agg(F.sum("y"), F.avg("y"))

    ours, theirs = (describe(query, output_mode="update").computations for query in (one, other))

    assert ours == theirs
    assert ours[0].facts == {"filters": "(1 = v) and (3 < w) and v is not null and w is not null"}


def test_a_cast_that_spark_makes_anyway_is_not_told(stream):
    def told(*texts):
        found = columns(stream.source().groupBy("a").agg(*map(F.expr, texts)))
        return [text for name, text in found.items() if name.startswith("value.")]

    assert told("sum(cast(v as bigint))", "avg(cast(v as double))", "count(cast(v as double))") == told(
        "sum(v)", "avg(v)", "count(v)"
    )
    assert told("sum(cast(w as int))") != told("sum(w)")
    assert told("max(cast(v as bigint))") != told("max(v)")


def test_the_time_zone_is_told_where_a_cast_depends_on_it(stream):
    def told(text, zone):
        with settings(stream.spark, spark__sql__session__timeZone=zone):
            return columns(stream.source().groupBy("a").agg(F.expr(f"max({text})")))

    by_day, by_second = "cast(at as date)", "cast(at as bigint)"
    assert told(by_day, "UTC") != told(by_day, "Asia/Tokyo")
    assert told(by_day, "UTC") == told(by_day, "Etc/UTC")
    assert told(by_second, "UTC") == told(by_second, "Asia/Tokyo")


def test_the_delay_is_told_where_an_operator_forgets_by_it(stream):
    def facts(query):
        return describe(query, output_mode="append").computations[0].facts

    def delayed(delay):
        return stream.source().where("a <> 'x'").withWatermark("at", delay)

    by_time = [facts(delayed(delay).dropDuplicates(["a", "at"])) for delay in ("1 minute", "2 minutes")]
    windows = [facts(delayed(delay).groupBy("a", F.window("at", "1 hour")).count()) for delay in ("1 minute", "1 hour")]
    by_key = [facts(delayed(delay).dropDuplicates(["a"])) for delay in ("1 minute", "2 minutes")]

    assert [(one["watermark"], "filters" in one) for one in by_time] == [
        ("at, 1 minutes", True),
        ("at, 2 minutes", True),
    ]
    assert [(one["watermark"], "filters" in one) for one in windows] == [("at, 1 minutes", True), ("at, 1 hours", True)]
    assert by_key[0] == by_key[1]
    assert all("filter on keys" in name for name in by_key[0])


def test_a_condition_that_chance_decides_is_none_on_keys(stream):
    (operator,) = describe(stream.source().where("rand(7) < length(a)").groupBy("a").count()).computations

    assert "rand" in operator.facts["filters"]


def test_cases_are_the_same_whenever_they_are_planned(stream):
    def of(value):
        amount = F.when(F.col("w") > value, F.col("w")).when(F.col("v") > 0, F.lit(1)).otherwise(0)
        (operator,) = describe(stream.source().where(amount > 0).groupBy("a").agg(F.sum(amount))).computations
        return operator.columns, operator.facts

    assert of(3) == of(3)
    assert of(3) != of(4)


def test_a_condition_with_the_present_time_is_none_on_keys(stream):
    for now in ("current_timestamp()", "now()", "current_date()"):
        (operator,) = describe(stream.source().where(f"at > {now}").groupBy("at").count()).computations

        assert "at" in operator.facts["filters"]

    (operator,) = describe(stream.source().where("at > timestamp'2026-01-01'").groupBy("at").count()).computations

    assert any(name.startswith("filter on keys") for name in operator.facts)


@pytest.mark.parametrize(
    "condition",
    [
        "at > current_timestamp() - interval 1 day", "at > now()", "at > localtimestamp()",
        "at > date_sub(current_date(), 7)",
        "unix_timestamp(at) > unix_timestamp()", "rand() < 0.5", "rand(7) < 0.5", "randn() < w", "uuid() < a",
    ],
)  # fmt: skip
def test_what_differs_at_each_moment_is_the_same_in_each_description(stream, condition):
    def described(text):
        (operator,) = describe(stream.source().where(text).groupBy("a").count()).computations
        return operator.facts

    assert described(condition) == described(condition)
    assert described(condition) != described("w > 1")


def test_the_code_of_functions_has_a_fingerprint_beside_the_texts_spk_21(stream):
    upper, lower = (F.udf(lambda text, low=low: text.lower() if low else text.upper(), "string") for low in (0, 1))

    one, same, other = (
        describe(stream.source().groupBy(of("a").alias("u")).count()).computations[0] for of in (upper, upper, lower)
    )

    assert "<lambda>(a)" in one.columns["default"].values()
    assert one.unseen == ()
    assert one == same
    assert (one.columns, one.details == other.details) == (other.columns, False)


def test_types_that_buffers_do_not_show_and_all_keys_are_described_spk_22(stateshift_spark, tmp_path):
    def described(number, parts):
        rows = stateshift_spark.readStream.schema(f"k string, n {number}, s struct<{parts}>").json(str(tmp_path))
        grouped = rows.groupBy(F.upper("k"), F.lower("k")).agg(F.sum("n"), F.collect_list("s"), F.max("n"))
        return describe(grouped, output_mode="update")

    was, wider, other = (described(*of) for of in (
        ("decimal(7,2)", "a: int, b: int"), ("decimal(8,2)", "a: int, b: int"), ("decimal(8,3)", "b: int, a: int"),
    ))  # fmt: skip
    (one,) = was.computations

    assert {
        "key._groupingexpression": "upper(k)", "key._groupingexpression#2": "lower(k)",
        "value.sum": "sum(unscaledvalue(n))", "value.buf": "collectlist(s, ignoreNulls=true)", "value.max": "max(n)",
    } == one.columns["default"]  # fmt: skip
    assert {"value.sum": ["decimal(7,2)"], "value.buf": ["struct<a:int,b:int>"]} == {
        name: [of.value for of in details] for name, details in one.details.items()
    }
    found = [{(of.rule, of.path) for of in judge(was, now, known=was).all_findings()} for now in (wider, other)]
    refused = {("SPK-22", "$<sum(unscaledvalue(n))>"), ("SPK-22", "$<collectlist(s, ignoreNulls=true)>")}
    assert [set(), refused] == [each & refused for each in found]


def test_a_description_starts_nothing_and_writes_nothing(stream):
    query = stream.writer(stream.source().groupBy("a").count())

    description = describe(query)

    assert [one.title for one in description.computations] == ["0 (aggregation)"]
    assert stream.spark.streams.active == []
    assert not (stream.folder / "checkpoint").exists()


def test_pinned_settings_decide_the_plan(stream):
    query = stream.source().groupBy("a").agg(F.sum("w"))
    with settings(stream.spark, spark__sql__streaming__aggregation__stateFormatVersion="1"):
        assert [field.name for field in describe(query).computations[0].stores["default"].value.fields] == ["a", "sum"]
        pinned = describe(query, checkpoint=place("aggregation"))

    assert [field.name for field in pinned.computations[0].stores["default"].value.fields] == ["sum"]


@pytest.mark.parametrize(
    ("trigger", "options", "said"),
    [
        ({"realTime": "5 minutes"}, {}, "in real-time mode"),
        ({"continuous": "1 second"}, {}, "runs continuously"),
        ({"processingTime": "1 second"}, {"asyncProgressTrackingEnabled": "true"}, "with asynchronous progress"),
    ],
)
def test_a_query_that_does_not_run_in_batches_is_refused(stream, trigger, options, said):
    writer = stream.source().groupBy("a").count().writeStream.outputMode("update").trigger(**trigger).options(**options)

    with pytest.raises(UnsupportedFormat, match=said):
        describe(writer)


def test_what_is_no_streaming_query_is_refused(stream):
    with pytest.raises(DeclarationError, match="not a streaming one"):
        describe(stream.spark.range(3))
    with pytest.raises(DeclarationError, match="neither a streaming DataFrame"):
        describe("query")


def test_another_release_of_spark_is_refused_by_its_number_before_a_checkpoint_is_read(stream, monkeypatch):
    monkeypatch.delitem(planning.RELEASES, ".".join(stream.spark.version.split(".")[:2]))
    query = stream.source().groupBy("a").count()

    with pytest.raises(UnsupportedFormat, match=f"this is Spark {stream.spark.version}"):
        check_query(stream.folder / "nothing", query)
    with pytest.raises(UnsupportedFormat, match=r"planned with Spark 4\.0, "):
        describe(query, checkpoint=stream.folder / "nothing")
