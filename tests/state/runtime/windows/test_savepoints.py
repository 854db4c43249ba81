"""Savepoints of Flink's window operators go on here with Flink's results, and come back as they were."""

from __future__ import annotations

from datetime import timedelta

import pytest
from live_backends import BACKENDS
from window_jobs import FIXTURES, OPERATIONS, PAIR, Jobs, add, contents, of_flink, tagged

from stateshift import (
    Decision,
    Int32,
    Job,
    Operator,
    ProcessWindowFunction,
    Savepoint,
    TumblingEventTimeWindows,
    WindowedStream,
    check,
)
from stateshift.state.testing import HarnessSnapshot, KeyedProcessHarness, TaskInfo

SAVEPOINTS = ["hashmap-p2", "rocksdb-p1"]


@pytest.fixture(params=SAVEPOINTS)
def of_java(request):
    return Savepoint.open(FIXTURES / request.param / "savepoint")


@pytest.fixture(params=BACKENDS)
def backend(request):
    return BACKENDS[request.param]


def test_without_a_savepoint_the_results_are_those_of_flink(backend):
    jobs = Jobs(backend=backend)

    assert of_flink("before") == jobs.run("before.txt")


def test_a_savepoint_of_flink_goes_on_with_the_results_of_flink(of_java, backend):
    jobs = Jobs(backend=backend)
    jobs.restore(of_java)

    assert of_flink("after") == jobs.run("after.txt", end=True)


@pytest.mark.parametrize("uid", OPERATIONS)
def test_what_was_not_changed_is_written_back_byte_for_byte(of_java, backend, uid, tmp_path):
    jobs = Jobs(backend=backend)
    jobs.restore(of_java)

    assert contents(of_java, uid) == contents(Savepoint.open(jobs.write(tmp_path / "savepoint")), uid)


@pytest.mark.parametrize("uid", sorted(OPERATIONS.keys() - {"lists"}))
def test_the_same_events_leave_the_state_that_flink_has(of_java, backend, uid, tmp_path):
    """Where sessions have gaps of their own, it is chance under which merged window Flink keeps the contents."""
    jobs = Jobs(backend=backend)
    jobs.run("before.txt")
    expected = contents(of_java, uid)

    assert expected == contents(Savepoint.open(jobs.write(tmp_path / "savepoint")), uid)


def test_a_restore_in_the_midst_of_sessions_changes_nothing(backend, tmp_path):
    whole, parts = Jobs(backend=backend), Jobs(backend=backend)
    before = parts.run("before.txt")
    parts.restore(Savepoint.open(parts.write(tmp_path / "savepoint")))

    assert before == parts.results()
    assert whole.run("before.txt", "after.txt", end=True) == parts.run("after.txt", end=True)


def test_a_check_takes_the_states_that_an_operation_names(of_java):
    job = Job([Operator(uid, key=Int32, states=one.states, timers=one.timers) for uid, one in OPERATIONS.items()])
    report = check(of_java.describe(), job.describe())
    found = {(operator.uid, state.name): state.decision for operator, state in report.states()}
    named = {(uid, state.name) for uid, one in OPERATIONS.items() for state in one.states}

    assert named <= found.keys()
    assert {Decision.START} == {found[place] for place in named}


class Contents(ProcessWindowFunction):
    """Yields a row of `expected.json`."""

    def __init__(self, *, is_list):
        self.is_list = is_list

    def process(self, key, context, elements):
        values = [tagged(one) for one in elements]
        window = context.window()
        yield [key, {"$window": [window.start, window.end]}, values if self.is_list else values[0]]


@pytest.mark.parametrize("uid", ["window-reduce", "window-list"])
@pytest.mark.parametrize("name", ["hashmap-windows-p2-m128", "rocksdb-windows-p1-m200"])
def test_each_window_of_a_java_job_fires_once_with_what_it_had(savepoint_of, expected_of, backend, name, uid):
    savepoint = Savepoint.open(savepoint_of(name))
    (expected,) = (one for one in expected_of(name)["operators"] if one["uid"] == uid)
    rows = expected["keyed"]["window-contents"]["entries"]
    tens = WindowedStream(TumblingEventTimeWindows.of(timedelta(seconds=10)), PAIR)
    is_list = uid == "window-list"
    operation = tens.process(Contents(is_list=True)) if is_list else tens.reduce(add, Contents(is_list=False))
    task = TaskInfo(max_parallelism=savepoint.operator(uid).stored.max_parallelism)
    harness = KeyedProcessHarness(operation, lambda pair: f"w{pair[0]}", str, backend=backend, task=task)
    harness.restore(HarnessSnapshot.of(savepoint, uid))
    ends = sorted({row[1]["$window"][1] for row in rows})
    for end in ends:
        harness.process_watermark(end - 2)
        assert [] == harness.take()
        harness.process_watermark(end - 1)
        assert [row for row in rows if row[1]["$window"][1] == end] == sorted(harness.take(), key=str)
    assert rows
