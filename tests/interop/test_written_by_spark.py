"""Real Flink restores what `df.write.format("savepoint")` made of a savepoint of its own: the changes, and all else."""

from __future__ import annotations

import copy

import pytest
from pyspark.sql import functions as sf

from stateshift import Savepoint
from stateshift.spark import register
from stateshift.state.savepoint.verify import verify

FIXTURE = "rocksdb-account-v1"
OPERATOR = "account-state"


def fields(value):
    return value["$pojo"]["fields"]


@pytest.fixture(scope="module")
def written(spark, savepoint_of, expected_of, tmp_path_factory):
    """The accounts of even keys, joined with a table of points; longer lists; and an entry more in each map."""
    register(spark)
    folder = tmp_path_factory.mktemp("written")
    base, steps = savepoint_of(FIXTURE), [folder / name for name in ("account", "accounts", "by-name")]

    def read(state):
        return spark.read.format("savepoint").option("operator", OPERATOR).option("state", state).load(str(base))

    def save(frame, state, mode, source, target):
        options = {"operator": OPERATOR, "state": state, "base": str(source), "target": "flink"}
        frame.write.format("savepoint").mode(mode).options(**options).save(str(target))

    points = spark.range(-10_000, 10_000).selectExpr("id as key", "cast(id * 3 as int) as points")
    even = read("account").where("key % 2 = 0").join(points, "key")
    counted = even.select("key", sf.col("value").withField("visits", sf.col("points")).alias("value"))
    save(counted, "account", "overwrite", base, steps[0])
    save(read("accounts").selectExpr("key", "concat(value, value) as value"), "accounts", "overwrite", *steps[:2])
    first = read("account-by-name").groupBy("key").agg(sf.min_by("value", "user_key").alias("value"))
    more = first.select("key", sf.lit("added by Spark: ż").alias("user_key"), "value")
    save(more, "account-by-name", "append", *steps[1:])
    return steps[-1], changed(expected_of(FIXTURE))


def changed(expected):
    """What the same comes to, by hand, of what Flink's job read back."""
    expected = copy.deepcopy(expected)
    keyed = next(operator for operator in expected["operators"] if operator["uid"] == OPERATOR)["keyed"]
    keyed["account"]["entries"] = [entry for entry in keyed["account"]["entries"] if entry[0] % 2 == 0]
    for key, account in keyed["account"]["entries"]:
        fields(account)["visits"] = key * 3
    for entry in keyed["accounts"]["entries"]:
        entry[1] = 2 * entry[1]
    for _, value in keyed["account-by-name"]["entries"]:
        value["$map"].append(["added by Spark: ż", min(value["$map"], key=lambda item: item[0])[1]])
    return expected


@pytest.mark.parametrize(("backend", "parallelism"), [("hashmap", None), ("rocksdb", 3)])
def test_flink_restores_states_that_spark_has_changed(
    flink_restore, same_contents, restorations, written, backend, parallelism
):
    place, expected = written
    assert verify(Savepoint.open(place)).ok

    restored = flink_restore(place, backend=backend, parallelism=parallelism)

    assert same_contents(expected, restored) == []
    restorations.append((f"{FIXTURE}, changed by Spark", "2.3", "2.3", backend, parallelism))


def test_the_job_itself_restores_them_with_its_own_class(flink_restore, same_contents, written):
    place, expected = written

    restored = flink_restore(place, scenario="account", evo=1)

    assert same_contents(expected, restored) == []
