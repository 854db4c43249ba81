"""DataFrames become the savepoint that `SavepointWriter` makes of the same entries."""

from __future__ import annotations

import datetime as dt
import decimal
import os
import signal
import threading
import time
from pathlib import Path

import attrs
import pytest
from a_few import a_few
from pyspark.sql import functions as f
from releases import has_spark

from stateshift import (
    AggregatingStateDescriptor,
    DeclarationError,
    Float32,
    IncompatibleState,
    Instant,
    Int32,
    Job,
    ListStateDescriptor,
    LocalDate,
    LocalDateTime,
    LocalTime,
    MapStateDescriptor,
    MigrationFailed,
    NaiveDatetime,
    Operator,
    Record,
    ReducingStateDescriptor,
    Savepoint,
    SavepointWriter,
    SqlTimestamp,
    StateNotFound,
    StateSource,
    Target,
    TargetExists,
    TtlValue,
    ValueNotConvertible,
    ValueStateDescriptor,
    bootstrap,
    migrate,
    record,
)
from stateshift.serializers.flink.namespaces import TimeWindowSerializer
from stateshift.spark import bootstrap_run as bootstrapping
from stateshift.state.columnar.new_savepoint import NewSavepoint
from stateshift.state.savepoint.verify import verify


@attrs.frozen
class Place:
    city: str
    code: Int32 | None = None


@attrs.frozen
class Customer:
    id: int
    name: str
    place: Place
    score: float = 0.5
    email: str | None = None


@record(java_class="com.acme.Order")
@attrs.frozen
class Order:
    amount: float
    items: Int32


JOB = Job(
    [
        Operator(
            "customers",
            key=str,
            states=[
                ValueStateDescriptor("customer", Customer),
                ValueStateDescriptor("visits", int),
                ListStateDescriptor("orders", Order),
                MapStateDescriptor("prices", str, Float32, nullable_values=True),
                ReducingStateDescriptor("sum", None, int),
                AggregatingStateDescriptor("mean", None, tuple[float, int]),
                ValueStateDescriptor("not sourced", str),
            ],
            list_states=[ListStateDescriptor("offsets", int)],
            broadcast_states=[MapStateDescriptor("rules", str, str)],
        ),
        Operator("pairs", key=tuple[int, str], states=[MapStateDescriptor("seen", tuple[int, bool], str)]),
        Operator("plain", list_states=[ListStateDescriptor("pending", str)]),
    ]
)
KEYS = [f"key {number}" for number in range(300)] + ["", "żółć", "a\0b", "𝄞 clef", "x" * 200]


def customer(number):
    return Customer(
        number, "né" if number % 7 == 0 else f"name {number}", Place("city", None if number % 3 else number)
    )


def orders(number):
    return [Order(order / 4, order) for order in range(number % 5)]


def prices(number):
    return {f"item {item}": None if item == 2 else float(item) for item in range(number % 4)}


def plain(value):
    """Values with records as dicts: readers without the classes give their fields."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, Record):
        return plain(value._asdict())
    return plain(attrs.asdict(value)) if attrs.has(type(value)) else value


@pytest.fixture(scope="module")
def sources(spark):
    """The sources of `JOB`, of the entries that `written` puts."""
    rows = list(enumerate(KEYS))
    customers = spark.createDataFrame(
        [
            (key, c.id, c.name, (c.place.city, c.place.code), number * 2, number, number / 2)
            for number, key in rows
            for c in [customer(number)]
        ],
        "key string, id bigint, name string, place struct<city: string, code: bigint>, visits bigint, sum bigint, "
        "mean double",
    )
    lines = spark.createDataFrame(
        [(o.amount, key, o.items, 10 - n) for number, key in rows for n, o in enumerate(orders(number))],
        "amount double, key string, count int, earlier int",
    )
    items = spark.createDataFrame(
        [(key, item, price) for number, key in rows for item, price in prices(number).items()],
        "key string, item string, price double",
    )
    pairs = spark.createDataFrame(
        [(number, key, number % 9, number % 2 == 0, f"at {number}") for number, key in rows],
        "a bigint, b string, c bigint, d boolean, text string",
    )
    means = customers.withColumn("mean", f.struct(f.col("mean"), f.col("sum")))
    ordered = lines.withColumn("at", -f.col("earlier"))
    return [
        StateSource("customers", "customer", customers.drop("sum"), key_by="key"),
        StateSource("customers", "visits", customers, key_by="key", value="visits"),
        StateSource("customers", "orders", ordered, key_by="key", order_by="at", value={"items": "count"}),
        StateSource("customers", "prices", items, key_by="key", user_key="item", value="price"),
        StateSource("customers", "sum", customers, key_by="key", value="sum"),
        StateSource("customers", "mean", means, key_by="key", value="mean"),
        StateSource("pairs", "seen", pairs, key_by=["a", "b"], user_key=["c", "d"], value="text"),
    ]


def written(place, parallelism, max_parallelism):
    with SavepointWriter(place, JOB, parallelism=parallelism, max_parallelism=max_parallelism) as writer:
        for number, key in enumerate(KEYS):
            writer.put("customers", "customer", key, customer(number))
            writer.put("customers", "visits", key, number * 2)
            writer.put("customers", "orders", key, orders(number))
            writer.put("customers", "prices", key, prices(number))
            writer.put("customers", "sum", key, number)
            writer.put("customers", "mean", key, (number / 2, number))
            writer.put("pairs", "seen", (number, key), {(number % 9, number % 2 == 0): f"at {number}"})


def streams_of(content_of, place):
    content = content_of(place)
    lineage = content.pop("_stateshift.json")
    return content | {"files": lineage["files"]}


@pytest.mark.parametrize(("parallelism", "max_parallelism"), [(1, 128), pytest.param(3, 200, marks=pytest.mark.slow)])
def test_states_of_all_kinds_are_what_the_writer_makes_of_them(
    sources, tmp_path, content_of, parallelism, max_parallelism
):
    report = bootstrap(tmp_path / "new", JOB, sources, parallelism=parallelism, max_parallelism=max_parallelism)
    written(tmp_path / "written", parallelism, max_parallelism)

    assert streams_of(content_of, tmp_path / "written") == streams_of(content_of, tmp_path / "new")
    assert verify(Savepoint.open(tmp_path / "new")).ok
    told = {(state.state, state.has_source): (state.rows, state.entries) for state in report.states}
    assert told["customer", True] == (305, 305)
    assert told["orders", True] == (sum(len(orders(n)) for n in range(305)), sum(bool(orders(n)) for n in range(305)))
    assert told["not sourced", False] == (None, 0)
    assert told["offsets", False] == (None, 0)
    assert ("email", "score") == next(s.defaults for s in report.states if s.state == "customer")


@pytest.mark.slow
def test_the_same_rows_in_other_partitions_give_the_same_bytes(sources, tmp_path, content_of):
    scattered = [attrs.evolve(source, data=source.data.repartition(5, f.rand(seed=3))) for source in sources]

    bootstrap(tmp_path / "one", JOB, sources, position={"offset": 7})
    bootstrap(tmp_path / "other", JOB, scattered, position={"offset": 7})

    assert content_of(tmp_path / "one") == content_of(tmp_path / "other")
    migrate(tmp_path / "one", tmp_path / "migrated", JOB)
    places = [tmp_path / "one", tmp_path / "migrated"]
    assert [{"offset": 7}] * 2 == [Savepoint.open(place).lineage.position for place in places]


def test_what_spark_moves_does_not_grow_with_the_number_of_rows(spark, tmp_path, monkeypatch):
    moved, of_so_many = [], bootstrapping._summary

    def summary(records):
        moved.append(records.count())
        return of_so_many(records)

    monkeypatch.setattr(bootstrapping, "_summary", summary)
    job = Job([Operator("o", key=int, states=[ValueStateDescriptor("n", int)])])
    for count in (500, 8000):
        table = spark.range(0, count, 1, 2).selectExpr("id", "id n")
        source = StateSource("o", "n", table, key_by="id", value="n")
        report = bootstrap(tmp_path / str(count), job, source, max_parallelism=8)
        assert count == report.entries

    assert [16, 16] == moved


FUNCTIONS = Job(
    [
        Operator(
            "o",
            key=int,
            states=[
                ValueStateDescriptor("by row", Customer),
                ListStateDescriptor("by element", str),
                MapStateDescriptor("by item", str, int),
                ValueStateDescriptor("last", str),
                ListStateDescriptor("all", int),
                MapStateDescriptor("counts", str, int),
                ReducingStateDescriptor("first odd", None, int),
                ListStateDescriptor("by window", int, namespace=TimeWindowSerializer()),
            ],
        )
    ]
)


@pytest.mark.slow
def test_functions_of_a_row_and_of_all_rows_of_a_key_make_values(spark, tmp_path, values_of):
    rows = [(key, at, f"t{at % 3}", (key, f"p{at}")) for key in range(40) for at in range(key % 6)]
    table = spark.createDataFrame(rows, "key int, at int, tag string, pair struct<x: int, y: string>").repartition(4)
    once = table.where("at = 0")

    def counts(rows):
        found = {}
        for row in rows:
            found[row.tag] = found.get(row.tag, 0) + 1
        return found

    report = bootstrap(
        tmp_path / "new",
        FUNCTIONS,
        [
            StateSource("o", "by row", once, key_by="key", value=lambda r: Customer(r.key, r.pair.y, Place(r["tag"]))),
            StateSource("o", "by element", table, key_by="key", order_by="at",
                        value=lambda row: None if row.at == 1 else row.pair.y),
            StateSource("o", "by item", table.withColumn("item", f.col("pair.y")), key_by="key", user_key="item",
                        value=lambda row: row.at),
            StateSource("o", "last", table, key_by="key", order_by="at", aggregate=lambda rows: list(rows)[-1].pair.y),
            StateSource("o", "all", table, key_by="key", order_by="at", aggregate=lambda rows: [r.at for r in rows]),
            StateSource("o", "counts", table, key_by="key", aggregate=counts),
            StateSource("o", "first odd", table, key_by="key", order_by=["at"],
                        aggregate=lambda rows: next((r.at for r in rows if r.at % 2), None)),
            StateSource("o", "by window", table.selectExpr("key", "at", "struct(at % 2 as start, 9 as end) as window"),
                        key_by="key", namespace="window", order_by="at", aggregate=lambda rows: [r.at for r in rows]),
        ],
    )  # fmt: skip

    assert [33, 70, 96, None, None, None, None, None] == [state.rows for state in report.states]

    def some(value):
        return {key: plain(found) for key in range(40) if (found := value(key, key % 6)) not in (None, [], {})}

    def found(state):
        return plain(values_of(tmp_path / "new", "o", state))

    assert some(lambda key, n: Customer(key, "p0", Place("t0")) if n else None) == found("by row")
    assert some(lambda _, n: [f"p{at}" for at in range(n) if at != 1]) == found("by element")
    assert some(lambda _, n: {f"p{at}": at for at in range(n)}) == found("by item")
    assert some(lambda _, n: f"p{n - 1}" if n else None) == found("last")
    assert some(lambda _, n: list(range(n))) == found("all")
    assert some(lambda _, n: {f"t{tag}": len(range(tag, n, 3)) for tag in range(min(n, 3))}) == found("counts")
    assert some(lambda _, n: 1 if n > 1 else None) == found("first odd")
    windows = Savepoint.open(tmp_path / "new").operator("o").state("by window").read_entries()
    assert {(key, at % 2): list(range(at % 2, key % 6, 2)) for key in range(40) for at in range(key % 6)} == {
        (entry.key, entry.namespace.start): entry.value for entry in windows
    }


def test_keys_without_a_stable_hash_are_written_where_flink_is_not_to_read_them(spark, tmp_path, values_of):
    job = Job([Operator("o", key=decimal.Decimal, states=[ValueStateDescriptor("place", Place)])])
    table = spark.createDataFrame(
        [(decimal.Decimal(n) / 4, f"c{n}") for n in range(50)], "key decimal(10,2), city string"
    )

    bootstrap(tmp_path / "new", job, [StateSource("o", "place", table, key_by="key")])

    found = plain(values_of(tmp_path / "new", "o", "place"))
    assert {decimal.Decimal(n) / 4: plain(Place(f"c{n}")) for n in range(50)} == found
    assert verify(Savepoint.open(tmp_path / "new")).ok


def test_a_larger_state_gets_more_subtasks_by_its_size_alone():
    sizes = {0: 200 << 20, 1: 1}

    found = NewSavepoint(JOB, [], 128, None, Target.ANY).operators(sizes)
    two_each = NewSavepoint(JOB, [], 128, 2, Target.ANY).operators(sizes)

    assert {0: 4, 1: 1} == {place: operator.parallelism for place, operator in found.items()}
    assert {0: 2, 1: 2} == {place: operator.parallelism for place, operator in two_each.items()}


KEYED = Job(
    [
        Operator(
            "o",
            key=str,
            states=[
                ValueStateDescriptor("number", Int32),
                ValueStateDescriptor("place", Place),
                ListStateDescriptor("list", int),
                MapStateDescriptor("map", str, int),
                ValueStateDescriptor("window", int, namespace=TimeWindowSerializer()),
                ValueStateDescriptor("ttl", int, time_to_live=True),
            ],
            list_states=[ListStateDescriptor("offsets", int)],
        )
    ]
)
COLUMNS = "key string, number int, at bigint, city string, code string, other decimal(5,2), item string"


def source(state, **arguments):
    return lambda table: [StateSource("o", state, table, **({"key_by": "key"} | arguments))]


EARLY = {
    "no such operator": (lambda t: [StateSource("oo", "number", t, key_by="key")], StateNotFound, "no operator 'oo'"),
    "no such state": (source("numbr"), StateNotFound, "no state 'numbr'; did you mean 'number'?"),
    "operator state": (source("offsets", value="at"), StateNotFound, "'offsets' is operator state"),
    "no such key column": (source("number", key_by="kye", value="number"), DeclarationError,
                           "no column 'kye'; did you mean 'key'?"),
    "no such value column": (source("number", value="nmber"), DeclarationError, "no column 'nmber'"),
    "a key of another type": (source("number", key_by="at", value="number"), DeclarationError,
                              "the column 'at' is a bigint, and string is declared"),
    "a value of another type": (source("number", value="city"), DeclarationError,
                                "the column 'city' is a string, and int is declared"),
    "a field of another type": (source("place"), DeclarationError, "the column 'code' is a string, and int is"),
    "a field without a column": (lambda t: [StateSource("o", "place", t.drop("city"), key_by="key")], DeclarationError,
                                 "there is no column for the field 'city'"),
    "a field that is none": (source("place", value={"town": "city"}), DeclarationError, "has no field 'town'"),
    "a user key of another type": (source("map", user_key="at", value="at"), DeclarationError, "the column 'at' is a"),
    "no value": (source("number"), DeclarationError, "a value of type int comes from one column"),
    "no user key": (source("map", value="at"), DeclarationError, "no column was given for the keys of the map"),
    "a user key of no map": (source("number", value="number", user_key="at"), DeclarationError, "no keys within a map"),
    "no order": (source("list", value="at"), DeclarationError, "the elements of a list are ordered"),
    "an order that is none": (source("list", value="at", order_by="other"), DeclarationError, "cannot be ordered by"),
    "an order of one row": (source("number", value="number", order_by="at"), DeclarationError, "has one row for each"),
    "two ways at once": (source("number", value="number", aggregate=len), DeclarationError, "cannot be used with it"),
    "too many key columns": (source("number", key_by=["key", "at"], value="number"), DeclarationError, "2 columns"),
    "a namespace": (source("window", value="at"), DeclarationError, "the state has the namespace TimeWindow"),
    "a time to live": (source("ttl", value="at"), DeclarationError, "a function that returns TtlValue"),
    "a state twice": (lambda t: 2 * source("number", value="number")(t), DeclarationError, "are for the same state"),
    "no source": (lambda _: [], DeclarationError, "no sources were given"),
}  # fmt: skip


@pytest.mark.parametrize("name", EARLY)
def test_what_can_be_known_early_is_refused_before_any_job_runs(spark, tmp_path, name):
    make, error, words = EARLY[name]
    table = spark.createDataFrame([], COLUMNS)
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup(None)

    with pytest.raises(error) as caught:
        bootstrap(tmp_path / "new", KEYED, make(table))

    assert words in str(caught.value)
    assert not (tmp_path / "new").exists()
    assert jobs == spark.sparkContext.statusTracker().getJobIdsForGroup(None)


def test_a_missing_column_and_a_wrong_one_are_each_reported_with_advice(spark, tmp_path):
    for columns, advice in (
        (
            "key string, code bigint",
            "give its column, such as value={'city': …}; or give the field a default",
        ),
        ("key string, city string, code string", "cast the column, or change the type in the job"),
    ):
        with pytest.raises(DeclarationError) as caught:
            bootstrap(tmp_path / "new", KEYED, source("place")(spark.createDataFrame([], columns)))
        assert advice == caught.value.advice


def test_a_table_of_arrow_and_a_job_by_name_are_refused_in_words(numbers, tmp_path):
    frame = numbers[0].data.toArrow()
    with pytest.raises(DeclarationError, match=r"the rows are a pyarrow\.lib\.Table, not a Spark DataFrame"):
        bootstrap(tmp_path / "new", KEYED, [StateSource("o", "number", frame, key_by="key", value="number")])
    with pytest.raises(DeclarationError, match="the job is a str, not a Job"):
        bootstrap(tmp_path / "new", "shop:job", numbers)

    assert not (tmp_path / "new").exists()


def test_a_single_source_needs_no_list_and_the_report_says_what_flink_does_not_know(numbers, tmp_path):
    report = bootstrap(tmp_path / "new", KEYED, numbers[0])

    words = report.to_text()
    assert 2 == report.entries
    assert f"not for Flink, which does not know {Place.__module__}.Place (for Flink, give each record" in words
    assert f"prove it: stateshift verify {tmp_path / 'new'}" in words


@pytest.fixture
def numbers(spark):
    table = spark.createDataFrame([("a", 1), ("b", 2)], "key string, number int")
    return [StateSource("o", "number", table, key_by="key", value="number")]


def test_its_progress_is_reported_until_both_phases_are_done(numbers, tmp_path):
    job, told = Job([Operator("o", key=str, states=[ValueStateDescriptor("number", Int32)])]), []

    bootstrap(tmp_path / "new", job, numbers, progress=told.append)

    ends = {progress.phase: progress for progress in told}
    assert ["encoding", "writing"] == list(ends)
    assert all(end.done == end.total for end in ends.values())


def test_a_target_that_is_taken_is_refused_and_left_as_it_is(numbers, tmp_path, facts_of):
    (tmp_path / "mine").write_text("mine")
    before = facts_of(tmp_path)

    with pytest.raises(TargetExists):
        bootstrap(tmp_path, KEYED, numbers)

    assert before == facts_of(tmp_path)


def test_a_position_must_be_json(numbers, tmp_path):
    with pytest.raises(DeclarationError, match="cannot be kept as JSON"):
        bootstrap(tmp_path / "new", KEYED, numbers, position={1, 2})


def test_the_target_flink_refuses_types_that_flink_does_not_know(numbers, tmp_path):
    with pytest.raises(IncompatibleState, match=r"it does not know the type of place \(.*Place\)"):
        bootstrap(tmp_path / "new", KEYED, numbers, restore_target=Target.FLINK)


def test_a_key_that_flink_would_hash_otherwise_is_refused_though_its_type_is_known(numbers, tmp_path):
    job = Job([Operator("o", key=decimal.Decimal, states=[ValueStateDescriptor("number", int)])])

    with pytest.raises(DeclarationError, match="no hash that is the same in every JVM"):
        bootstrap(tmp_path / "new", job, numbers)


def test_for_flink_an_operator_of_its_types_is_restorable(spark, tmp_path, values_of):
    job = Job([Operator("o", key=int, states=[ValueStateDescriptor("order", Order)])])
    table = spark.range(20).selectExpr("id", "id / 4 amount", "cast(id as int) items")

    bootstrap(tmp_path / "new", job, [StateSource("o", "order", table, key_by="id")], restore_target=Target.FLINK)

    assert Savepoint.open(tmp_path / "new").operator("o").description.is_flink_restorable
    found = plain(values_of(tmp_path / "new", "o", "order"))
    assert {n: plain(Order(n / 4, n)) for n in range(20)} == found


def fails(row):
    return 1 // (row.number - 2)


LATE = {
    "a null key": ([("a", 1), (None, 2)], {"value": "number"}, "a null in the key column 'key'", None),
    "two rows for a key": ([("żółć", 1), ("b", 2), ("żółć", 1)], {"value": "number"}, "two rows for one key", "'żółć'"),
    "two values of a function": ([("a", 1), ("a", 2)], {"value": lambda r: r.number}, "two rows for one key", "'a'"),
    "a null value": ([("a", 1), ("b", None)], {"value": "number"}, "a null in the column 'number'", "'b'"),
    "a number too wide": ([("a", 1), ("b", 1 << 40)], {"value": "number"}, "does not fit an int (32 bits)", "'b'"),
    "a function that fails": ([("a", 1), ("b", 2)], {"value": fails}, "fails failed with ZeroDivisionError", "'b'"),
    "an aggregate that fails": ([("a", 1)], {"aggregate": lambda rows: next(rows).nothing}, "AttributeError", "'a'"),
    "a result of another type": ([("a", 1)], {"value": lambda row: row.key}, "'a' does not fit an int", "'a'"),
}  # fmt: skip


@pytest.mark.parametrize("name", a_few(LATE))
def test_rows_that_cannot_be_state_end_the_run_with_their_key_and_publish_nothing(spark, tmp_path, name):
    rows, arguments, words, key = LATE[name]
    table = spark.createDataFrame(rows, "key string, number bigint")

    with pytest.raises(ValueNotConvertible) as caught:
        bootstrap(tmp_path / "new", KEYED, [StateSource("o", "number", table, key_by="key", **arguments)])

    assert words in caught.value.what
    assert {"operator": "o", "state": "number"}.items() <= caught.value.where.items()
    assert key == caught.value.where.get("key")
    assert caught.value.written == "Nothing was published: the target has no _metadata."
    assert not (tmp_path / "new").exists()


def test_two_rows_for_a_user_key_are_refused_with_both_keys(spark, tmp_path):
    table = spark.createDataFrame([("a", "x", 1), ("a", "y", 1), ("a", "y", 2)], "key string, item string, number int")
    late = [StateSource("o", "map", table, key_by="key", user_key="item", value="number")]

    with pytest.raises(ValueNotConvertible, match="a map state has one value per key and user key") as caught:
        bootstrap(tmp_path / "new", KEYED, late)

    assert "'a', user key 'y'" == caught.value.where["key"]


def test_columns_of_any_name_are_found_and_values_with_a_time_to_live_come_from_a_function(spark, tmp_path, values_of):
    table = spark.createDataFrame([("a", 1), ("b", 2)], ["the `key.of`", "a.b"]).selectExpr(
        "`the ``key.of```", "`a.b`", "cast(`a.b` as int) `c d`"
    )
    given = [
        StateSource("o", "number", table, key_by="the `key.of`", value="c d"),
        StateSource("o", "ttl", table, key_by="the `key.of`", value=lambda row: TtlValue(1000, row["a.b"])),
    ]

    bootstrap(tmp_path / "new", KEYED, given)

    assert {"a": 1, "b": 2} == values_of(tmp_path / "new", "o", "number")
    assert {"a": TtlValue(1000, 1), "b": TtlValue(1000, 2)} == values_of(tmp_path / "new", "o", "ttl")


@attrs.frozen
class Times:
    moment: dt.datetime
    local: NaiveDatetime
    day: dt.date
    clock: dt.time | None
    stamp: SqlTimestamp


@pytest.fixture
def with_type_time(spark):
    """Spark has the type TIME and keeps it to itself, unless asked."""
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield spark
    spark.conf.unset("spark.sql.timeType.enabled")


@pytest.mark.skipif(not has_spark(4, 1), reason="Spark 4.0 has no type TIME")
def test_dates_and_times_are_those_of_the_columns(with_type_time, tmp_path, values_of):
    job = Job([Operator("o", key=str, states=[ValueStateDescriptor("times", Times)])])
    moment = "timestamp '1969-12-31 23:59:59.000001 UTC'"
    table = with_type_time.range(2).selectExpr(
        "cast(id as string) key", f"{moment} moment", "timestamp_ntz '2024-02-29 12:30:45.5' local",
        "date '0001-01-01' day", "if(id = 0, null, time '23:59:59.123456') clock", f"{moment} stamp",
    )  # fmt: skip

    bootstrap(tmp_path / "new", job, [StateSource("o", "times", table, key_by="key")])

    fields = {
        "moment": Instant(-1, 1000), "local": LocalDateTime(2024, 2, 29, 12, 30, 45, 500_000_000),
        "day": LocalDate(1, 1, 1), "stamp": SqlTimestamp.at(-1, 1000),
    }  # fmt: skip
    found = {key: value._asdict() for key, value in values_of(tmp_path / "new", "o", "times").items()}
    assert {"0": fields | {"clock": None}, "1": fields | {"clock": LocalTime(23, 59, 59, 123_456_000)}} == found


def test_a_query_that_fails_ends_the_run(spark, tmp_path):
    table = spark.createDataFrame([("a", "no number")], "key string, text string")
    cast = table.select("key", f.expr("cast(text as int) as number"))

    with pytest.raises(MigrationFailed, match=r"Spark gave up: .*CAST_INVALID_INPUT") as caught:
        bootstrap(tmp_path / "new", KEYED, [StateSource("o", "number", cast, key_by="key", value="number")])

    assert caught.value.written == "Nothing was published: the target has no _metadata."
    assert not (tmp_path / "new").exists()


class Unreadable:
    """A function that a worker cannot read."""

    def __call__(self, row):
        return row.number

    def __reduce__(self):
        return int, ("no licence here",)


@pytest.mark.slow
def test_what_python_raised_before_a_task_began_is_reported(spark, tmp_path):
    table = spark.createDataFrame([("a", 1)], "key string, number int")
    source = StateSource("o", "number", table, key_by="key", value=Unreadable())

    with pytest.raises(MigrationFailed, match=r"Spark gave up: a worker failed with ValueError: .*no licence here"):
        bootstrap(tmp_path / "new", KEYED, [source])

    assert not (tmp_path / "new").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_function_that_makes_the_sources_gets_the_session(tmp_path, values_of):
    def make(session):
        table = session.createDataFrame([("a", 1)], "key string, number int")
        return [StateSource("o", "number", table, key_by="key", value="number")]

    bootstrap(tmp_path / "new", KEYED, make)

    assert {"a": 1} == values_of(tmp_path / "new", "o", "number")


@pytest.mark.slow
def test_a_job_in_a_module_of_the_user_and_what_its_functions_use_reach_the_workers(spark, load, tmp_path, values_of):
    job = load(
        "shop_job",
        helpers_of_shop="def double(number):\n    return 2 * number\n",
        shop_job="""
import attrs
import helpers_of_shop
from stateshift import Job, Operator, ValueStateDescriptor

@attrs.frozen
class Visit:
    number: int

def visit(row):
    return Visit(helpers_of_shop.double(row.number))

job = Job([Operator("o", key=str, states=[ValueStateDescriptor("visit", Visit), ValueStateDescriptor("plain", Visit)])])
""",
    )
    table = spark.createDataFrame([("a", 1), ("b", 2)], "key string, number int")

    bootstrap(
        tmp_path / "new",
        job.job,
        [
            StateSource("o", "visit", table, key_by="key", value=job.visit),
            StateSource("o", "plain", table, key_by="key"),
        ],
    )

    assert {"a": {"number": 2}, "b": {"number": 4}} == {
        key: plain(value) for key, value in values_of(tmp_path / "new", "o", "visit").items()
    }


def test_a_worker_that_is_killed_while_it_encodes_is_replaced(spark, tmp_path, values_of):
    marker = str(tmp_path / "killed")
    table = spark.range(2000).selectExpr("cast(id as string) key", "cast(id as int) number")

    def kills_its_worker_once(row):
        if row.number == 1500 and not Path(marker).exists():
            Path(marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return row.number

    bootstrap(tmp_path / "new", KEYED, [StateSource("o", "number", table, key_by="key", value=kills_its_worker_once)])

    assert Path(marker).exists()
    assert {str(n): n for n in range(2000)} == values_of(tmp_path / "new", "o", "number")


def kill_the_writer(folder, killed, end):
    """Kill the first process that has a file of an attempt open."""
    while not killed and not end.is_set():
        for pid in [int(place.name) for place in Path("/proc").iterdir() if place.name.isdigit()]:
            try:
                opened = [str(descriptor.readlink()) for descriptor in Path(f"/proc/{pid}/fd").iterdir()]
            except OSError:
                continue
            if pid != os.getpid() and any(str(folder) in file and ".attempt-" in file for file in opened):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                return
        time.sleep(0.001)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds the writing process through /proc")
def test_a_worker_that_is_killed_while_it_writes_is_replaced_and_leaves_nothing_behind(spark, tmp_path, content_of):
    job = Job([Operator("o", key=int, states=[ValueStateDescriptor("text", str)])])
    table = spark.range(20_000).selectExpr("id", "repeat(cast(id as string), 400) text")
    given = [StateSource("o", "text", table, key_by="id", value="text")]
    killed, end = [], threading.Event()
    watcher = threading.Thread(target=kill_the_writer, args=(tmp_path / "new", killed, end))
    watcher.start()
    try:
        bootstrap(tmp_path / "new", job, given, parallelism=1)
    finally:
        end.set()
        watcher.join()
    bootstrap(tmp_path / "undisturbed", job, given, parallelism=1)

    assert len(killed) == 1
    assert content_of(tmp_path / "undisturbed") == content_of(tmp_path / "new")
    assert verify(Savepoint.open(tmp_path / "new")).ok
