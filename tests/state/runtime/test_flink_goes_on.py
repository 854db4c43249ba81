"""A function goes on with the state that a job of real Flink left, in every format and at every parallelism."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from a_few import a_few
from live_backends import BACKENDS

from stateshift import (
    AggregateFunction,
    AggregatingStateDescriptor,
    CheckpointedFunction,
    KeyedBroadcastProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Savepoint,
    StateTtlConfig,
    ValueStateDescriptor,
)
from stateshift.state.testing import BroadcastHarness, HarnessSnapshot, ProcessHarness, TaskInfo, snapshot_together

FIXTURES = Path(__file__).parents[2] / "fixtures"
JOBS = [
    "flink-2.3/hashmap-long-p2-m128-snappy", "flink-2.3/rocksdb-long-p2-m200-files",
    "flink-2.3/hashmap-native-long-p2-m128", "flink-2.3-native/rocksdb-native-long-p2-m200",
]  # fmt: skip
JOB = pytest.mark.parametrize("job", JOBS)
TTL = StateTtlConfig.new_builder(timedelta(days=365_000)).build()
RULES = MapStateDescriptor("rules", str, int)


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class GoesOn(KeyedBroadcastProcessFunction):
    """Has most of the states of the Java job."""

    def open(self, runtime_context):
        get = runtime_context
        self.states = {
            "count": get.get_state(ValueStateDescriptor("count", int)),
            "note": get.get_state(ValueStateDescriptor("note", str)),
            "session": get.get_state(ValueStateDescriptor("session", int, time_to_live=TTL)),
            "events": get.get_list_state(ListStateDescriptor("events", str)),
            "counts": get.get_map_state(MapStateDescriptor("counts", str, int)),
            "labels": get.get_map_state(MapStateDescriptor("labels", str, str | None)),
            "total": get.get_reducing_state(ReducingStateDescriptor("total", lambda one, other: one + other, int)),
            "average": get.get_aggregating_state(AggregatingStateDescriptor("average", Mean(), tuple[int, int])),
        }

    def process_element(self, value, ctx):
        yield {name: self.read(name) for name in self.states}, dict(ctx.get_broadcast_state(RULES).items())
        self.states["count"].update(7)
        self.states["events"].add("new")
        self.states["total"].add(1)

    def read(self, name):
        state = self.states[name]
        if hasattr(state, "items"):
            return dict(state.items())
        return state.value() if hasattr(state, "value") else state.get()

    def process_broadcast_element(self, value, ctx):
        return None

    def on_timer(self, timestamp, ctx):
        yield ctx.time_domain().name, ctx.get_current_key(), timestamp


def plain(value):
    """A value of expected.json as our states have it."""
    if isinstance(value, dict):
        (tag, content), *_ = value.items()
        return dict(content) if tag == "$map" else tuple(content)
    return value


def stored(job, uid):
    place = FIXTURES / job
    savepoint = Savepoint.open(place / "savepoint")
    operators = json.loads((place / "expected.json").read_text(encoding="utf-8"))["operators"]
    return HarnessSnapshot.of(savepoint, uid), next(operator for operator in operators if operator["uid"] == uid)


def expected_states(operator):
    """What each key has, by state; where a key has nothing, that is read."""
    names = ["count", "note", "session", "events", "counts", "labels", "total", "average"]
    nothing = {"events": [], "counts": {}, "labels": {}}
    found = {name: {entry[0]: plain(entry[1]) for entry in operator["keyed"][name]["entries"]} for name in names}
    keys = {key for entries in found.values() for key in entries}
    return {key: {name: found[name].get(key, nothing.get(name)) for name in names} for key in keys}


@JOB
@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
@pytest.mark.parametrize("parallelism", a_few([2, 1, 3]))
def test_keyed_and_broadcast_state_and_timers_of_a_java_job(job, backend, parallelism):
    snapshot, operator = stored(job, "keyed-op")
    groups = snapshot.stored.max_parallelism
    tasks = [TaskInfo(index=i, parallelism=parallelism, max_parallelism=groups) for i in range(parallelism)]
    harnesses = [BroadcastHarness(GoesOn(), int, int, backend=backend, task=task) for task in tasks]
    expected, rules = expected_states(operator), plain(operator["broadcast"]["rules"][0])
    fired = {(domain, row[0], row[-1]) for domain, rows in operator["timers"].items() for row in rows}

    def run(keys):
        found, timers = {}, set()
        for harness in harnesses:
            for key in keys:
                try:
                    harness.process_element(key)
                except ValueError:  # of another subtask
                    continue
                found[key], seen = harness.take()[0]
                assert rules == seen
            harness.process_watermark1(1 << 62)
            harness.process_watermark2(1 << 62)
            harness.advance_processing_time(1 << 43)
            timers |= {(domain.partition("_")[0].lower(), key, time) for domain, key, time in harness.take()}
        return found, timers

    for harness in harnesses:
        harness.restore(snapshot)
    assert (expected, fired) == run(expected)
    taken = snapshot_together(harnesses)
    for harness in harnesses:
        harness.restore(taken)
    after = {
        key: {**states, "count": 7, "events": [*states["events"], "new"], "total": (states["total"] or 0) + 1}
        for key, states in expected.items()
    }
    assert (after, set()) == run(expected)


class Lists(MapFunction, CheckpointedFunction):
    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.offsets = store.get_list_state(ListStateDescriptor("offsets", tuple[str, int]))
        self.known = store.get_union_list_state(ListStateDescriptor("known", str))

    def snapshot_state(self, context):
        pass

    def map(self, value):
        return value


@JOB
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_operator_state_of_a_java_job(job, parallelism):
    snapshot, operator = stored(job, "list-op")
    groups = snapshot.stored.max_parallelism
    tasks = [TaskInfo(index=i, parallelism=parallelism, max_parallelism=groups) for i in range(parallelism)]
    harnesses = [ProcessHarness(Lists(), task=task) for task in tasks]
    for harness in harnesses:
        harness.restore(snapshot)
    offsets = [plain(item) for subtask in operator["operator"]["offsets"]["subtasks"] for item in subtask]
    known = [item for subtask in operator["operator"]["known"]["subtasks"] for item in subtask]
    found = [harness._function.offsets.get() for harness in harnesses]

    assert sorted(offsets) == sorted(item for part in found for item in part)
    assert max(map(len, found)) - min(map(len, found)) <= 1
    assert [known] * parallelism == [harness._function.known.get() for harness in harnesses]
