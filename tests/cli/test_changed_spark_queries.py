"""Queries whose columns change places or names: the check, the migration as it is told, and Spark's own results.

Beside each stands the new query over all of history, which says what is right.
"""

from __future__ import annotations

import importlib
import json
import re
import shlex
import shutil

import pytest

pytestmark = pytest.mark.slow

NEXT = re.compile(r"next: stateshift (.*)")

QUERIES = """
from pathlib import Path

from pyspark.sql import functions as F

def rows(spark, name):
    source = str(Path(__file__).parent / name)
    stream = spark.readStream.schema("k string, first string, last string, at timestamp").json(source)
    return stream.withWatermark("at", "10 minutes")

def joined(spark, *columns):
    people = rows(spark, "people").select("k", *columns, "at")
    visits = rows(spark, "visits").select(F.col("k").alias("who"), F.col("at").alias("then"))
    on = F.expr("k = who and then >= at and then <= at + interval 4 minutes")
    return people.join(visits, on).select("k", "first", "last")

def old(spark):
    return joined(spark, "first", "last")

def exchanged(spark):
    return joined(spark, F.col("first").alias("last"), F.col("last").alias("first"))

def moved(spark):
    return joined(spark, "last", "first")

def unique(spark):
    return rows(spark, "people").select("first", "last").distinct()

def unique_moved(spark):
    return rows(spark, "people").select("last", "first").distinct()

def unique_exchanged(spark):
    return rows(spark, "people").select(F.col("first").alias("last"), F.col("last").alias("first")).distinct()

def counted(spark):
    return rows(spark, "people").groupBy("k").agg(F.count("first"), F.sum(F.length("first")))

def averaged(spark):
    average = F.avg(F.length("first"))
    return rows(spark, "people").groupBy("k").agg(F.count("first"), F.sum(F.length("first")), average, F.max("last"))

def by_name(spark):
    return rows(spark, "people").groupBy("k", "first").agg(F.max("last"), F.max("first"), F.count("last"))

def by_less(spark):
    return rows(spark, "people").groupBy("k").agg(F.max("last"), F.count("last"))
"""
BEFORE = {"people": [("a", "Ada", "Lovelace")], "visits": [("z", None, None)]}
AFTER = {"people": [("b", "Grace", "Hopper"), ("c", "Ada", "Lovelace")], "visits": [("a", None, None)]}


@pytest.fixture
def queries(run, job_folder, stateshift_spark, monkeypatch):
    (job_folder / "queries.py").write_text(QUERIES)
    monkeypatch.syspath_prepend(job_folder)
    importlib.invalidate_caches()
    return Queries(run, job_folder, stateshift_spark, importlib.import_module("queries"))


class Queries:
    """Runs queries of a module on files in the current folder, and commands on their checkpoints."""

    def __init__(self, run, folder, spark, module):
        self.command, self.folder, self.spark, self.module = run, folder, spark, module

    def feed(self, name, sources):
        for source, rows in sources.items():
            (self.folder / source).mkdir(exist_ok=True)
            lines = [
                json.dumps({"k": k, "first": first, "last": last, "at": "2026-01-01T00:00:00Z"})
                for k, first, last in rows
            ]
            (self.folder / source / f"{name}.json").write_text("\n".join(lines))

    def run(self, name, checkpoint, mode="append"):
        found = []
        query = getattr(self.module, name)(self.spark).writeStream.outputMode(mode)
        query = query.foreachBatch(lambda frame, _: found.extend(map(tuple, frame.collect())))
        query.option("checkpointLocation", str(self.folder / checkpoint)).trigger(
            availableNow=True
        ).start().awaitTermination()
        return sorted(found)

    def check(self, name, *more):
        return self.command("check", "spark:old", "--query", f"queries:{name}", *more)

    def migrate(self, name, target, *more):
        return self.command("migrate", "spark:old", f"spark:{target}", "--query", f"queries:{name}", *more)


CHANGES = {
    "exchanged": ("old", 0, "left.value.", {"first": "last", "last": "first"}),
    "moved": ("old", 4, "left.value.", {"first": "first", "last": "last"}),
    "unique_exchanged": ("unique", 0, "key.", {"first": "last", "last": "first"}),
    "unique_moved": ("unique", 4, "key.", {"first": "first", "last": "last"}),
}
"""The old query, the status of a check that knows it, what paths begin with, and which stored field each one is."""


@pytest.mark.parametrize(
    "name", [name if name == "exchanged" else pytest.param(name, marks=pytest.mark.faults) for name in CHANGES]
)
def test_names_and_places_that_disagree_are_refused_until_somebody_says_which_is_right_spk_2(queries, name):
    was, status, path, fields = CHANGES[name]
    queries.feed("0", BEFORE)
    queries.run(was, "old")
    queries.feed("1", AFTER)
    history = queries.run(name, "history")
    if was == "unique":  # what was seen before is not yielded again
        history = [row for row in history if {*row} != {"Ada", "Lovelace"}]
    shutil.copytree("old", "alone")
    said = [part for new, old in fields.items() for part in ("--rename-field", f"0:{path}{old}={path}{new}")]

    seen, known = queries.check(name), queries.check(name, "--was", f"queries:{was}")
    refused = queries.migrate(name, "by-name")
    by_code = queries.migrate(name, "by-code", "--was", f"queries:{was}")
    by_word = queries.migrate(name, "by-word", *said)

    assert (seen.status, known.status) == (1, status)
    assert "names and places of" in seen.stdout
    assert refused.status == 1
    assert "names and places of" in refused.stderr
    assert f"0:{path}first" in refused.stderr
    assert not (queries.folder / "by-name").exists()
    assert (by_code.status, by_word.status) == (0, 0), by_code.stderr + by_word.stderr
    assert [history, history] == [queries.run(name, copy) for copy in ("by-code", "by-word")]
    assert (queries.run(name, "alone") == history) is (status == 0)


def test_the_next_command_is_one_that_a_migration_takes_as_it_stands(queries):
    queries.feed("0", BEFORE)
    queries.run("counted", "old", "update")

    seen, known = queries.check("averaged"), queries.check("averaged", "--was", "queries:counted")
    (command,) = NEXT.findall(known.stdout)
    data = json.loads(queries.check("averaged", "--json").stdout)

    assert (4, 4) == (seen.status, known.status), seen.stdout
    assert [] == NEXT.findall(seen.stdout)
    assert "several fields are called 'count'" in " ".join(seen.stdout.split())
    assert "--rename-field '0:value.count=value.count#2'" in " ".join(seen.stdout.split())
    assert (None, []) == (data["next_command"], data["next_asks"])
    assert 0 == queries.command(*shlex.split(command), "--dry-run").status


def test_a_key_with_a_column_less_needs_a_rule_for_each_value_and_nothing_that_is_known(queries):
    queries.feed("0", {"people": [("a", "Ada", "Lovelace"), ("a", "Grace", "Hopper"), ("b", "Ada", "Lovelace")]})
    queries.run("by_name", "old", "update")
    merges = ("--merge-field", "0:value.max=max", "--merge-field", "0:value.count=sum")

    seen = queries.check("by_less", "--was", "queries:by_name")
    migrated = queries.migrate("by_less", "copy", "--was", "queries:by_name", *merges)
    queries.feed("1", {"people": [("a", "Alan", "Turing"), ("b", "Alan", "Turing")]})

    assert (4, []) == (seen.status, NEXT.findall(seen.stdout))
    assert "--merge-field 0:value." in seen.stdout
    assert 0 == migrated.status, migrated.stderr
    assert [("a", "Turing", 3), ("b", "Turing", 2)] == queries.run("by_less", "copy", "update")
