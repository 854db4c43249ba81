"""Works that run on Spark: how tasks are distributed to its cores, how far they are, and the options of its Java."""

from __future__ import annotations

import shutil

import attrs
import pytest
from any_runner import AnyRunner

from stateshift import (
    Int16,
    Int32,
    Job,
    MigrationOptions,
    Operator,
    Savepoint,
    SavepointWriter,
    ValueStateDescriptor,
    check,
    migrate,
)
from stateshift.compat.planner import plan
from stateshift.spark import bundles
from stateshift.spark.bundles import BundleMeter
from stateshift.spark.runner import SparkRunner
from stateshift.state.formats.flink.handles import RelativeFileHandle
from stateshift.state.migration import run_task
from stateshift.state.migration.journal import Journal
from stateshift.state.migration.rescale import reshape
from stateshift.state.migration.run import split
from stateshift.state.migration.run_task import perform, works_of
from stateshift.state.migration.tasks import CopyTask
from stateshift.state.runner import are_even
from stateshift.state.storage.files import Folder


def job_of(state):
    return Job([Operator("counter", key=int, states=[state])])


@pytest.mark.slow
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
        monkeypatch.setattr(run_task, "_LEAST_BUNDLE_BYTES", least_bytes)
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

    assert is_even == are_even(tasks, cores)


class TestSpark(AnyRunner):
    @pytest.fixture
    def runner(self, spark):
        return SparkRunner(spark, None, ())


@pytest.fixture
def run(tmp_path):
    """The work of a run in four streams."""
    counts = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", int)])])
    with SavepointWriter(tmp_path / "counts", counts) as writer:
        for key in range(4_000):
            writer.put("counter", "count", key, key)
    savepoint = Savepoint.open(tmp_path / "counts")
    job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=str)])])
    tasks = split(savepoint, reshape(savepoint, plan(check(savepoint.describe(), job.describe())), parallelism=4))
    target = Folder.at(tmp_path / "target")
    target.create()
    (work,) = works_of(tasks, savepoint.folder, Journal(target, "this run"))
    return work


def test_streams_entries_and_bytes_are_those_in_the_journal(run, monkeypatch):
    monkeypatch.setattr(bundles, "_LOCAL_LOOK_S", 0.0)
    work, told = run, []
    tasks, journal = work.tasks, work.journal
    meter = BundleMeter(work, 2, told.append)
    results = [perform(task, work.source, journal.folder) for task in tasks]
    attrs.evolve(journal, run="another run").record(results[0])
    meter.look(0)
    for result in results[1:3]:
        journal.record(result)
    meter.look(0)
    meter.look(0)
    meter.end(dict(enumerate(results)))

    read = [result.counts[0].read for result in results]
    sizes = [task.size_bytes for task in tasks]
    assert [(step.done, step.entries, step.bytes_done) for step in told] == [
        (0, 0, 0),
        (0, 0, 0),
        (2, sum(read[1:3]), sum(sizes[1:3])),
        (2, sum(read[1:3]), sum(sizes[1:3])),
        (4, 4_000, sum(sizes)),
    ]
    assert {(step.total, step.bytes_total) for step in told} == {(4, sum(sizes))}
    assert told[-1].seconds_left == 0.0
    assert told[2].seconds_left > 0


def test_a_store_that_does_not_answer_holds_nothing_up(run, monkeypatch):
    monkeypatch.setattr(bundles, "_LOCAL_LOOK_S", 0.0)
    told = []
    meter = BundleMeter(run, 2, told.append)
    shutil.rmtree(run.journal.folder.place)

    meter.look(0)

    assert {0} == {step.done for step in told}


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


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "is_quick"), [("same", True), ("anew", False)])
def test_java_that_only_schedules_takes_no_time_for_its_better_compiler(start_python, counts, tmp_path, keys, is_quick):
    process = start_python(JAVA, keys, counts(100), tmp_path / "new")
    printed = process.communicate(timeout=300)

    assert (f"True {is_quick}\n", "") == printed
