"""`spark.read.format("savepoint")`: what a user of it sees."""

import datetime as dt
import importlib
import shutil

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, StringType, StructType
from redirecting import redirect_to
from releases import has_spark
from user_modules import marks

from stateshift import (
    Job,
    MigrationOptions,
    Operator,
    Savepoint,
    SavepointWriter,
    StateNotFound,
    StateShiftError,
    ValueStateDescriptor,
    migrate,
)
from stateshift.serializers.registry import registry
from stateshift.spark import register
from stateshift.spark.source import SavepointDataSource
from stateshift.state.savepoint.verify import verify
from stateshift.state.testing import write_savepoint


@pytest.fixture(scope="module")
def read(spark):
    """`read(place, operator=…, state=…)`: a DataFrame."""
    register(spark)
    return lambda place, **options: spark.read.format("savepoint").options(**options).load(str(place))


def test_a_state_is_a_table_with_typed_columns(read, savepoint_of):
    place = savepoint_of("rocksdb-account-v1")
    accounts = read(place, operator="account-state", state="account")
    entries = {e.key: e.value for e in Savepoint.open(place).operator("account-state").state("account").read_entries()}

    assert ["key_group", "key", "value"] == accounts.columns
    assert isinstance(accounts.schema["value"].dataType, StructType)
    assert {key: value._asdict() for key, value in entries.items()} == {
        row.key: row.value.asDict() for row in accounts.collect()
    }


@pytest.mark.slow
def test_a_key_is_found_by_one_task(read, savepoint_of):
    options = {"operator": "account-state", "state": "account"}
    accounts = read(savepoint_of("rocksdb-account-v1"), **options)
    row, other = accounts.head(2)
    by_key = read(savepoint_of("rocksdb-account-v1"), **options, key=row.key)
    by_group = read(savepoint_of("rocksdb-account-v1"), **options, key_group=other.key_group)

    assert accounts.rdd.getNumPartitions() > 1
    assert by_key.rdd.getNumPartitions() == by_group.rdd.getNumPartitions() == 1
    assert [row.key] == [one.key for one in by_key.collect()]
    assert other.key in [one.key for one in by_group.collect()]
    assert 0 == read(savepoint_of("rocksdb-account-v1"), **options, key="12345").count()


@pytest.mark.parametrize(
    ("place", "operator", "state", "key", "fields"),
    [
        ("flink-2.3/rocksdb-tuple-p2-m128/savepoint", "keyed-op", "count", '["t1", 3]', {"f0": "t1", "f1": 3}),
        ("flink-sql-2.3/join/savepoint", "7_join", "left-records", "7", {"f0": 7}),
        ("pyflink-2.3/types/savepoint", "types", "python-state-double", "4", {"f0": 4}),
    ],
)
def test_a_key_of_any_type_is_an_option(read, root, place, operator, state, key, fields):
    found = read(root / "tests" / "fixtures" / place, operator=operator, state=state, key=key).collect()

    assert found
    assert all(row.key.asDict() == fields for row in found)


@pytest.mark.parametrize(
    ("key", "why"),
    [({"key": "a"}, r"the keys are long(.|\n)*a stored key is: -?\d"), ({"key_group": "200"}, "below 200")],
)
def test_a_key_that_none_can_be_is_an_error(read, savepoint_of, key, why):
    with pytest.raises(AnalysisException, match=why):
        read(savepoint_of("rocksdb-account-v1"), operator="account-state", state="account", **key)


def test_a_filter_of_one_dataframe_is_not_one_of_another(read, savepoint_of):
    """Spark up to 4.3 remembers what was read with filters that it told the source."""
    accounts = read(savepoint_of("rocksdb-account-v1"), operator="account-state", state="account")

    assert [-23] == [row.key for row in accounts.where(sf.col("key") == -23).collect()]
    assert accounts.count() == len(accounts.collect()) == 10
    assert 1 == accounts.where(sf.col("key") == -23).alias("one").join(accounts.alias("all"), "key").count()


@pytest.mark.parametrize("hint", [dt.time, list[dt.time]])
def test_times_of_day_are_text_where_spark_has_no_type_for_them(read, tmp_path, hint):
    job = Job([Operator("o", key=int, states=[ValueStateDescriptor("clock", hint)])])
    moment = dt.time(1, 2, 3)
    with SavepointWriter(tmp_path / "sp", job) as writer:
        writer.put("o", "clock", 1, moment if hint is dt.time else [moment])

    exact = [row.value for row in read(tmp_path / "sp", operator="o", state="clock", exact="true").collect()]

    assert [str(moment) if hint is dt.time else [str(moment)]] == exact
    if not has_spark(4, 1):
        with pytest.raises(AnalysisException, match=r"no type for a column .*\n.*option\('exact', 'true'\)"):
            read(tmp_path / "sp", operator="o", state="clock")


@pytest.mark.slow
def test_rows_are_joined_with_another_frame(spark, read, savepoint_of):
    accounts = read(savepoint_of("rocksdb-account-v1"), operator="account-state", state="account")
    keys = [row.key for row in accounts.select("key").head(3)]
    names = spark.createDataFrame([(key, f"name {key}") for key in keys], ["key", "name"])

    assert {(key, f"name {key}") for key in keys} == {
        (row.key, row.name) for row in accounts.join(names, "key").select("key", "name").collect()
    }


def test_map_state_has_a_row_for_each_entry_of_a_map(read, savepoint_of):
    place = savepoint_of("rocksdb-long-p2-m200-files")
    state = Savepoint.open(place).operator("keyed-op").state("counts")
    rows = read(place, operator="keyed-op", state="counts")

    assert ["key_group", "key", "user_key", "value"] == rows.columns
    assert {(e.key, name) for e in state.read_entries() for name in e.value} == {
        (row.key, row.user_key) for row in rows.select("key", "user_key").collect()
    }


def test_lists_are_arrays_and_windows_are_namespaces(read, savepoint_of):
    rows = read(savepoint_of("rocksdb-windows-p1-m200"), operator="window-list", state="window-contents")

    assert isinstance(rows.schema["value"].dataType, ArrayType)
    assert 10_000 == rows.select((sf.col("namespace.end") - sf.col("namespace.start")).alias("ms")).head().ms


def test_nothing_named_lists_what_there_is(read, savepoint_of):
    place = savepoint_of("rocksdb-account-v1")
    savepoint = Savepoint.open(place)

    listed = {(row.operator, row.state): row for row in read(place).collect()}

    assert {(o.title, s.name) for o in savepoint.operators for s in o.states} == set(listed)
    account = listed["account-state", "account"]
    assert savepoint.operator("account-state").state("account").measure().entries == account.entries
    assert account.kind == "value"
    assert "long" in account.type


@pytest.mark.slow
def test_files_in_other_folders_are_read_if_allowed(spark, read, savepoint_copy, tmp_path):
    place = savepoint_copy("rocksdb-long-p2-m200-files")
    shutil.copytree(place, tmp_path / "before")
    redirect_to(place, f"file:{tmp_path}/before")
    [operator, *_] = Savepoint.open(place, allow_roots=[tmp_path / "before"]).operators
    allowed = {"allow_roots": f"/nowhere,{tmp_path}/before"}

    with pytest.raises(Exception, match=rf"allow_roots=\[\"{tmp_path}/before\"\]"):
        read(place).collect()

    assert {state.name for state in operator.states} <= {row.state for row in read(place, **allowed).collect()}
    assert read(place, operator=operator.title, state=operator.states[0].name, **allowed).count()
    report = migrate(
        place, tmp_path / "new", options=MigrationOptions(parallelism=3), session=spark,
        allow_roots=[tmp_path / "before"],
    )  # fmt: skip
    assert verify(Savepoint.open(report.target)).ok


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"operator": "account", "state": "account"}, "no operator .* 'account'; there are: account-state"),
        ({"operator": "account-state", "state": "acount"}, "no state 'acount'; it has: .*account-by-name"),
        (
            {"state": "account", "oprator": "account-state"},
            "unknown option 'oprator'(.|\n)*the options are: operator, state",
        ),
        ({"state": "account"}, "option.'operator', ….* is missing; operators with state are: account-state"),
    ],
)
def test_what_is_wrong_is_reported_with_what_there_is(savepoint_of, options, message):
    with pytest.raises((StateShiftError, StateNotFound), match=message):
        SavepointDataSource({"path": str(savepoint_of("rocksdb-account-v1"))} | options).schema()


def test_a_value_that_spark_does_not_hold_is_read_as_text_where_that_is_asked(read, savepoint_of):
    place = savepoint_of("rocksdb-zoo-p1-m200")
    exact = read(place, operator="keyed-op", state="instant", exact="true")

    assert isinstance(exact.schema["value"].dataType, StringType)
    assert any(row.value.endswith("999999999Z") for row in exact.collect())


def test_snapshots_of_a_module_in_the_users_folder_are_known_to_sparks_processes(spark, tmp_path, monkeypatch):
    (tmp_path / "marks_of_a_user.py").write_text(marks("stateshift/test-reading.mark"))
    monkeypatch.syspath_prepend(tmp_path)
    with registry.restored():
        module = importlib.import_module("marks_of_a_user")
        write_savepoint(tmp_path / "sp", module.job, {"o/mark": {"Ann": 1}})
        register(spark)
        found = spark.read.format("savepoint").options(operator="o", state="mark").load(str(tmp_path / "sp"))

        assert [("Ann", "1")] == [(row.key, str(row.value)) for row in found.collect()]
