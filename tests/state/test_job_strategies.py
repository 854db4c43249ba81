"""Whole jobs at random, and what their states hold."""

from __future__ import annotations

import enum
import tempfile
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from stateshift import Decision, Job, ListStateDescriptor, MapStateDescriptor, Operator, ValueStateDescriptor, check
from stateshift.compat.description import StateKind
from stateshift.state.testing import contents_of, jobs, migrate_in_process, write_savepoint

repeatable = settings(
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
many = settings(repeatable, max_examples=1000, phases=[Phase.generate])


def kinds_of(job):
    return {state.kind for operator in job.describe().operators for state in operator.states}


@given(jobs())
@settings(repeatable, max_examples=60)
def test_a_drawn_job_starts_from_its_own_state(job):
    assert Decision.START is check(job.describe(), job.describe()).decision


@pytest.mark.parametrize("kind", [kind for kind in StateKind if "timer" not in str(kind).lower()], ids=str)
def test_each_kind_of_state_is_drawn(kind):
    assert kind in kinds_of(find(jobs(), lambda job: kind in kinds_of(job), settings=many))


@given(jobs(st.sampled_from([int])))
@settings(repeatable, max_examples=20)
def test_the_types_of_states_are_those_that_are_given(job):
    values = [state for operator in job.operators for state in operator.states if hasattr(state, "value_serializer")]

    assert all("long" in state.value_serializer.describe() for state in values)


def held_by(savepoint, job):
    """The number of values of each state."""
    found = {}
    for operator in job.operators:
        for state in operator.states:
            stored = savepoint.operator(operator.uid).state(state.name)
            found[f"{operator.uid}/{state.name}"] = len({repr(entry.key) for entry in stored.read_entries()})
        for state in (*operator.list_states, *operator.union_list_states):
            stored = savepoint.operator(operator.uid).state(state.name)
            found[f"{operator.uid}/{state.name}"] = sum(map(len, stored.read_elements()))
        for state in operator.broadcast_states:
            stored = savepoint.operator(operator.uid).state(state.name)
            found[f"{operator.uid}/{state.name}"] = sum(len(one) for part in stored.read_elements() for one in part)
    return found


@given(st.data())
@repeatable
def test_drawn_contents_are_a_savepoint_that_migrates_to_its_own_job(data):
    job = data.draw(jobs())
    contents = data.draw(contents_of(job))

    with tempfile.TemporaryDirectory() as folder:
        written = write_savepoint(Path(folder) / "a", job, contents)
        migrated = migrate_in_process(written, Path(folder) / "b", job)
        before, after = held_by(written, job), held_by(migrated, job)
    assert before == after
    assert {name: len(contents[name]) for name in before} == before


def test_contents_of_a_job_of_the_user(tmp_path):
    @attrs.frozen
    class Account:
        name: str
        seen: float | None = None

    states = [ValueStateDescriptor("account", Account), MapStateDescriptor("by day", int, Account, time_to_live=True)]
    job = Job([Operator("shop", key=str, states=states, list_states=[ListStateDescriptor("rules", str)])])

    contents = find(contents_of(job), lambda held: all(held.values()), settings=many)

    assert {"shop/account", "shop/by day", "shop/rules"} == set(contents)
    assert all(held_by(write_savepoint(tmp_path / "it", job, contents), job).values())


def test_a_map_whose_keys_are_few_is_not_empty():
    one = enum.Enum("One", ["ONLY"], module=__name__)
    job = Job([Operator("shop", key=bool, states=[MapStateDescriptor("by day", one, int)])])

    held = find(contents_of(job), lambda held: len(held["shop/by day"]) == 2, settings=many)["shop/by day"]

    assert [{one.ONLY}, {one.ONLY}] == [set(entries) for entries in held.values()]
