"""How far a run is, by what its tasks have put into the journal."""

from __future__ import annotations

import shutil

import attrs
import pytest

from stateshift import Job, Operator, Progress, Savepoint, SavepointWriter, ValueStateDescriptor, check
from stateshift.compat.planner import plan
from stateshift.state.migration import progress
from stateshift.state.migration.in_process import carry_out_here
from stateshift.state.migration.journal import Journal
from stateshift.state.migration.progress import RunMeter, Stopwatch
from stateshift.state.migration.rescale import reshape
from stateshift.state.migration.run import split
from stateshift.state.migration.run_task import perform
from stateshift.state.storage.files import Folder
from stateshift.state.transcode.choice import ExecutorName


@pytest.fixture
def run(tmp_path):
    """Source, tasks and journal of a run in four streams."""
    counts = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", int)])])
    with SavepointWriter(tmp_path / "counts", counts) as writer:
        for key in range(4_000):
            writer.put("counter", "count", key, key)
    savepoint = Savepoint.open(tmp_path / "counts")
    job = Job([Operator("counter", key=int, states=[ValueStateDescriptor("count", str, converter=str)])])
    tasks = split(savepoint, reshape(savepoint, plan(check(savepoint.describe(), job.describe())), parallelism=4))
    target = Folder.at(tmp_path / "target")
    target.create()
    return savepoint.folder, tasks, Journal(target, "this run")


def test_streams_entries_and_bytes_are_those_in_the_journal(run, monkeypatch):
    monkeypatch.setattr(progress, "_LOCAL_LOOK_S", 0.0)
    source, tasks, journal = run
    told = []
    meter = RunMeter("migrating", tasks, journal, told.append)
    results = [perform(task, source, journal.folder) for task in tasks]
    attrs.evolve(journal, run="another run").record(results[0])
    meter.look()
    for result in results[1:3]:
        journal.record(result)
    meter.look()
    meter.look()
    meter.add(results)

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
    monkeypatch.setattr(progress, "_LOCAL_LOOK_S", 0.0)
    _, tasks, journal = run
    told = []
    meter = RunMeter("migrating", tasks, journal, told.append)
    shutil.rmtree(journal.folder.place)

    meter.look()

    assert len(told) == 1


def test_a_stopwatch_hands_on_and_takes_the_time_of_each_phase(monkeypatch):
    told, now = [], iter([10.0, 13.0, 21.0, 21.5])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    steps = [Progress("starting Spark", 0, 1), Progress("migrating", 0, 2), Progress("migrating", 2, 2)]
    stopwatch = Stopwatch(told.append)

    for step in [*steps, Progress("publishing", 0, 1)]:
        stopwatch(step)

    assert told[:3] == steps
    assert stopwatch.stopped() == {"starting Spark": 3.0, "migrating": 8.0, "publishing": 0.5}


def test_a_stopwatch_that_heard_of_nothing_has_no_phase():
    assert Stopwatch(print).stopped() == {}


@pytest.mark.parametrize("executor", list(ExecutorName))
def test_within_one_stream_bytes_are_told_too(tmp_path, monkeypatch, executor):
    monkeypatch.setattr(progress, "_TELL_EVERY_S", 0.0)
    job = Job([Operator("texts", key=int, states=[ValueStateDescriptor("text", str)])])
    wider = Job([Operator("texts", key=int, states=[ValueStateDescriptor("text", str | None)])])
    with SavepointWriter(tmp_path / "texts", job) as writer:
        for key in range(4_000):
            writer.put("texts", "text", key, "text" * 500)
    savepoint = Savepoint.open(tmp_path / "texts")
    (task,) = split(savepoint, plan(check(savepoint.describe(), wider.describe())))
    target = Folder.at(tmp_path / "target")
    target.create()
    told = []

    carry_out_here([task], savepoint.folder, Journal(target, "this run"), executor, told.append)

    within = [step.bytes_done for step in told if step.done == 0 and step.bytes_done]
    assert within == sorted(within)
    assert len(within) > 1
    assert within[-1] <= task.size_bytes
    assert (1, task.size_bytes) == (told[-1].done, told[-1].bytes_done)
