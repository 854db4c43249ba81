"""`stateshift check spark:CHECKPOINT --query`: statuses, output, and what its options do."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys

import pytest
from spark_checkpoints import place

from stateshift.compat.gate.recorded_queries import query_text
from stateshift.serializers.errors import StateShiftError
from stateshift.spark import describe
from stateshift.spark.queries.check import load_query

QUERIES = """
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

def rows(spark):
    return spark.readStream.schema("k string, l string, n int, d double, at timestamp").json(".")

def same(spark):
    return rows(spark).groupBy("k", "l").agg(F.sum("n").alias("other")).writeStream.outputMode("update")

def largest(spark):
    return rows(spark).groupBy("k", "l").agg(F.max("n"))

def other_column(spark):
    return rows(spark).groupBy("k", "l").agg(F.sum(F.length("k")))

def read_otherwise(spark):
    reader = spark.readStream.schema("l string, k string, n int").options(nullValue="p", maxFilesPerTrigger="1")
    return reader.csv(".").groupBy("k", "l").agg(F.sum("n"))

def read_from_csv(spark):
    return spark.readStream.schema("k string, l string, n int").csv(".").groupBy("k", "l").agg(F.sum("n"))

def started(spark):
    return same(spark).format("noop").option("checkpointLocation", "new").start()

def counted(spark):
    return rows(spark).groupBy("k", "l").agg(F.sum("n"), F.count("*")).writeStream.outputMode("update")

def halves(spark):
    return rows(spark).groupBy("k", "l").agg(F.sum(F.col("n") / 2)).writeStream.outputMode("update")

def halved(column):
    return pc.divide(column.cast(pa.float64()), 2.0)

def broken():
    return 1 // 0
"""


@pytest.fixture
def check(run, job_folder, stateshift_spark):
    """`check("--query", "queries:same")`: on the checkpoint of a query that sums a column."""
    assert stateshift_spark
    (job_folder / "queries.py").write_text(QUERIES)
    return lambda *more: run("check", f"spark:{place('checksums')}", *more)


@pytest.mark.slow
def test_a_check_ends_with_the_status_of_its_decision(check):
    unchanged = check("--query", "queries:same")
    changed = check("--query", "queries:largest")
    known = check("--query", "queries:other_column", "--was", "queries:same")
    accepted = check("--query", "queries:other_column", "--was", "queries:same", "--accept", "SPK-10")
    certain = check("--query", "queries:same", "--was", "queries:same")
    annotated = check("--query", "queries:largest", "--format", "github")

    assert [one.status for one in (unchanged, changed, known, accepted, certain)] == [0, 4, 4, 0, 0]
    assert "start: every state can be used as it is" in certain.stdout
    assert "start, if what the checkpoint does not show is unchanged: " in unchanged.stdout
    assert "--was MODULE:FUNCTION, which builds the old query, makes it certain" in unchanged.stdout
    assert "$.value.sum  bigint -> (gone)" in changed.stdout
    assert re.search(r"migrate +\$\.value\.sum +sum\(n\) -> sum\(length\(k\)\)", known.stdout)
    assert "accepted: " in accepted.stdout
    assert "::error file=queries.py,title=aggregation" in annotated.stdout
    assert f"next: stateshift migrate spark:{place('checksums')}" in annotated.stderr
    old = f"spark:{place('checksums')}"
    migrate = f"next: stateshift migrate {old} {old}-migrated --query"  # `run` has tried it
    assert f"{migrate} queries:largest --fill 0:value.max=null\n" in changed.stdout
    assert f"{migrate} queries:other_column --was queries:same --fill 0:value.sum=null\n" in known.stdout


@pytest.mark.slow
def test_what_a_plan_does_not_show_is_compared_with_the_old_code_spk_15(check):
    changed = check("--query", "queries:read_otherwise", "--was", "queries:read_from_csv")
    accepted = check("--query", "queries:read_otherwise", "--was", "queries:read_from_csv", "--accept", "SPK-15")
    forbidden = check("--query", "queries:read_from_csv", "--was", "queries:read_from_csv", "--forbid", "unverified")

    assert [one.status for one in (changed, accepted, forbidden)] == [1, 0, 0]
    assert "nullvalue: not set -> nullvalue: 'p'" in changed.stdout
    assert "column k: position 1 -> column k: position 2" in changed.stdout
    assert "maxfiles" not in changed.stdout


@pytest.mark.slow
def test_the_old_code_is_the_same_file_elsewhere_or_what_a_repository_keeps(
    check, migrate, job_folder, stateshift_spark
):
    (job_folder.parent / "v1").mkdir()
    (job_folder.parent / "v1" / "queries.py").write_text(QUERIES.replace('F.length("k")', '"n"'))
    described = describe(load_query(f"{job_folder}/queries.py:same", stateshift_spark), checkpoint=place("checksums"))
    (job_folder / "kept.json").write_text(query_text(described))

    for was in ("../v1/queries.py:other_column", "kept.json"):
        changed = check("--query", "queries:other_column", "--was", was)
        unchanged = check("--query", "queries:same", "--was", was, "--require-recording", "--forbid", "unverified")
        migrated = migrate("--query", "queries:other_column", "--was", was, "--dry-run")

        assert (4, 0, 1) == (changed.status, unchanged.status, migrated.status), unchanged.stdout + unchanged.stderr
        assert re.search(r"migrate +\$\.value\.sum +sum\(n\) -> sum\(length\(k\)\)", changed.stdout)
        assert f"--was {was} --fill 0:value.sum=null\n" in changed.stdout
        assert "$.value.sum  sum(n) -> sum(length(k))  the column is computed" in migrated.stderr


@pytest.mark.slow
def test_what_is_not_seen_is_told_and_may_be_refused(check):
    seen = check("--query", "queries:other_column")

    assert (seen.status, seen.stdout.count("SPK-17")) == (0, 1)
    assert check("--query", "queries:other_column", "--require-recording").status == 4
    assert check("--query", "queries:other_column", "--forbid", "unverified").status == 1


def test_json_has_the_documented_keys(check, root):
    page = (root / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")

    data = check("--query", "queries:largest", "--json").data

    assert (data["decision"], data["exit_status"], data["known_from"], data["is_whole"]) == ("migrate", 4, None, False)
    told = set(re.findall(r"`([^`\s]+)`", page.split("## stateshift check")[1].split("\n## ")[0]))
    states = [state for one in data["operators"] for state in one["states"]]
    found = [finding for one in states for finding in one["findings"]]
    computes = [side for one in data["operators"] for side in one["computes"]]
    assert {"SPK-3", "SPK-4"} == {one["rule"] for one in found}
    assert {key for one in (data, *data["operators"], *states, *computes, *found) for key in one} - told == set()


@pytest.mark.parametrize(
    ("more", "status", "told"),
    [
        ([], 2, "specify the new query"),
        (["--query", "queries:missing"], 2, "has no attribute 'missing'"),
        (["--query", "queries:broken"], 2, "ZeroDivisionError"),
        (["--query", "queries:started"], 2, "the function started the query"),
        (["--query", "queries:same", "--accept", "SPK-4"], 2, "findings of SPK-4 cannot be accepted"),
        (["--query", "queries:same", "--was", "queries:largest"], 2, "was not written by the old code"),
    ],
)
def test_what_cannot_be_checked_is_an_error_with_a_way_out(check, more, status, told):
    ran = check(*more)

    assert ran.status == status
    assert told in ran.stderr


TRACKING = """
from pyspark.sql.streaming import StatefulProcessor

class Counting(StatefulProcessor):
    def init(self, handle):
        self.count = handle.getValueState("count", "n bigint")

    def handleInputRows(self, key, rows, timers):
        yield from ()

    def close(self):
        pass

def counting(spark):
    grouped = spark.readStream.schema("k string, n int").json(".").groupBy("k")
    return grouped.transformWithState(Counting(), "k string, n bigint", "update", "noTime")
"""


@pytest.mark.slow
def test_a_processor_in_the_current_folder_is_found_by_sparks_worker(job_folder):
    """Spark calls its `init` in a process of its own, which announces each of its steps."""
    (job_folder / "tracking.py").write_text(TRACKING)
    (job_folder / "pyproject.toml").write_text('[tool.stateshift]\nqueries = { counting = "tracking:counting" }\n')

    ran = subprocess.run(
        [sys.executable, "-m", "stateshift", "snapshot", "--queries"], capture_output=True, text=True, check=False
    )

    assert (ran.returncode, ran.stdout) == (0, "written: state_history/queries/counting.json\n"), ran.stderr
    assert not re.search("TransformWithState|FutureWarning", ran.stderr)


@pytest.mark.slow
def test_so_is_one_that_is_named_by_its_file(run, job_folder, stateshift_spark):
    (job_folder / "jobs").mkdir()
    (job_folder / "jobs" / "tracking.py").write_text(TRACKING)

    ran = run("check", f"spark:{place('transform')}", "--query", "jobs/tracking.py:counting")

    assert (ran.status, ran.stdout.partition(":")[0]) == (1, "refuse"), ran.stderr
    assert "PYTHONPATH" not in stateshift_spark.sparkContext.environment


@pytest.mark.slow
def test_a_module_that_sparks_worker_does_not_find_is_an_error_with_a_way_out(
    job_folder, stateshift_spark, monkeypatch
):
    """A query that is built outside of the command line."""
    (job_folder / "tracking_here.py").write_text(TRACKING)
    monkeypatch.syspath_prepend(job_folder)
    query = importlib.import_module("tracking_here").counting(stateshift_spark)

    with pytest.raises(StateShiftError, match="ModuleNotFoundError: No module named 'tracking_here'") as caught:
        describe(query, output_mode="update")

    assert "'spark.executorEnv.PYTHONPATH', 'FOLDER'" in caught.value.advice
    assert caught.value.written == "Nothing was started."


def test_a_checkpoint_without_the_prefix_is_told_apart_from_a_savepoint(run):
    ran = run("check", place("checksums"), "--query", "queries:same")
    migrated = run("migrate", place("checksums"), "new", "--query", "queries:same")

    for one in (ran, migrated):
        assert one.status == 2
        assert f"is the checkpoint of a Spark query: write spark:{place('checksums')}" in one.stderr
    assert "write spark:" not in run("check", ".", "--query", "queries:same").stderr


@pytest.fixture
def migrate(run, job_folder, stateshift_spark):
    """`migrate("--query", "queries:counted")`: the same checkpoint, to `spark:new`."""
    assert stateshift_spark
    (job_folder / "queries.py").write_text(QUERIES)
    return lambda *more: run("migrate", f"spark:{place('checksums')}", "spark:new", *more)


@pytest.mark.slow
def test_a_query_is_the_new_side_of_a_migration(migrate, job_folder):
    told = migrate("--query", "queries:counted")
    done = migrate("--query", "queries:counted", "--fill", "0:value.count=0")

    assert (told.status, done.status) == (1, 0)
    assert "$.value.count  (none) -> bigint  the field is new" in told.stderr
    assert "--fill 0:value.count=0" in told.stderr
    assert "changes={" not in told.stderr
    assert "not compared: operator 0 (aggregation): the checkpoint does not show" in done.stdout
    assert (job_folder / "new" / "metadata").exists()


@pytest.mark.slow
def test_what_a_column_is_computed_from_counts_in_a_migration(migrate):
    refused = migrate("--query", "queries:other_column", "--was", "queries:same")
    converted = migrate(
        "--query", "queries:halves", "--was", "queries:same", "--convert-field", "0:value.sum=queries:halved",
        "--new-query-id", "--json",
    )  # fmt: skip

    assert refused.status == 1
    assert "$.value.sum  sum(n) -> sum(length(k))  the column is computed" in refused.stderr
    query, (operator,) = converted.data["query"], converted.data["plan"]["operators"]
    assert (converted.status, query["known_from"], query["has_new_id"]) == (0, "the old code", True)
    (finding,) = operator["states"][0]["findings"]
    assert (finding["path"], finding["reason"]) == ("$.value.sum", "it is converted by queries.halved")


@pytest.mark.parametrize(
    ("more", "status", "told"),
    [
        (["--query", "queries:same", "--like", "spark:x"], 2, "either --query MODULE:FUNCTION, or --like"),
        (["--like", f"spark:{place('checksums')}", "--was", "queries:same"], 2, "apply with --query"),
        (["--query", "queries:same", "--map", "x"], 2, "is not OLD:NEW"),
        (["--query", "queries:same", "--map", "0:3"], 1, "the new query has no operator 3"),
        (["--query", "queries:same", "--require-recording"], 1, "name the old code: --was MODULE:FUNCTION"),
        (["--query", "queries:same", "--convert-field", "0:value.sum=queries:none"], 2, "no function 'none'"),
    ],
)
def test_a_migration_for_a_query_that_is_called_wrongly_says_how(migrate, more, status, told):
    ran = migrate(*more)

    assert ran.status == status
    assert told in ran.stderr
