"""How tasks are distributed to the cores of a session, and the options of its Java."""

from __future__ import annotations

import pytest

from stateshift import Int16, Int32, Job, MigrationOptions, Operator, SavepointWriter, ValueStateDescriptor, migrate
from stateshift.spark import migration_tasks as scheduling
from stateshift.state.formats.flink.handles import RelativeFileHandle
from stateshift.state.migration.tasks import CopyTask

pytestmark = pytest.mark.slow


def job_of(state):
    return Job([Operator("counter", key=int, states=[state])])


@pytest.mark.parametrize(
    ("least_bytes", "state", "per_core"),
    [
        (None, ValueStateDescriptor("count", Int32), 1),
        (1, ValueStateDescriptor("count", Int32), 2),
        (None, ValueStateDescriptor("count", str, converter=str), 2),
    ],
    ids=["little", "much", "by code of the user's"],
)
def test_each_core_has_a_bundle_or_two(spark, tmp_path, monkeypatch, least_bytes, state, per_core):
    if least_bytes is not None:
        monkeypatch.setattr(scheduling, "_LEAST_BUNDLE_BYTES", least_bytes)
    with SavepointWriter(tmp_path / "old", job_of(ValueStateDescriptor("count", Int16))) as writer:
        for key in range(100):
            writer.put("counter", "count", key, key)

    migrate(tmp_path / "old", tmp_path / "new", job_of(state), MigrationOptions(parallelism=16), session=spark)

    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = [job for job in map(jobs.apply, range(jobs.length())) if str(tmp_path) in str(job.description())]
    assert [spark.sparkContext.defaultParallelism * per_core] == [job.numTasks() for job in found]


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
os.environ["SPARK_SUBMIT_OPTS"] = os.environ["SPARK_SUBMIT_OPTS"].replace("-XX:TieredStopAtLevel=1", "")
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
