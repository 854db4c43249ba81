"""Entries and bytes among the metrics of Spark."""

from __future__ import annotations

import attrs
import pytest

from stateshift import Progress, migrate
from stateshift.spark.bundles import accumulators_of, counted


def counts_of(context):
    """The values of the accumulators; `test_cluster` tests that Spark's pages show them."""
    return {name: found.value() for name, found in accumulators_of(context).items()}


@pytest.fixture
def context(spark):
    return spark.sparkContext


def test_what_runs_have_read_is_counted_as_it_is_done(context):
    told, before = [], counts_of(context)
    steps = [Progress("migrating", 0, 2), Progress("migrating", 1, 2, 10, 800), Progress("migrating", 2, 2, 25, 1000)]
    tell = counted(context, told.append)
    for step in steps[:2]:
        tell(step)
    between = counts_of(context)
    tell(steps[2])
    counted(context, told.append)(attrs.evolve(steps[1], entries=5))

    assert [*steps, attrs.evolve(steps[1], entries=5)] == told
    assert [10, 800] == [between[name] - before[name] for name in before]
    assert [30, 1800] == [counts_of(context)[name] - before[name] for name in before]


def test_a_migration_is_counted(spark, context, savepoint_of, account_jobs, tmp_path):
    before = counts_of(context)

    report = migrate(savepoint_of("rocksdb-account-v1"), tmp_path / "new", account_jobs[3], session=spark)

    assert [60, report.bytes_read] == [found - before[name] for name, found in counts_of(context).items()]


def test_a_platform_that_keeps_its_jvm_to_itself_holds_nothing_up():
    class Closed:
        """A context without a JVM."""

    told = []
    counted(Closed(), told.append)(Progress("migrating", 0, 2))

    assert [Progress("migrating", 0, 2)] == told
