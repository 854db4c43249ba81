"""What a compiled plan says of keys and states is what Flink has stored."""

import pytest

from stateshift import Flag, Savepoint, check
from stateshift.compat.sql.description import describe_query
from stateshift.serializers.snapshot import snapshot_to_bytes
from stateshift.state.plans.operators import read_query

SAMPLES = ["changelog-normalize", "deduplicate", "group-aggregate", "join"]


def sample(root, name):
    place = root / "tests/fixtures/flink-sql-2.3" / name
    return read_query(str(place / "plan.json")), Savepoint.open(place / "savepoint").describe()


@pytest.mark.parametrize("name", SAMPLES)
def test_keys_and_rows_are_described_as_flink_has_stored_them(root, name):
    query, stored = sample(root, name)
    there = {one.operator_id: one for one in stored.operators}
    compared = 0
    for operator in describe_query(query).operators:
        was = there.get(operator.operator_id)
        if was is None or not operator.states:
            continue
        assert snapshot_to_bytes(was.key.snapshot) == snapshot_to_bytes(operator.key.snapshot)
        states = {state.name: state for state in was.states}
        for state in operator.states:
            assert states[state.name].kind is state.kind
            assert snapshot_to_bytes(states[state.name].namespace.snapshot) == snapshot_to_bytes(
                state.namespace.snapshot
            )
            if name != "group-aggregate":  # whose views are objects of Java, which no plan shows
                assert snapshot_to_bytes(states[state.name].value.snapshot) == snapshot_to_bytes(state.value.snapshot)
            compared += 1
    assert compared


@pytest.mark.parametrize("name", SAMPLES)
def test_a_query_goes_on_with_its_own_state(root, name):
    query, stored = sample(root, name)

    report = check(stored, describe_query(query, query))

    assert "start" == report.decision
    assert not [one for one in report.all_findings() if one.flags]


@pytest.mark.parametrize("name", SAMPLES)
def test_without_the_old_plan_equal_types_are_all_that_is_known(root, name):
    query, stored = sample(root, name)

    report = check(stored, describe_query(query))

    assert "start" == report.decision
    assert "SQL-1" in {one.rule for one in report.all_findings() if one.has(Flag.UNVERIFIED)}


def test_the_plan_of_another_query_is_refused(root):
    query, _ = sample(root, "deduplicate")
    _, stored = sample(root, "changelog-normalize")

    report = check(stored, describe_query(query, query))

    assert "refuse" == report.decision
