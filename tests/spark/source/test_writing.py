"""`df.write.format("savepoint")`: what a user of it sees. What is written and refused is in tests/state/columnar."""

from __future__ import annotations

import shutil

import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType
from redirecting import redirect_to

from stateshift import DeclarationError, JobNotFound, Savepoint, StateShiftError
from stateshift.spark import register
from stateshift.spark.source.writer import StateWriter
from stateshift.state.savepoint.verify import verify


@pytest.fixture(scope="module", autouse=True)
def registered(spark):
    register(spark)


@pytest.fixture(scope="module")
def read(spark):
    """`read(place, operator=…, state=…)`: a DataFrame."""
    return lambda place, **options: spark.read.format("savepoint").options(**options).load(str(place))


def save(frame, place, mode="overwrite", **options):
    frame.write.format("savepoint").mode(mode).options(**options).save(str(place))


@pytest.mark.slow
def test_a_state_is_read_filtered_joined_and_written_back_changed(spark, read, savepoint_of, values_of, tmp_path):
    base = savepoint_of("rocksdb-account-v1")
    before = values_of(base, "account-state", "account")
    state = {"operator": "account-state", "state": "account"}
    points = spark.createDataFrame([(key, key % 7) for key in before if key % 3], "key bigint, points int")

    accounts = read(base, **state).where("value.visits >= 0").join(points, "key").repartition(3)
    changed = accounts.withColumn("value", sf.col("value").withField("visits", sf.col("points"))).drop("points")
    save(changed, tmp_path / "new", base=base, **state)

    expected = {key: {**account._asdict(), "visits": key % 7} for key, account in before.items() if key % 3}
    found = {key: account._asdict() for key, account in values_of(tmp_path / "new", "account-state", "account").items()}
    assert expected == found
    for other in ("accounts", "account-by-name", "version-free"):
        assert values_of(base, "account-state", other) == values_of(tmp_path / "new", "account-state", other)
    assert verify(Savepoint.open(tmp_path / "new")).ok


@pytest.mark.slow
def test_files_of_the_base_in_other_folders_are_read_if_allowed(spark, savepoint_copy, tmp_path):
    base = savepoint_copy("rocksdb-long-p2-m200-files")
    shutil.copytree(base, tmp_path / "before")
    redirect_to(base, f"file:{tmp_path}/before")
    state = {"operator": "more", "state": "s", "kind": "value", "base": base}
    rows = spark.range(3).selectExpr("id as key", "id as value")

    with pytest.raises(Exception, match=rf"allow_roots=\[\"{tmp_path}/before\"\]"):
        save(rows, tmp_path / "refused", **state)
    save(rows, tmp_path / "new", allow_roots=str(tmp_path / "before"), **state)

    assert verify(Savepoint.open(tmp_path / "new")).ok


JOB = """
import attrs
from stateshift import Int32, Job, ListStateDescriptor, Operator

@attrs.frozen
class Visit:
    page: int
    seconds: Int32 = 7

job = Job([Operator("o", key=int, states=[ListStateDescriptor("s", Visit)])])
"""


@pytest.mark.slow
def test_a_task_that_fails_is_tried_again_and_each_row_is_there_once_under_the_types_of_a_job(
    spark, values_of, tmp_path, monkeypatch
):
    (tmp_path / "written_shop.py").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    register(spark)  # from here on, places and modules are looked for here

    def fail_once(batches):
        context = TaskContext.get()
        yield from batches
        if context.partitionId() == 0 and context.attemptNumber() == 0:
            raise OSError("the first attempt fails")

    rows = spark.range(3000).repartition(2).selectExpr("id as key", "array(struct(id as page)) as value")
    save(rows.mapInArrow(fail_once, rows.schema), "new", "append", operator="o", state="s", job="written_shop:job")

    found = values_of(tmp_path / "new", "o", "s")
    assert {key: [(key, 7)] for key in range(3000)} == {
        key: [(visit.page, visit.seconds) for visit in visits] for key, visits in found.items()
    }
    assert [] == [file.name for file in (tmp_path / "new").iterdir() if ".attempt-" in file.name]


def test_what_is_wrong_is_reported_by_sparks_error_and_nothing_is_left(spark, tmp_path):
    twice = spark.createDataFrame([(key % 40, "x") for key in range(41)], "key int, value string")

    with pytest.raises(PySparkException) as caught:
        save(twice, tmp_path / "new", operator="o", state="s")

    told = str(caught.value)
    assert "ValueNotConvertible: two rows for one key, but a value state has one value per key" in told
    assert "where: operator o, state s, key 0" in told
    assert "what to do: reduce to one row for each key: groupBy, dropDuplicates" in told
    assert "Nothing was published: the target has no _metadata." in told
    assert not (tmp_path / "new").exists()


# Without Spark: options are looked at where the write is planned.


ROWS = StructType().add("key", "string").add("value", "long")
GIVEN = {"path": "new", "operator": "o", "state": "s"}
OPTIONS = {
    "an option that is none": ({"bse": "x"}, DeclarationError, "unknown option 'bse' for a write; did you mean"),
    "no operator": ({"operator": ""}, DeclarationError, "the option 'operator' is missing"),
    "no path": ({"path": ""}, DeclarationError, "the option 'path' is missing"),
    "a kind that is none": ({"kind": "set"}, DeclarationError, "the option 'kind' is 'set'"),
    "a kind that rows do not make": ({"kind": "timers"}, DeclarationError, "the option 'kind' is 'timers'"),
    "a number that is none": ({"parallelism": "-1"}, DeclarationError, "the option 'parallelism' is '-1'"),
    "a job that is none": ({"job": "no_such_module:job"}, JobNotFound, "the module 'no_such_module' cannot be"),
    "a base that is none": ({"base": "nowhere"}, StateShiftError, "there is no savepoint in"),
    "more subtasks than key groups": ({"parallelism": "9", "max_parallelism": "8"}, StateShiftError, "8"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_are_refused_in_words_before_anything_is_there(tmp_path, monkeypatch, name):
    changed, error, words = OPTIONS[name]
    monkeypatch.chdir(tmp_path)

    with pytest.raises(error) as caught:
        StateWriter(GIVEN | changed, ROWS, overwrite=False)

    assert words in str(caught.value)
    assert caught.value.advice
    assert "Nothing was written." == caught.value.written
    assert [] == list(tmp_path.iterdir())


def test_a_job_by_name_declares_the_types(tmp_path, load, monkeypatch):
    job = (
        "from stateshift import Int32, Job, Operator, ValueStateDescriptor\n"
        "job = Job([Operator('o', key=str, states=[ValueStateDescriptor('s', Int32)])])\n"
    )
    load("declared_shop", declared_shop=job)
    monkeypatch.chdir(tmp_path)

    StateWriter(GIVEN | {"job": "declared_shop:job"}, ROWS, overwrite=False).commit([])

    operator = Savepoint.open(tmp_path / "new").operator("o")
    assert ("string", "int") == (operator.key.describe(), operator.state("s").description.describe())
