"""How each state of the samples grows: told from the plan alone."""

import pytest

from stateshift.state.plans.compiled_plan import read_plan
from stateshift.state.plans.growth import Implicit, Keeps, Leaves, growth_of, implicit_of
from stateshift.state.plans.operators import describe_plan

BACK = (Leaves.TAKEN_BACK,)


@pytest.fixture
def query(root):
    """`query(name)`: what the plan of a sample says."""

    def read(name):
        place = root / f"tests/fixtures/flink-sql-2.3/{name}/plan.json"
        return describe_plan(read_plan(place.read_bytes(), str(place)))

    return read


@pytest.mark.parametrize(
    ("name", "state", "keeps", "leaves", "is_endless"),
    [
        ("join-inner-no-key", "left-records", Keeps.DIFFERENT_ROW, (), True),
        ("join-inner-unique-key", "left-records", Keeps.UNIQUE_KEY, (), True),
        ("join-inner-join-key", "left-records", Keeps.KEY, (), True),
        ("join-left-no-key-ttl", "right-records", Keeps.DIFFERENT_ROW, (Leaves.TIME_TO_LIVE,), False),
        ("changelog-normalize", "deduplicate-state", Keeps.KEY, BACK, True),
        ("aggregate-retract", "accState", Keeps.KEY, BACK, True),
        ("aggregate-retract", "agg1$map", Keeps.DIFFERENT_VALUE, BACK, True),
        ("aggregate-retract", "agg4$list", Keeps.ROW, BACK, True),
        ("aggregate-distinct", "distinctAcc_0", Keeps.DIFFERENT_VALUE, (), True),
        ("rank-append", "data-state-with-append", Keeps.SORT_KEY, (Leaves.OUTRANKED,), True),
        ("rank-update", "data-state-with-update", Keeps.UNIQUE_KEY, (*BACK, Leaves.OUTRANKED), True),
        ("upsert-materialize", "values", Keeps.ROW, BACK, True),
        ("window-aggregate-tumble", "window-aggs", Keeps.KEY, (Leaves.WINDOW,), False),
        ("group-window-session", "window-aggs", Keeps.KEY, (Leaves.WINDOW,), False),
        ("window-rank", "window_rank", Keeps.SORT_KEY, (Leaves.WINDOW,), False),
        ("window-join", "left-records", Keeps.ROW, (Leaves.WINDOW,), False),
        ("interval-join", "IntervalJoinLeftCache", Keeps.TIME, (Leaves.TIME,), False),
        ("temporal-join", "left", Keeps.ROW, (Leaves.JOB,), False),
        ("over-row-time-rows", "inputState", Keeps.TIME, (Leaves.JOB,), False),
        ("over-row", "valueMapState", Keeps.ROW, (Leaves.JOB,), False),
        ("rank-retract", "data-state", Keeps.SORT_KEY, BACK, True),
    ],
)
def test_what_a_state_has_values_for_and_when_they_go(query, name, state, keeps, leaves, is_endless):
    found = [(one, kept) for one in query(name).operators for kept in one.states if kept.name == state]
    growth = growth_of(*found[0])

    assert (keeps, leaves, is_endless) == (growth.keeps, growth.leaves, growth.is_endless)


def test_a_rank_grows_with_keys_and_not_with_rows(query):
    (rank,) = (one for one in query("rank-append").operators if one.states)

    assert not growth_of(rank, rank.states[0]).with_rows


def test_one_aggregate_of_the_whole_query_does_not_grow(query):
    (one,) = (one for one in query("aggregate-two-phases").operators if one.states)
    whole = type(one)(node=1, kind=one.kind, line=1, states=one.states)

    assert (True, False) == tuple(growth_of(of, one.states[0]).is_endless for of in (one, whole))


def test_what_the_planner_has_added_is_told_from_what_the_query_says(query):
    names = ("changelog-normalize", "upsert-materialize", "deduplicate", "join-inner-no-key")

    assert [{Implicit.ROWS_BEFORE}, {Implicit.SINK_KEY}, set(), set()] == [
        {implicit_of(one) for one in query(name).operators} - {None} for name in names
    ]
