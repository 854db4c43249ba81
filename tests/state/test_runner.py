"""Works that run in this process, and how far they are."""

from __future__ import annotations

import pytest
from any_runner import AnyRunner

from stateshift import Job, Operator, Progress, Savepoint, SavepointWriter, ValueStateDescriptor, check
from stateshift.compat.planner import plan
from stateshift.state import progress
from stateshift.state.migration.journal import Journal
from stateshift.state.migration.run import split
from stateshift.state.migration.run_task import works_of
from stateshift.state.progress import Stopwatch
from stateshift.state.runner import InProcess
from stateshift.state.storage.files import Folder
from stateshift.state.transcode.executor_choice import VARIABLE, ExecutorName


class TestThisProcess(AnyRunner):
    who = "the run"

    @pytest.fixture(params=[1, 3], ids=["one after the other", "in threads"])
    def runner(self, request):
        return InProcess(request.param)


def test_a_stopwatch_hands_on_and_takes_the_time_of_each_phase(monkeypatch):
    told, now = [], iter([9.0, 10.0, 13.0, 21.0, 21.5])
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
    monkeypatch.setattr(progress, "_TOLD_EACH_S", 0.0)
    monkeypatch.setenv(VARIABLE, executor)
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

    InProcess().run(works_of([task], savepoint.folder, Journal(target, "this run")), told.append)

    within = [step.bytes_done for step in told if step.done == 0 and step.bytes_done]
    assert within == sorted(within)
    assert len(within) > 1
    assert within[-1] <= task.size_bytes
    assert (1, task.size_bytes) == (told[-1].done, told[-1].bytes_done)
