"""Plans and savepoints of Flink 1.20: what a plan says is what is stored, and a savepoint is judged by its plan."""

from pathlib import Path

import pytest

from stateshift import Savepoint, check
from stateshift.compat.sql.description import describe_query, is_stored_as
from stateshift.serializers.compatibility import Decision
from stateshift.state.plans.operators import describe_plans, read_query

FOLDER = Path(__file__).parents[2] / "fixtures" / "flink-sql-1.20"
SAMPLES = sorted(place.name for place in FOLDER.iterdir() if place.is_dir())


@pytest.mark.parametrize("name", SAMPLES)
def test_rows_are_described_as_flink_has_stored_them(name):
    query = read_query(str(FOLDER / name / "plan.json"))
    stored = Savepoint.open(FOLDER / name / "savepoint").describe()
    there = {one.operator_id: {state.name: state for state in one.states} for one in stored.operators}
    ids = {one.computation.number: one.operator_id for one in describe_query(query).operators}
    compared = [
        is_stored_as(there[ids[one.node]][state.name].value.snapshot, state.columns)
        for one in query.operators
        for state in one.states
        if state.columns
    ]

    assert compared
    assert all(compared)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_savepoint_starts_with_its_own_plan(name):
    plan = str(FOLDER / name / "plan.json")
    stored = Savepoint.open(FOLDER / name / "savepoint").describe()

    assert Decision.START is check(stored, describe_plans(plan, plan)).decision
