"""State under windows and under names: written, converted and checked like any other, with its namespace untouched."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateshift import (
    BigInt,
    Compression,
    Decision,
    GlobalWindow,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    ReducingStateDescriptor,
    Savepoint,
    SavepointWriter,
    TimeWindow,
    ValueStateDescriptor,
    check,
)
from stateshift.compat.description import StateKind
from stateshift.compat.plan import StateAction
from stateshift.compat.planner import plan
from stateshift.serializers.flink.namespaces import GLOBAL_WINDOW
from stateshift.state.savepoint.verify import Outcome, verify

NAMESPACED = ["hashmap-namespaced-p1-m128", "rocksdb-namespaced-p2-m200"]
WINDOWS = ["hashmap-windows-p2-m128", "rocksdb-windows-p1-m200"]


def failures(savepoint):
    return [check for check in verify(savepoint).checks if check.status is Outcome.FAILED]


def window_job(item):
    return Job(
        [
            Operator(
                "window-reduce",
                key=str,
                states=[ReducingStateDescriptor("window-contents", None, tuple[item, item], namespace=TimeWindow)],
            ),
            Operator(
                "window-list",
                key=str,
                states=[ListStateDescriptor("window-contents", tuple[item, item], namespace=TimeWindow)],
            ),
        ]
    )


@pytest.mark.parametrize("name", WINDOWS)
def test_the_contents_of_windows_are_converted(savepoint_of, migrate, contents, flink_read, tmp_path, name):
    source = savepoint_of(name)
    report = check(Savepoint.open(source).describe(), window_job(int).describe())
    found = migrate(source, tmp_path / "new", window_job(int), parallelism=3, compression=Compression.SNAPPY)

    assert Decision.MIGRATE == report.decision
    actions = {state.name: state.action for operator in plan(report).operators for state in operator.states}
    assert (StateAction.CONVERT, StateAction.COPY) == (
        actions["window-contents"],
        actions["_timer_state/event_window-timers"],
    )
    assert flink_read(source) == contents(found)  # an int and a long of one value are the same text
    types = {state.description.describe() for operator in found.operators for state in operator.states}
    assert {"tuple<long, long>", "list<tuple<long, long>>"} < types
    assert [] == failures(found)


def name_job(item, *, namespace=str, user_key=str):
    return Job(
        [
            Operator(
                "ns-op",
                key=str,
                states=[
                    ListStateDescriptor("ns-list", str, namespace=namespace),
                    MapStateDescriptor("ns-map", user_key, item, namespace=namespace),
                    ValueStateDescriptor("ns-value", BigInt, namespace=namespace),
                ],
            )
        ]
    )


@pytest.mark.parametrize("name", NAMESPACED)
def test_state_under_names_is_converted(savepoint_of, migrate, tmp_path, name):
    """Key and name both vary in length, so lengths come after both, and the user key after these."""
    source = savepoint_of(name)
    found = migrate(source, tmp_path / "new", name_job(int, user_key=bytes), parallelism=5)

    before = {state.name: state.description.describe() for state in Savepoint.open(source).operator("ns-op").states}
    after = {state.name: state.description.describe() for state in found.operator("ns-op").states}
    assert "map<bytes, long>" == after["ns-map"] != before["ns-map"]
    assert "bigint" == after["ns-value"] != before["ns-value"]
    old, new = (
        {
            (state.name, entry.key, entry.namespace): entry.value
            for state in savepoint.operator("ns-op").states
            if state.kind is not StateKind.TIMERS
            for entry in state.read_entries()
        }
        for savepoint in (Savepoint.open(source), found)
    )
    for place, value in old.items():
        if place[0] == "ns-map":
            assert {name.encode(): count for name, count in value.items()} == new[place]
        else:
            assert value == new[place]
    assert len(old) == len(new) > 10
    assert [] == failures(found)


def test_another_namespace_is_refused(savepoint_of):
    savepoint = Savepoint.open(savepoint_of(NAMESPACED[0]))
    report = check(savepoint.describe(), name_job(Int32, namespace=int).describe())

    assert Decision.REFUSE == report.decision
    refused = {state.name for _, state in report.states() if state.decision is Decision.REFUSE}
    assert {"ns-list", "ns-map", "ns-value"} == refused
    rules = {finding.rule for _, state in report.states() for finding in state.result.findings}
    assert "ROLE-5" in rules


@settings(deadline=None, max_examples=25)
@given(
    entries=st.dictionaries(
        st.tuples(st.text(max_size=300), st.one_of(st.text(max_size=300), st.integers(250, 260).map("n".__mul__))),
        st.dictionaries(st.text(max_size=3), st.integers(0, 9), min_size=1, max_size=3),
        max_size=8,
    ),
    max_parallelism=st.sampled_from([128, 129]),
)
def test_names_of_all_lengths_are_written_and_read(tmp_path_factory, entries, max_parallelism):
    place = tmp_path_factory.mktemp("names") / "savepoint"
    job = Job([Operator("op", key=str, states=[MapStateDescriptor("m", str, int, namespace=str)])])
    with SavepointWriter(place, job, max_parallelism=max_parallelism, parallelism=2) as writer:
        for (key, name), value in entries.items():
            writer.put("op", "m", key, value, namespace=name)
    savepoint = Savepoint.open(place)

    found = {(entry.key, entry.namespace): entry.value for entry in savepoint.operator("op").state("m").read_entries()}
    assert entries == found
    assert [] == failures(savepoint)


def test_the_global_window_is_a_namespace(tmp_path):
    job = Job([Operator("op", key=int, states=[ValueStateDescriptor("v", str, namespace=GlobalWindow)])])
    with SavepointWriter(tmp_path / "sp", job) as writer:
        writer.put("op", "v", 1, "one", namespace=GLOBAL_WINDOW)
    savepoint = Savepoint.open(tmp_path / "sp")

    (entry,) = savepoint.operator("op").state("v").read_entries()
    assert (1, GLOBAL_WINDOW, "one") == (entry.key, entry.namespace, entry.value)
    assert Decision.START == check(savepoint.describe(), job.describe()).decision
    assert [] == failures(savepoint)
