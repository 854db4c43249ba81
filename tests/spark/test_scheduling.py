"""How tasks are dealt to the cores of a session, and what its Java is told."""

from __future__ import annotations

import pytest

from stateshift.spark import scheduling
from stateshift.spark.migrate import migrate
from stateshift.state.migration.options import MigrationOptions
from stateshift.state.migration.tasks import CopyTask
from stateshift.state.savepoint.handles import RelativeFileHandle

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TELLING = """
from pathlib import Path
from pyspark import TaskContext
from stateshift import Job, Operator, ValueStateDescriptor

def told(count):
    (Path({folder!r}) / str(TaskContext.get().partitionId())).touch()
    return str(count)

job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=told)])])
"""


@pytest.mark.parametrize(("least_bytes", "per_core"), [(None, 1), (1, 2)], ids=["little", "much"])
def test_each_core_has_a_bundle_or_two_where_there_is_much(
    spark, counts, load, tmp_path, monkeypatch, least_bytes, per_core
):
    if least_bytes is not None:
        monkeypatch.setattr(scheduling, "_LEAST_BUNDLE_BYTES", least_bytes)
    folder = tmp_path / "bundles"
    folder.mkdir()
    job = load("telling", telling=TELLING.format(folder=str(folder))).job

    migrate(counts(400), tmp_path / "new", job, MigrationOptions(parallelism=16), session=spark)

    cores = spark.sparkContext.defaultParallelism
    assert {str(number) for number in range(cores * per_core)} == {file.name for file in folder.iterdir()}


@pytest.mark.parametrize(
    ("sizes", "cores", "is_even"),
    [
        ([10], 1, True),
        ([10], 2, False),
        ([10, 9], 2, True),
        ([10, 1, 1], 2, False),  # the largest goes on when all others are done
        ([10] * 16, 2, True),
        ([10] * 16, 32, False),
        ([0], 1, True),
    ],
)
def test_tasks_are_one_of_many_where_no_core_is_left_with_one(sizes, cores, is_even):
    tasks = [CopyTask("operator", str(size), RelativeFileHandle("file", size)) for size in sizes]

    assert is_even == scheduling._are_even(tasks, cores)


JAVA = """
import os, sys
os.environ.pop("SPARK_SUBMIT_OPTS")
from pyspark import SparkContext
from stateshift import Int32, Job, Operator, ValueStateDescriptor
from stateshift.compat.repartition import Repartition
from stateshift.spark.migrate import migrate
from stateshift.state.migration.options import MigrationOptions

found = set()

def look(progress):
    context = SparkContext._active_spark_context
    if context is not None and progress.phase != "publishing":
        java = context._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
        found.update(java.getInputArguments())

repartition = Repartition(max_parallelism=64) if sys.argv[1] == "anew" else None
states = [ValueStateDescriptor("count", int if repartition else str, converter=None if repartition else str)]
job = Job([Operator("counter", key=int, states=states)])
options = MigrationOptions(repartition=repartition)
migrate(*sys.argv[2:4], job, options, master="local[1,4]", progress=look)
print(len(found) > 0, "-XX:TieredStopAtLevel=1" in found)
"""


@pytest.mark.parametrize(("keys", "is_quick"), [("same", True), ("anew", False)])
def test_java_that_only_schedules_takes_no_time_for_its_better_compiler(start_python, counts, tmp_path, keys, is_quick):
    process = start_python(JAVA, keys, counts(100), tmp_path / "new")
    printed = process.communicate(timeout=300)

    assert (f"True {is_quick}\n", "") == printed
