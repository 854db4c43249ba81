"""The query that `--was` names: the same file in another checkout, or the description that a repository keeps."""

from __future__ import annotations

import sys

import pytest

from stateshift.compat.gate.recorded_queries import query_text
from stateshift.compat.queries.description import to_data
from stateshift.serializers.errors import CorruptFile, JobNotFound
from stateshift.spark.queries.check import load_query
from stateshift.spark.queries.description import describe
from stateshift.spark.queries.old_code import describe_old

QUERY = """
from pyspark.sql import functions as F

{imports}

def build_query(spark):
    spark.conf.set("spark.sql.shuffle.partitions", "{partitions}")
    return spark.readStream.schema("k string, n int, d int").json(".").groupBy("k").agg(F.sum(made(column())))
"""
PART = """
from pyspark.sql import functions as F

def column():
    return F.col("{column}")

@F.udf("int")
def made(value):
    return value
"""
IMPORTS = {
    "beside": "from parts_of_it import column, made",
    "relative": "from .parts_of_it import column, made",
    "own": PART,
    "added": 'import os, sys\nsys.path.insert(0, os.path.dirname(__file__) + "/../lib")\n'
    "from parts_of_it import column, made",
}


@pytest.fixture
def checkouts(tmp_path, monkeypatch):
    """`checkouts("shop/orders.py", "beside")`: two checkouts, of which the new one is the current folder."""

    def make(file, imports, part=""):
        for checkout, column in (("v1", "n"), ("v2", "d")):
            query = tmp_path / checkout / file
            beside = query.parent / (part or "parts_of_it.py")
            for one in (query, beside):
                one.parent.mkdir(parents=True, exist_ok=True)
            of_it = IMPORTS[imports].replace("{column}", column)
            query.write_text(QUERY.format(imports=of_it, partitions="7" if column == "n" else "200"))
            beside.write_text(PART.format(column=column))
            if imports == "relative":
                (query.parent / "__init__.py").touch()
        return tmp_path

    monkeypatch.setattr(sys, "path", [str(tmp_path / "v2"), *sys.path])
    before = dict(sys.modules)
    (tmp_path / "v2").mkdir()
    monkeypatch.chdir(tmp_path / "v2")
    yield make
    for name in [one for one in sys.modules if one.partition(".")[0] in {"orders", "shop", "parts_of_it"}]:
        del sys.modules[name]
    sys.modules.update(before)


def summed(query):
    return query.computations[0].columns["default"]["value.sum"]


@pytest.mark.parametrize(
    ("file", "imports", "part", "was", "new"),
    [
        ("orders.py", "beside", "", "../v1/orders.py", "orders"),
        ("shop/orders.py", "relative", "", "../v1/shop/orders.py", "shop.orders"),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in [
            ("orders.py", "beside", "", "../v1/orders.py", "orders.py"),
            ("orders.py", "own", "", "orders", "../v1/orders.py"),
            ("jobs/orders.py", "beside", "../parts_of_it.py", "../v1/jobs/orders.py", "jobs.orders"),
            ("jobs/orders.py", "beside", "../parts_of_it.py", "../v1/jobs/orders.py", "jobs/orders.py"),
            ("jobs/orders.py", "added", "../lib/parts_of_it.py", "../v1/jobs/orders.py", "jobs.orders"),
        ]),
    ],
)  # fmt: skip
def test_the_same_file_of_another_checkout_is_loaded_apart(stateshift_spark, checkouts, file, imports, part, was, new):
    checkouts(file, imports, part)
    partitions = stateshift_spark.conf.get("spark.sql.shuffle.partitions")
    columns = ("d", "n") if was == "orders" else ("n", "d")

    for _ in range(2 if imports == "relative" else 1):  # again, with all modules of the new code loaded
        old = describe_old(f"{was}:build_query", f"{new}:build_query", stateshift_spark, None)
        assert partitions == stateshift_spark.conf.get("spark.sql.shuffle.partitions")
        now = describe(load_query(f"{new}:build_query", stateshift_spark))
        stateshift_spark.conf.set("spark.sql.shuffle.partitions", partitions)
        assert columns == tuple(summed(one)[-3:-2] for one in (old, now))

    names = [{one.name for of in side.computations[0].details.values() for one in of} for side in (old, now)]
    assert names[0] == names[1] != set()
    assert not [one for one in sys.path if one.endswith(("v1", "v1/jobs", "v1/jobs/../lib"))]


def test_what_a_repository_keeps_of_a_query_stands_for_its_old_code(stateshift_spark, checkouts):
    folder = checkouts("orders.py", "beside")
    kept = describe(load_query("orders:build_query", stateshift_spark))
    (folder / "orders.json").write_text(query_text(kept))
    (folder / "edited.json").write_text(query_text(kept).replace("sum(", "max("))

    read = describe_old("../orders.json", "orders:build_query", stateshift_spark, None)

    assert (to_data(kept), "../orders.json") == (to_data(read), read.origin)
    with pytest.raises(CorruptFile):
        describe_old("../edited.json", "orders:build_query", stateshift_spark, None)
    with pytest.raises(JobNotFound, match=r"there is no file \.\./none\.json"):
        describe_old("../none.json", "orders:build_query", stateshift_spark, None)
