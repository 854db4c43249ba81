"""Who carries out a run: this process, or Spark where that is done sooner with its start."""

from __future__ import annotations

import attrs
import pytest

from stateshift import (
    BigInt,
    Int32,
    Job,
    MigrationOptions,
    Operator,
    Repartition,
    Savepoint,
    SavepointWriter,
    ValueStateDescriptor,
)
from stateshift.state.migration import estimate as estimating
from stateshift.state.migration.engine import SPARK_START_S, Engine, choose_engine, seconds_on_spark
from stateshift.state.migration.estimate import estimate
from stateshift.state.migration.preparation import prepare
from stateshift.state.runner import READING_BYTES
from stateshift.state.storage.files import Folder
from stateshift.state.transcode import executor_choice as choice


def job_of(value):
    return Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", value)])])


@pytest.fixture
def savepoint(tmp_path):
    with SavepointWriter(tmp_path / "counts", job_of(int)) as writer:
        for key in range(3_000):
            writer.put("counter", "count", key, key)
    return Savepoint.open(tmp_path / "counts")


def grown(tasks, size):
    """The tasks, of streams that have another size."""
    return [
        attrs.evolve(
            task, handles=tuple(attrs.evolve(h, stream=attrs.evolve(h.stream, size=size)) for h in task.handles)
        )
        for task in tasks
    ]


@pytest.mark.parametrize("cores", [1, 2, 4, 64])
@pytest.mark.parametrize("seconds", [0.1, 5.0, 7.0, 11.0, 13.0, 100.0])
def test_the_faster_engine_carries_out_a_run(savepoint, seconds, cores):
    tasks = prepare(savepoint, job_of(BigInt), MigrationOptions()).tasks
    sooner = Engine.SPARK if seconds_on_spark(seconds, cores) < seconds else Engine.PROCESS

    assert choose_engine(tasks, seconds, cores) is sooner
    assert choose_engine(tasks, seconds, cores, with_spark=True) is Engine.SPARK


def test_spark_counts_with_its_start():
    assert seconds_on_spark(0.0, 4) == SPARK_START_S
    assert seconds_on_spark(8.0, 4) == SPARK_START_S + 2.0


def test_files_are_copied_here_whatever_their_size_and_the_engine(savepoint):
    tasks = prepare(savepoint, job_of(int), MigrationOptions()).tasks

    assert choose_engine(tasks, 3600.0, 2, with_spark=True) is Engine.PROCESS


def test_many_rewritten_keys_are_sorted_by_spark(savepoint):
    repartition = Repartition(max_parallelism={"counter": 200})
    tasks = prepare(savepoint, job_of(int), MigrationOptions(repartition=repartition)).tasks

    assert choose_engine(tasks, 1.0, 2) is Engine.PROCESS
    assert choose_engine(grown(tasks, READING_BYTES + len(tasks)), 1.0, 2) is Engine.SPARK


@pytest.mark.parametrize("change", ["by a converter", "by the serializers"])
def test_the_estimate_has_the_faster_engine_and_its_time(savepoint, tmp_path, change):
    job = job_of(BigInt)
    if change == "by a converter":
        descriptor = ValueStateDescriptor("count", str, converter=str)
        job = Job([Operator("counter", key=int, states=[descriptor])])
    tasks, target = prepare(savepoint, job, MigrationOptions()).tasks, Folder.at(tmp_path / "new")

    little = estimate(tasks, savepoint.folder, target, 3)
    much = estimate(3 * grown(tasks, 10 << 30), savepoint.folder, target, 3)
    named = estimate(tasks, savepoint.folder, target, 3, with_spark=True)

    assert [(Engine.PROCESS, 1), (Engine.SPARK, 3), (Engine.SPARK, 3)] == [
        (one.engine, one.cores) for one in (little, much, named)
    ]
    assert little.seconds < SPARK_START_S < named.seconds < much.seconds


def test_one_long_task_is_not_divided_by_spark(savepoint, tmp_path):
    tasks, target = prepare(savepoint, job_of(BigInt), MigrationOptions()).tasks, Folder.at(tmp_path / "new")

    (one,) = tasks
    assert Engine.PROCESS is estimate(grown([one], 30 << 30), savepoint.folder, target, 3).engine
    assert seconds_on_spark(8.0, 4, longest=5.0) == SPARK_START_S + 5.0


def test_twenty_million_small_entries_are_done_before_two_cores_of_spark_would_be(savepoint, tmp_path):
    tasks = prepare(savepoint, job_of(BigInt), MigrationOptions()).tasks

    expected = estimate(grown(tasks, 1_400_000_000 // len(tasks) + 1), savepoint.folder, Folder.at(tmp_path / "new"), 2)

    assert expected.bytes_to_read >= 1_400_000_000
    assert expected.engine is Engine.PROCESS


def test_what_goes_by_blocks_is_timed_in_blocks_as_large_as_in_a_run(tmp_path, monkeypatch):
    def job(item):
        return Job([Operator("o", key=int, states=[ValueStateDescriptor(name, item) for name in ("many", "few")])])

    with SavepointWriter(tmp_path / "old", job(Int32), max_parallelism=1) as writer:
        for key in range(12_000):
            writer.put("o", "many", key, key)
        writer.put("o", "few", 1, 1)
    source = Savepoint.open(tmp_path / "old")
    monkeypatch.setenv(choice.VARIABLE, "numba")
    seen, rewritten = {}, estimating._rewritten
    monkeypatch.setattr(
        estimating,
        "_rewritten",
        lambda rewriter, block: seen.setdefault(block.state_id, []).append(block.entries) or rewritten(rewriter, block),
    )

    estimate(prepare(source, job(int), MigrationOptions()).tasks, source.folder, Folder.at(tmp_path / "new"), 2)

    assert {(500, 12_000), (1, 1)} == {tuple(entries) for entries in seen.values()}
