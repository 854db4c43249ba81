"""A state of another kind: refused (STATE-1), or taken over by a transform (STATE-2); what the check says."""

from __future__ import annotations

import attrs
import pytest

from stateshift import (
    Decision,
    DeclarationError,
    Job,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    StateTransform,
    TypeDeserializer,
    ValueStateDescriptor,
    Verdict,
    check,
)
from stateshift.compat import explain
from stateshift.compat.description import StateKind
from stateshift.compat.report_data import to_data
from stateshift.serializers.snapshot import SkippedSnapshot


def wrap(number):
    return [number]


def job_of(state, key=int, **others):
    states = {"states": [state]} if state is not None else {}
    return Job([Operator("op", key=key, **states, **others)])


def judged(old, new, key=int):
    (state,) = check(job_of(old).describe(), job_of(new, key).describe()).operators[0].states
    return state


def rules(state):
    return [(finding.path, finding.rule) for finding in state.result.findings]


VALUE = ValueStateDescriptor("s", int)
LIST = ListStateDescriptor("s", int)
TO_LIST = ListStateDescriptor("s", int, transform=StateTransform.from_value(wrap))


def test_state_1_without_a_transform_it_is_refused_and_one_is_the_first_way_out():
    state = judged(VALUE, LIST)

    assert (Decision.REFUSE, [("$<state>", "STATE-1")]) == (state.decision, rules(state))
    assert "transform=StateTransform.from_value(…)" in str(state.result.findings[0].ways_out[0])


def test_state_1_a_transform_from_another_kind_is_no_help_and_is_reported():
    state = judged(VALUE, MapStateDescriptor("s", int, int, transform=StateTransform.from_list(dict)))

    assert (Decision.REFUSE, [("$<state>", "STATE-1")]) == (state.decision, rules(state))
    assert "its transform builtins.dict takes list state" in state.result.findings[0].reason


def test_state_2_a_transform_makes_it_a_migration_that_is_named():
    report = check(job_of(VALUE).describe(), job_of(TO_LIST).describe())
    (state,) = report.operators[0].states

    assert Verdict.REQUIRES_MIGRATION is state.result.verdict
    assert [("$<state>", "STATE-2")] == rules(state)
    assert (f"{__name__}.wrap", "", "snapshot") == (state.transform, state.converter, state.reader)
    assert any(f"transform: {__name__}.wrap" in line for line in explain.text_lines(report))
    assert f"{__name__}.wrap" == to_data(report)["operators"][0]["states"][0]["transform"]


def test_a_transform_is_not_used_where_the_stored_kind_is_the_new_one_already():
    """The same job file serves the old savepoint and the new one."""
    state = judged(LIST, TO_LIST)

    assert (Decision.START, "") == (state.decision, state.transform)


def test_a_converter_next_to_a_transform_is_for_the_same_kind_only():
    both = attrs.evolve(TO_LIST, converter=str, elem_type_info=str)

    assert ("", f"{__name__}.wrap") == (judged(VALUE, both).converter, judged(VALUE, both).transform)
    assert ("builtins.str", "") == (judged(LIST, both).converter, judged(LIST, both).transform)


def test_keys_and_namespaces_are_judged_as_ever():
    refused = judged(VALUE, TO_LIST, key=str)
    spaced = judged(VALUE, attrs.evolve(TO_LIST, namespace=str))

    assert (Decision.REFUSE, "not checked: the key of its operator is refused") == (refused.decision, refused.note)
    assert (Decision.REFUSE, "ROLE-5") == (spaced.decision, rules(spaced)[0][1])


class Bytes(TypeDeserializer):
    def deserialize(self, source):
        return source.read_long()


def test_read_3_and_read_4_the_reader_of_the_stored_pieces_is_found_first():
    old = job_of(VALUE).describe()
    gone = attrs.evolve(old.operators[0].states[0].value, snapshot=SkippedSnapshot(stored_id="stateshift/gone"))
    state = attrs.evolve(old.operators[0].states[0], value=gone)
    old = attrs.evolve(old, operators=(attrs.evolve(old.operators[0], states=(state,)),))

    def ask(new):
        return check(old, job_of(new).describe()).operators[0].states[0]

    refused, read = ask(TO_LIST), ask(attrs.evolve(TO_LIST, fallback_deserializer=Bytes()))

    assert [("$", "READ-4"), ("$<state>", "STATE-2")] == rules(refused)
    assert (Verdict.REQUIRES_MIGRATION_WITH_FALLBACK, "fallback") == (read.result.verdict, read.reader)


def test_operator_state_keeps_its_kind_state_1():
    old = Job([Operator("op", list_states=[LIST])]).describe()
    new = Job([Operator("op", union_list_states=[LIST])]).describe()
    (finding,) = check(old, new).operators[0].states[0].result.findings

    assert "STATE-1" == finding.rule
    assert not any("transform" in way for way in map(str, finding.ways_out))


class TestDeclarations:
    def test_a_bare_function_does_not_say_from_which_kind(self):
        with pytest.raises(DeclarationError, match="the kind of the stored state") as caught:
            ListStateDescriptor("s", int, transform=wrap)
        assert "StateTransform.from_value(…)" in caught.value.advice

    def test_its_own_kind_takes_a_converter(self):
        with pytest.raises(DeclarationError, match="takes list state, but that is already the kind of the state"):
            ListStateDescriptor("s", int, transform=StateTransform.from_list(wrap))

    def test_operator_state_takes_none(self):
        with pytest.raises(DeclarationError, match="cannot have a transform"):
            job_of(None, list_states=[TO_LIST])

    @pytest.mark.parametrize("kind", ["value", "list", "map", "reducing", "aggregating"])
    def test_each_way_to_make_one_names_kind_and_function(self, kind):
        made = getattr(StateTransform, f"from_{kind}")(wrap)

        assert (StateKind(kind), f"{__name__}.wrap") == (made.old_kind, made.name)
        assert [3] == made.function(3)
