"""What a migration does with each operator and state."""

from __future__ import annotations

import json

import cloudpickle
import pytest
from unregistered_measures import Forgotten

from stateshift import (
    DataInputView,
    DeclarationError,
    IncompatibleState,
    Job,
    Operator,
    Repartition,
    ValueStateDescriptor,
    check,
)
from stateshift.compat.description import Converter, JobDescription, SerializerDescription, StateKind
from stateshift.compat.plan import OperatorAction, StateAction
from stateshift.compat.plan_data import to_data
from stateshift.compat.planner import plan
from stateshift.serializers.containers.lists import ListSerializer, MapSerializer
from stateshift.serializers.primitives.numeric import BooleanSerializer, DoubleSerializer, IntSerializer, LongSerializer
from stateshift.serializers.snapshot import snapshot_to_bytes

VALUE = StateKind.VALUE


@pytest.fixture
def planned(make):
    """Plan one operator; each state is (name, kind, old, new), new None where the job has it not."""

    def plan_one(*states, old_key=None, new_key=None):
        old = make.job(*(make.state(name, kind, was) for name, kind, was, _ in states), key=old_key, origin="savepoint")
        new = make.job(*(make.state(name, kind, new) for name, kind, _, new in states if new is not None), key=new_key)
        return plan(check(old, new))

    return plan_one


def test_an_operator_with_equal_types_is_copied(planned):
    whole = planned(("a", VALUE, LongSerializer(), LongSerializer()), ("b", VALUE, LongSerializer(), None))
    (operator,) = whole.operators

    assert OperatorAction.COPY == operator.action
    assert [StateAction.COPY, StateAction.COPY] == [state.action for state in operator.states]
    assert whole.is_empty


def test_one_converted_state_rewrites_its_operator_and_copies_the_others(planned):
    whole = planned(
        ("a", VALUE, IntSerializer(), LongSerializer()),
        ("b", VALUE, LongSerializer(), LongSerializer()),
        ("c", VALUE, DoubleSerializer(), None),
    )
    (operator,) = whole.operators

    assert [StateAction.CONVERT, StateAction.COPY, StateAction.COPY] == [state.action for state in operator.states]
    assert (OperatorAction.REWRITE, True, False) == (
        operator.action, operator.rewrites_keyed, operator.rewrites_operator_state,
    )  # fmt: skip
    assert not whole.is_empty
    converted = operator.state("a", keyed=True)
    assert "snapshot" == converted.value.source
    assert snapshot_to_bytes(LongSerializer().snapshot_configuration()) == snapshot_to_bytes(converted.new.value)


def test_a_reconfigured_state_is_relabelled_with_the_snapshot_of_the_copy(planned, make):
    (operator,) = planned(("a", VALUE, make.Layout(1), make.Layout(2, "relabelled"))).operators
    (state,) = operator.states

    assert (OperatorAction.REWRITE, StateAction.RELABEL) == (operator.action, state.action)
    assert make.LayoutSnapshot(2) == state.new.value
    assert (None, None) == (state.value, state.user_key)


def test_what_is_compatible_keeps_its_bytes_and_its_label(planned, make):
    for answer in ("compatible", "reconfigured"):
        (kept,) = planned(("a", VALUE, make.Layout(1), make.Layout(2, answer))).operators

        assert OperatorAction.COPY == kept.action
        assert make.LayoutSnapshot(1) == kept.states[0].new.value


def test_a_relabelled_key_rewrites_the_keyed_streams_only(planned, make):
    (operator,) = planned(
        ("a", VALUE, LongSerializer(), LongSerializer()), old_key=make.Layout(1), new_key=make.Layout(2, "relabelled")
    ).operators

    assert (OperatorAction.REWRITE, True, False) == (
        operator.action, operator.rewrites_keyed, operator.rewrites_operator_state,
    )  # fmt: skip
    assert make.LayoutSnapshot(2) == operator.key


def test_migrate_then_check_answers_compatible_for_every_state_k10(make):
    old = make.job(
        make.state("a", VALUE, IntSerializer()),
        make.state("b", VALUE, make.Layout(1)),
        make.state("c", VALUE, LongSerializer()),
    )
    new = make.job(make.state("a", VALUE, LongSerializer()), make.state("b", VALUE, make.Layout(2, "relabelled")))
    (operator,) = plan(check(old, new)).operators
    migrated = make.job(*(make.state(state.name, state.kind, state.new.value) for state in operator.states))

    again = check(migrated, new)

    assert {"compatible"} == {state.result.verdict.label for _, state in again.states()}
    assert plan(again).is_empty


def test_map_state_rewrites_only_the_part_that_changes(planned):
    new = MapSerializer(LongSerializer(), LongSerializer())
    (operator,) = planned(
        ("values", StateKind.MAP, MapSerializer(LongSerializer(), IntSerializer()), new),
        ("keys", StateKind.MAP, MapSerializer(IntSerializer(), LongSerializer()), new),
    ).operators  # fmt: skip
    keys, values = operator.states

    assert (None, "{}") == (values.user_key, values.value.step)
    assert keys.value.is_check  # snapshots do not show whether a null is stored
    assert ("<key>", False) == (keys.user_key.step, keys.user_key.is_check)


def test_a_refusal_lists_every_state_and_finding(planned):
    with pytest.raises(IncompatibleState) as caught:
        planned(
            ("a", VALUE, LongSerializer(), IntSerializer()),
            ("b", VALUE, LongSerializer(), BooleanSerializer()),
            ("c", StateKind.LIST, ListSerializer(LongSerializer()), ListSerializer(BooleanSerializer())),
        )

    message = str(caught.value)
    for line in ("'a': $  long -> int", "'b': $  long -> boolean", "Nothing was changed."):
        assert line in message
    assert 1 == message.count("long -> boolean")
    assert "\n    the same at 1 other place: accounts/c ($[])\n" in message


def test_a_plan_as_data_is_the_same_every_time_and_reports_readers_converters_and_flags(planned):
    def make_plan():
        new = SerializerDescription.of(IntSerializer(), converter=Converter("accounts.clamp", abs))
        return planned(("a", VALUE, LongSerializer(), new), ("b", VALUE, LongSerializer(), DoubleSerializer()))

    data = json.loads(json.dumps(to_data(make_plan())))
    first, second = data["operators"][0]["states"]

    assert data == json.loads(json.dumps(to_data(make_plan())))
    assert [{"path": "$", "reader": "snapshot", "converter": "accounts.clamp"}] == first["rewrites"]
    assert ("convert", "long", "int") == (first["action"], first["old"], first["new"])
    assert [{"path": "$", "flag": "lossy"}] == second["flags"]


def test_a_plan_travels_to_workers_with_converters_that_are_closures(planned):
    offset = 7
    new = SerializerDescription.of(IntSerializer(), converter=Converter("closure", lambda value: value + offset))
    whole = planned(("a", VALUE, LongSerializer(), new))

    there = cloudpickle.loads(cloudpickle.dumps(whole))
    (state,) = there.operators[0].states

    assert to_data(whole) == to_data(there)
    assert 8 == state.value.conversion(state.value.reader.deserialize(DataInputView((1).to_bytes(8, "big"))))


def test_operators_that_only_the_job_has_are_not_in_the_plan(make):
    report = check(JobDescription("savepoint"), make.job(make.state("a", VALUE, LongSerializer())))

    assert () == plan(report).operators


def test_a_list_and_a_broadcast_state_of_one_name_have_plans_of_their_own(make):
    both = make.job(
        make.state("s", StateKind.SPLIT_LIST, LongSerializer()),
        make.state("s", StateKind.BROADCAST, LongSerializer(), key=LongSerializer()),
    )
    (operator,) = plan(check(both, both)).operators

    assert StateKind.SPLIT_LIST == operator.state("s", keyed=False).kind
    assert StateKind.BROADCAST == operator.state("s", keyed=False, broadcast=True).kind


@pytest.mark.parametrize("role", ["the state 's'", "the key of o"])
def test_nothing_is_planned_to_a_type_that_no_later_process_could_restore(role):
    state = ValueStateDescriptor("s", Forgotten() if "state" in role else int, converter=int)
    key = {"key": int} if "state" in role else {"key": Forgotten(), "key_converter": int}
    new = Job([Operator("o", states=[state], **key)])
    old = Job([Operator("o", key=int, states=[ValueStateDescriptor("s", str)])])
    report = check(old.describe(), new.describe(), repartition=Repartition())

    with pytest.raises(DeclarationError, match=f"{role} has the snapshot class unregistered_measures.Forg"):
        plan(report)
