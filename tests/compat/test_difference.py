"""What differs between two descriptions, by path, and what a check says in both directions."""

from __future__ import annotations

import enum
from typing import Annotated

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import (
    AvroSerializer,
    Decision,
    Field,
    Int32,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    Savepoint,
    ValueStateDescriptor,
    record,
    serializer_for,
)
from stateshift.compat.difference import compare
from stateshift.compat.gate.recording import from_json, to_json
from stateshift.compat.type_difference import Kind, compare_types
from stateshift.serializers.snapshot import snapshot_to_bytes


class Size(enum.Enum):
    S = 1
    M = 2


class Sizes(enum.Enum):
    S = 1
    M = 2
    L = 3


def types(a, b):
    sides = (serializer_for(side).snapshot_configuration() for side in (a, b))
    return [(change.path, str(change.kind), change.a, change.b) for change in compare_types(*sides)]


def job_of(*states, key=int, **more):
    return Job([Operator("op", key=key, states=states, **more)]).describe("the job")


@pytest.mark.parametrize(
    ("a", "b", "changes"),
    [
        (int, int, []),
        (Int32, int, [("$", "type", "int", "long")]),
        (list[Int32], list[int], [("$[]", "type", "int", "long")]),
        (dict[str, list[Int32]], dict[str, list[int]], [("${}[]", "type", "int", "long")]),
        (dict[Int32, str], dict[int, str], [("$<key>", "type", "int", "long")]),
        (tuple[int, Int32], tuple[int, int], [("$(1)", "type", "int", "long")]),
        (list[int], set[int], [("$", "type", "list<long>", "set<long>")]),
        (int, int | None, [("$", "type", "long", "optional<long>")]),
    ],
)
def test_the_innermost_type_that_changed_is_reported_by_its_path(a, b, changes):
    assert changes == types(a, b)


def test_fields_of_records_are_reported_one_by_one():
    @attrs.frozen
    class Order:
        id: int
        note: str
        lines: list[Int32]
        size: str | None

    @attrs.frozen
    class Purchase:
        id: int
        lines: list[int]
        size: str
        price: float

    changes = types(Order, Purchase)

    assert [("$", "class")] == [change[:2] for change in changes if change[3].endswith("Purchase")]
    assert ("$.note", "removed", "string", "") in changes
    assert ("$.price", "added", "", "double") in changes
    assert ("$.lines[]", "type", "int", "long") in changes
    assert ("$.size", "optional", "may be null", "never null") in changes
    assert 5 == len(changes)


def test_constants_of_an_enum_are_reported():
    (_, constants) = types(Size, Sizes)

    assert ("$", "constants", "S, M", "S, M, L") == constants


def test_ttl_is_a_change_of_its_own():
    """STATE-4: the types below the time stamp are compared all the same."""
    a = job_of(ValueStateDescriptor("s", Int32))
    b = job_of(ValueStateDescriptor("s", int, time_to_live=True))

    (state,) = compare(a, b).operators[0].states

    assert [("$", Kind.TTL, "off", "on"), ("$", Kind.TYPE, "int", "long")] == [
        (change.path, change.kind, change.a, change.b) for change in state.changes
    ]


def test_a_side_compared_with_itself_is_equal(savepoint_of):
    for name in ("hashmap-long-p1-m128", "hashmap-zoo-p1-m128", "hashmap-windows-p2-m128", "hashmap-kryo"):
        description = Savepoint.open(savepoint_of(name)).describe()

        difference = compare(description, from_json(to_json(description)))

        assert difference.is_equal, name
        assert {"start"} == {difference.forwards, difference.backwards}


def test_a_wider_number_goes_one_way_only():
    """PRIM-2 forwards, PRIM-3 backwards."""
    difference = compare(job_of(ValueStateDescriptor("s", Int32)), job_of(ValueStateDescriptor("s", int)))

    (state,) = difference.operators[0].states
    assert ("migrate", "refuse") == (difference.forwards, difference.backwards)
    assert "PRIM-3" == state.backwards.refusals[0].rule
    assert () == state.forwards.refusals


def test_an_alias_makes_one_change_of_a_field_gone_and_a_field_new():
    @record(java_class="acme.User")
    @attrs.frozen
    class Old:
        name: str

    @record(java_class="acme.User")
    @attrs.frozen
    class New:
        title: Annotated[str, Field(aliases=["name"])]

    a, b = job_of(ValueStateDescriptor("s", Old)), job_of(ValueStateDescriptor("s", New))

    forwards, backwards = (compare(*sides).operators[0].states[0].changes for sides in ((a, b), (b, a)))

    assert [("$.title", Kind.RENAMED, "name", "title")] == [(c.path, c.kind, c.a, c.b) for c in forwards]
    assert [("$.name", Kind.RENAMED, "title", "name")] == [(c.path, c.kind, c.a, c.b) for c in backwards]


@attrs.frozen
class Tree:
    name: str
    children: list[Tree]


@attrs.frozen
class Bush:
    name: str
    children: list[Bush]
    parent: Bush | None = None


def test_records_that_contain_themselves_are_compared_once():
    """COMP-3."""
    a, b = (job_of(ValueStateDescriptor("s", one)) for one in (Tree, Bush))

    (state,) = compare(a, b).operators[0].states

    assert [("$", "class"), ("$.parent", "added"), ("$.children[]", "type")] == [
        (change.path, change.kind) for change in state.changes
    ]
    assert compare(b, from_json(to_json(b))).is_equal


def account(**defaults):
    """A class with two fields, of which the second has what is given."""

    @attrs.frozen
    class Account:
        tags: list[str] = attrs.field(factory=list)
        score: float = attrs.field(**defaults)

    return record(java_class="acme.Account")(Account)


def test_what_only_code_declares_is_compared_between_two_jobs():
    one, other = (job_of(ListStateDescriptor("s", account(default=value))) for value in (0.0, 12.5))

    (state,) = compare(one, other).operators[0].states

    assert [("$[].score", Kind.DECLARED, "default", "0.0", "12.5")] == [
        (change.path, change.kind, change.what, change.a, change.b) for change in state.changes
    ]
    assert ("start", "start") == (state.forwards.decision, state.backwards.decision)


def test_a_record_of_a_job_is_equal_to_the_job_with_its_defaults():
    job = job_of(ValueStateDescriptor("s", account(default=0.5)))

    assert compare(job, from_json(to_json(job))).is_equal
    assert not compare(job_of(ValueStateDescriptor("s", account(default=0.75))), from_json(to_json(job))).is_equal


def test_a_default_that_is_made_is_compared_by_what_is_made():
    one, other = (job_of(ValueStateDescriptor("s", account(factory=lambda: 1.0))) for _ in range(2))

    assert compare(one, other).is_equal


def test_a_savepoint_declares_nothing_to_compare(savepoint_of):
    savepoint = Savepoint.open(savepoint_of("hashmap-account-v1")).describe()
    recorded = from_json(to_json(savepoint))

    assert compare(savepoint, recorded).is_equal


def test_states_and_operators_of_one_side_are_reported():
    a = Job([Operator("op", key=int, states=[ValueStateDescriptor("s", int)]), Operator("gone", list_states=[])])
    b = Job([Operator("op", key=int, states=[ValueStateDescriptor("t", int)])])

    difference = compare(a.describe(), b.describe())

    operators = {operator.uid: operator for operator in difference.operators}
    assert [("s", True, False), ("t", False, True)] == [
        (state.name, state.a is not None, state.b is not None) for state in operators["op"].states
    ]
    assert operators["gone"].b is None
    assert not difference.is_equal


def test_sides_without_a_common_operator_have_no_direction():
    a, b = (Job([Operator(uid, key=int, states=[ValueStateDescriptor("s", int)])]).describe() for uid in ("x", "y"))

    difference = compare(a, b)

    assert (None, None) == (difference.forwards, difference.backwards)
    assert not difference.is_equal


def test_another_kind_of_state_is_a_change():
    """STATE-1."""
    difference = compare(job_of(ValueStateDescriptor("s", int)), job_of(ListStateDescriptor("s", int)))

    (state,) = difference.operators[0].states
    assert ("$<state>", "value", "list") == (state.changes[0].path, state.changes[0].a, state.changes[0].b)
    assert "STATE-1" == state.forwards.refusals[0].rule


def test_a_changed_key_is_reported_with_its_two_ways():
    """ROLE-2."""
    state = ValueStateDescriptor("s", str)

    difference = compare(job_of(state, key=int), job_of(state, key=str))

    key = difference.operators[0].key
    assert [("$<key>", "long", "string")] == [(change.path, change.a, change.b) for change in key.changes]
    assert ("refuse", "refuse") == (key.forwards.decision, key.backwards.decision)


def test_broadcast_and_operator_lists_have_the_paths_of_their_entries():
    def job(value):
        return Job(
            [
                Operator(
                    "op",
                    list_states=[ListStateDescriptor("l", value)],
                    broadcast_states=[MapStateDescriptor("b", value, value)],
                )
            ]
        ).describe()

    broadcast, lists = compare(job(Int32), job(int)).operators[0].states

    assert ["${}", "$<key>"] == [change.path for change in broadcast.changes]
    assert ["$[]"] == [change.path for change in lists.changes]


def test_a_job_need_not_declare_the_timers_that_a_savepoint_has(savepoint_of):
    savepoint = Savepoint.open(savepoint_of("rocksdb-account-v1")).describe()
    timers = [state for operator in savepoint.operators for state in operator.states if state.kind == "timers"]
    job = attrs.evolve(
        savepoint,
        stored_by="",
        operators=tuple(
            attrs.evolve(operator, states=tuple(state for state in operator.states if state.kind != "timers"))
            for operator in savepoint.operators
        ),
    )

    assert timers
    assert compare(savepoint, job).is_equal
    assert compare(job, savepoint).is_equal
    assert not compare(savepoint, attrs.evolve(job, stored_by="2")).is_equal


def test_an_avro_schema_that_changed_has_the_findings_of_its_fields():
    def job(field):
        schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": field}]}
        return job_of(ValueStateDescriptor("s", AvroSerializer(schema)))

    (state,) = compare(job("int"), job("long")).operators[0].states

    assert [Kind.TYPE] == [change.kind for change in state.changes]
    assert [("$.a", "AV-4")] == [(finding.path, finding.rule) for finding in state.forwards.findings]


def test_an_unreadable_operator_is_not_called_equal():
    side = job_of(ValueStateDescriptor("s", int))
    hidden = attrs.evolve(side, operators=(attrs.evolve(side.operators[0], states=(), unreadable="class X"),))

    difference = compare(hidden, hidden)

    assert (False, False) == (difference.is_equal, difference.is_different)
    assert "A and B: class X" == difference.operators[0].unreadable
    assert "A: class X" == compare(hidden, side).operators[0].unreadable


PLAIN = st.sampled_from([int, Int32, str, float, bool])
TYPES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        inner.map(lambda item: list[item]),
        inner.map(lambda item: set[item]),
        st.tuples(PLAIN, inner).map(lambda pair: dict[pair]),
        st.lists(inner, min_size=1, max_size=3).map(lambda items: tuple[tuple(items)]),
        inner.map(lambda item: item | None),
    ),
    max_leaves=6,
)


@given(TYPES, TYPES)
def test_changes_backwards_are_those_forwards_with_their_sides_exchanged(a, b):
    forwards, backwards = types(a, b), types(b, a)

    assert [(path, kind, new, old) for path, kind, old, new in forwards] == backwards
    assert (forwards == []) is (
        snapshot_to_bytes(serializer_for(a).snapshot_configuration())
        == snapshot_to_bytes(serializer_for(b).snapshot_configuration())
    )


def test_an_operator_whose_uid_is_not_stored_has_not_moved():
    job = Job([Operator("op", key=int, states=[ValueStateDescriptor("s", int)])]).describe("job")
    stored = attrs.evolve(job, operators=tuple(attrs.evolve(one, uid="") for one in job.operators))
    found = compare(stored, job)

    assert [""] == [one.moved for one in found.operators]
    assert (True, Decision.START) == (found.is_equal, found.forwards)
