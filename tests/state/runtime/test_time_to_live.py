"""Descriptors of states with TTL."""

from __future__ import annotations

from datetime import timedelta

import pytest

from stateshift import (
    DeclarationError,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    ReducingStateDescriptor,
    Savepoint,
    SavepointWriter,
    TtlValue,
    ValueStateDescriptor,
    check,
    serializer_for,
)
from stateshift.serializers.containers.ttl import TtlSerializer

INT = TtlSerializer(serializer_for(int))


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (ValueStateDescriptor("a", int, time_to_live=True), ValueStateDescriptor("a", INT)),
        (ReducingStateDescriptor("a", None, int, time_to_live=True), ReducingStateDescriptor("a", None, INT)),
        (ListStateDescriptor("a", int, time_to_live=True), ListStateDescriptor("a", INT)),
        (
            MapStateDescriptor("a", str, int, time_to_live=True, nullable_values=True),
            MapStateDescriptor("a", str, INT, nullable_values=True),
        ),
    ],
)
def test_time_to_live_puts_a_stamp_before_every_value(short, long):
    assert long.state_serializer() == short.state_serializer()


def test_states_of_flink_with_ttl_start_as_they_are(savepoint_of):
    stored = Savepoint.open(savepoint_of("hashmap-zoo-p1-m128")).describe()
    states = [
        ListStateDescriptor("ttllist", str, time_to_live=True),
        MapStateDescriptor("ttlmap", str, int, time_to_live=True),
    ]

    report = check(stored, Job([Operator("keyed-op", key=serializer_for_key(stored), states=states)]).describe())

    decided = {state.name: str(state.result.verdict.label) for _, state in report.states() if state.becomes}
    assert decided == {"ttllist": "compatible", "ttlmap": "compatible"}


def serializer_for_key(description):
    return next(operator.key.snapshot.restore_serializer() for operator in description.operators if operator.key)


def test_the_default_of_a_state_with_ttl_is_a_bare_value():
    assert ValueStateDescriptor("a", int, 5, time_to_live=True).default_value == 5


def test_stamped_values_are_written_and_read(tmp_path):
    job = Job([Operator("op", key=int, states=[ValueStateDescriptor("a", str, time_to_live=True)])])
    with SavepointWriter(tmp_path / "savepoint", job) as writer:
        writer.put("op", "a", 1, TtlValue(1000, "x"))

    (entry,) = Savepoint.open(tmp_path / "savepoint").operator("op").state("a").read_entries()

    assert entry.value == TtlValue(1000, "x")


def test_a_stamp_is_not_put_on_twice():
    with pytest.raises(DeclarationError, match="'a' has time_to_live, but its serializer already writes time stamps"):
        ValueStateDescriptor("a", TtlSerializer(serializer_for(int)), time_to_live=True).state_serializer()


@pytest.mark.parametrize("lived", [timedelta(0), timedelta(days=-1), timedelta(microseconds=999), 86_400, "1 day"])
def test_a_former_length_is_a_millisecond_or_more(lived):
    with pytest.raises(DeclarationError, match="the former time to live of state 'a' is") as caught:
        ValueStateDescriptor("a", int, former_time_to_live=lived)
    assert "pass a timedelta of a millisecond or more" in caught.value.advice


def test_a_state_with_ttl_has_no_former_length():
    with pytest.raises(DeclarationError, match="'a' has both time_to_live and former_time_to_live"):
        ListStateDescriptor("a", int, time_to_live=True, former_time_to_live=timedelta(days=1))


def test_a_former_length_means_nothing_where_no_stamps_are_stored():
    plain, told = (ValueStateDescriptor("a", int, former_time_to_live=lived) for lived in (None, timedelta(days=1)))
    old, new = (Job([Operator("op", key=int, states=[state])]).describe() for state in (plain, told))

    assert "start" == check(old, new).decision
    assert plain.state_serializer() == told.state_serializer()


def test_operator_state_has_no_ttl():
    with pytest.raises(DeclarationError, match="operator state 'a' of operator 'op' cannot have TTL"):
        Operator("op", list_states=[ListStateDescriptor("a", int, time_to_live=True)])
