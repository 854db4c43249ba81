"""The queries of a repository against their descriptions in it, in one session, without a checkpoint."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from stateshift.compat.gate.losses import Guard
from stateshift.compat.gate.recorded_queries import query_text
from stateshift.serializers.compatibility import Decision
from stateshift.serializers.errors import CorruptFile, DeclarationError, JobNotFound
from stateshift.spark.queries.gate import QueryGate

SETTINGS = '[tool.stateshift.queries]\nclicks = "clicks:build_query"\n'
CLICKS = """
from pyspark.sql import SparkSession, functions as F

def rows(spark):
    return spark.readStream.schema("k string, n int, w int, at timestamp").json(".")

def build_query(spark):
    return rows(spark).groupBy("k").agg(F.sum("{column}").alias("{alias}")).writeStream.outputMode("update")

def by_day():
    spark = SparkSession.getActiveSession()
    return rows(spark).groupBy(F.to_date("at")).count()

def of_its_own_settings(spark):
    spark.conf.set("spark.sql.streaming.aggregation.stateFormatVersion", "1")
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    return rows(spark).groupBy("k").count()
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """`project(SETTINGS, column="w")`: a repository; its modules are loaded anew each time."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # two texts of one length within a second are one to Python

    def write(settings=SETTINGS, column="n", alias="total"):
        (tmp_path / "pyproject.toml").write_text(settings)
        (tmp_path / "clicks.py").write_text(CLICKS.format(column=column, alias=alias))
        sys.modules.pop("clicks", None)
        return QueryGate.find(tmp_path)

    yield write
    sys.modules.pop("clicks", None)


@pytest.fixture
def recorded(project, stateshift_spark):
    """`recorded(SETTINGS)`: the same, with descriptions of the queries as they are."""

    def write(*args, **given):
        gate = project(*args, **given)
        for name in gate.places:
            gate.file(name).parent.mkdir(parents=True, exist_ok=True)
            gate.file(name).write_text(query_text(gate.describe(name, stateshift_spark)))
        return gate

    return write


@pytest.mark.slow
def test_an_unchanged_query_starts_and_another_column_is_found(recorded, project, stateshift_spark):
    recorded()

    (same,) = project().check(stateshift_spark).checks
    (renamed,) = project(alias="other").check(stateshift_spark).checks
    (changed,) = project(column="w").check(stateshift_spark).checks

    assert changed.gate.passes
    assert (changed.decision, same.decision) == (Decision.MIGRATE, Decision.START)
    assert (same.name, same.report.decision, same.drift) == ("clicks", Decision.START, "")
    assert (renamed.report.decision, renamed.drift) == (Decision.START, "")
    assert [(one.rule, one.old, one.new) for one in changed.report.all_findings()] == [("SPK-10", "sum(n)", "sum(w)")]
    assert changed.drift == "differs from state_history/queries/clicks.json"
    assert changed.report.is_whole
    assert list(same.report.all_findings()) == []


def test_rules_may_be_accepted_and_the_query_then_differs_from_its_description(recorded, project, stateshift_spark):
    recorded()

    (changed,) = project(column="w").check(stateshift_spark, guard=Guard(accept=("SPK-10",))).checks

    assert (changed.report.decision, bool(changed.drift)) == (Decision.START, True)


@pytest.mark.slow
def test_settings_of_a_query_reach_neither_another_one_nor_the_session(recorded, stateshift_spark):
    before = stateshift_spark.conf.getAll

    gate = recorded('[tool.stateshift.queries]\nown = "clicks:of_its_own_settings"\nclicks = "clicks:build_query"\n')

    stored = gate.stored()
    version = "spark.sql.streaming.aggregation.stateFormatVersion"
    assert (stored["own"].settings[version], stored["clicks"].settings[version]) == ("1", "2")
    assert stateshift_spark.conf.getAll == before
    assert [one.drift for one in gate.check(stateshift_spark).checks] == ["", ""]


def test_a_query_is_planned_in_the_time_zone_of_its_description(recorded, stateshift_spark):
    zone = "spark.sql.session.timeZone"
    before = stateshift_spark.conf.get(zone)
    stateshift_spark.conf.set(zone, "Asia/Tokyo")
    try:
        gate = recorded('[tool.stateshift.queries]\ndays = "clicks:by_day"\n')
    finally:
        stateshift_spark.conf.set(zone, before)

    (again,) = gate.check(stateshift_spark).checks

    assert "Asia/Tokyo" in gate.file("days").read_text()
    assert (again.report.decision, again.drift) == (Decision.START, "")


def test_a_query_without_a_description_says_what_to_run(project):
    with pytest.raises(DeclarationError, match="'clicks' has no description") as missing:
        project().stored()

    assert "stateshift snapshot --queries" in missing.value.advice


def test_a_description_of_no_listed_query_is_not_left_out_silently(recorded, project):
    recorded()

    with pytest.raises(DeclarationError, match=r"state_history/queries/clicks\.json is of no listed query"):
        project('[tool.stateshift.queries]\nrenamed = "clicks:build_query"\n').stored()


@pytest.mark.parametrize("damage", ["{}", "not json", "edited"])
def test_a_damaged_description_is_an_error_with_its_file(recorded, damage):
    gate = recorded()
    text = gate.file("clicks").read_text().replace("sum(n)", "sum(w)") if damage == "edited" else damage
    gate.file("clicks").write_text(text)

    with pytest.raises(CorruptFile) as damaged:
        gate.stored()

    assert damaged.value.where["file"] == "state_history/queries/clicks.json"


def test_a_function_that_is_not_there_is_named_with_the_file_that_lists_it(project, stateshift_spark):
    gate = project('[tool.stateshift.queries]\nclicks = "clicks:missing"\n')

    with pytest.raises(JobNotFound, match="clicks has no attribute 'missing'") as missing:
        gate.describe("clicks", stateshift_spark)

    assert missing.value.where["file"].endswith("pyproject.toml")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "lists no queries"),
        ("[tool.stateshift]\nqueries = []\n", "should be a table"),
        ("[tool.stateshift]\nqueries = {}\n", "lists no queries"),
        ("[tool.stateshift]\nqueries = { clicks = 1 }\n", "should be MODULE:FUNCTION"),
        ('[tool.stateshift.queries]\n"../clicks" = "clicks:build_query"\n', "not a name for a query"),
    ],
)
def test_settings_that_name_no_queries_are_refused(project, text, told):
    with pytest.raises(DeclarationError, match=told):
        project(text)


@pytest.mark.slow
def test_a_test_of_the_repository_fails_with_what_is_found(recorded, project, tmp_path):
    (tmp_path / "test_queries.py").write_text(
        "def test_queries(stateshift_queries):\n    stateshift_queries.assert_start()\n\n\n"
        "def test_names(stateshift_queries):\n    assert list(stateshift_queries.reports) == ['clicks']\n"
    )
    recorded()
    project(column="w")

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert re.search(r"clicks: migrate: operator 0 .*sum\(n\) -> sum\(w\)", done.stdout)
    assert "stateshift snapshot --queries" in done.stdout
