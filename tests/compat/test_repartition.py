"""Keys that are rewritten, in a check and a plan (ROLE-4): what is accepted, what is refused, what is reported."""

from __future__ import annotations

import operator as functions

import attrs
import pytest

from stateshift import (
    Decision,
    DeclarationError,
    IncompatibleState,
    Job,
    Operator,
    Repartition,
    StateNotFound,
    Target,
    Verdict,
    check,
    serializer_for,
)
from stateshift.compat.description import SerializerDescription, StateKind, function_name
from stateshift.compat.key_hashes import SIMPLE_TYPES
from stateshift.compat.plan import OperatorAction, StateAction
from stateshift.compat.planner import plan
from stateshift.serializers.errors import what_text
from stateshift.serializers.flink.namespaces import TimerSerializer, VoidNamespaceSerializer
from stateshift.serializers.primitives.numeric import IntSerializer, LongSerializer
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.serializers.ways_out import in_python, on_command_line
from stateshift.state.key_groups import _HASHES

VALUE, LIST, TIMERS = StateKind.VALUE, StateKind.LIST, StateKind.TIMERS
INT, LONG, STRING, VOID = IntSerializer(), LongSerializer(), StringSerializer(), VoidNamespaceSerializer()
ALLOWED = Repartition()


def converted(serializer, function):
    (operator,) = Job([Operator("op", key=serializer, key_converter=function)]).describe().operators
    return operator.key


def found(result):
    return [(finding.path, finding.rule) for finding in result.findings]


@pytest.fixture
def stored(make):
    """A savepoint of one operator with 128 key groups."""

    def describe(key, *states, **others):
        states = states or (make.state("s", VALUE, LONG, namespace=VOID),)
        return make.job(*states, key=key, origin="savepoint", parallelism=2, max_parallelism=128, **others)

    return describe


def test_a_key_with_a_rule_is_a_migration_and_flagged_role_4(make, stored):
    report = check(stored(INT), make.job(make.state("s", VALUE, LONG), key=LONG), repartition=ALLOWED)
    (operator,) = report.operators

    assert (Decision.MIGRATE, Verdict.REQUIRES_MIGRATION) == (report.decision, operator.key.result.verdict)
    assert [("$<key>", "ROLE-4"), ("$<key>", "PRIM-2")] == found(operator.key.result)
    assert ("$<key>", "collision_check") in operator.key.result.flags
    assert "rekeyed, with all state of its operator" == operator.states[0].note
    (planned,) = plan(report).operators
    assert ("int", "long", StateAction.REKEY) == (
        planned.rekeying.key.reader.describe(), planned.rekeying.key.writer.describe(), planned.states[0].action,
    )  # fmt: skip


def test_a_key_without_a_rule_needs_a_function_and_the_error_says_so(make, stored):
    new = make.job(make.state("s", VALUE, LONG), key=STRING)
    refused = check(stored(LONG), new, repartition=ALLOWED).operators[0].key.result
    accepted = check(stored(LONG), make.job(key=converted(STRING, str)), repartition=ALLOWED)

    assert [("$<key>", "ROLE-2"), ("$<key>", "PRIM-4")] == found(refused)
    assert any("key_converter" in way for way in map(str, refused.findings[0].ways_out))
    assert Decision.MIGRATE == accepted.decision
    (operator,) = plan(accepted).operators
    assert ("builtins.str", "7") == (operator.rekeying.key.converter, operator.rekeying.key.conversion(7))
    assert "snapshot" == operator.rekeying.key.source


def test_another_number_of_key_groups_is_a_migration_of_compatible_keys(make, stored):
    state = make.state("s", VALUE, LONG)
    report = check(stored(LONG), make.job(state, key=LONG), repartition=Repartition(max_parallelism=1000))
    (operator,) = report.operators

    assert (Decision.MIGRATE, Verdict.COMPATIBLE) == (report.decision, operator.key.result.verdict)
    finding = operator.key.result.findings[0]
    assert ("128 key groups", "1,000", ()) == (finding.old, finding.new, finding.flags)
    (planned,) = plan(report).operators
    assert (1000, None) == (planned.max_parallelism, planned.rekeying.key)
    same = check(stored(LONG), make.job(state, key=LONG), repartition=Repartition(max_parallelism=128))
    assert OperatorAction.COPY == plan(same).operators[0].action


def test_timers_are_rekeyed_whether_the_job_declares_them_or_not(make, stored):
    old = stored(INT, make.state("timers", TIMERS, TimerSerializer(INT, VOID)))
    declared = make.job(make.state("timers", TIMERS, TimerSerializer(LONG, VOID)), key=LONG)

    for new in (declared, make.job(key=LONG)):
        report = check(old, new, repartition=ALLOWED)
        (state,) = plan(report).operators[0].states

        assert (StateAction.REKEY, "timer<long, VoidNamespace>") == (state.action, state.new.value.describe())


@pytest.mark.parametrize("key", [INT, LONG])
def test_another_namespace_is_no_key_role_5(make, stored, key):
    old = stored(INT, make.state("timers", TIMERS, TimerSerializer(INT, INT)))
    new = make.job(make.state("timers", TIMERS, TimerSerializer(key, LONG)), key=key)

    report = check(old, new, repartition=ALLOWED)

    assert Decision.REFUSE == report.decision
    assert "ROLE-5" in {finding.rule for finding in report.operators[0].states[0].result.findings}


def test_states_that_the_job_does_not_declare_go_along_as_bytes(make, stored):
    report = check(stored(INT), make.job(key=LONG), repartition=ALLOWED)
    (state,) = report.operators[0].states

    assert (Decision.MIGRATE, "rekeyed, with all state of its operator; values as bytes") == (
        state.decision, state.note,
    )  # fmt: skip


def test_an_unreadable_namespace_refuses_the_operator(make, stored):
    old = stored(INT, make.state("s", VALUE, LONG, namespace=make.LayoutSnapshot(1, restorable=False)))

    report = check(old, make.job(key=LONG), repartition=ALLOWED)

    assert [("$<namespace>", "ROLE-4")] == found(report.operators[0].states[0].result)
    assert Decision.REFUSE == report.decision


def test_unreadable_keys_are_refused(make, stored):
    old = stored(make.LayoutSnapshot(1, restorable=False))

    report = check(old, make.job(key=make.Layout(2, "migrates")), repartition=ALLOWED)

    assert Decision.REFUSE == report.operators[0].key.decision
    assert "cannot be compared" in report.operators[0].key.result.findings[0].reason


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({"bound": "the operator has raw keyed state"}, "raw keyed state"),
        ({"unreadable": "a class is not known"}, "a class is not known"),
    ],
)
def test_an_operator_whose_keys_have_to_stay_is_refused_with_the_reason(make, stored, others, why):
    groups = Repartition(max_parallelism=64)

    for key, repartition in ((LONG, ALLOWED), (INT, groups)):
        refused = check(stored(INT, **others), make.job(key=key), repartition=repartition).operators[0].key
        assert (Decision.REFUSE, "ROLE-4") == (refused.decision, refused.result.findings[0].rule)
        assert why in refused.result.findings[0].reason
    hidden = attrs.evolve(
        stored(INT, **others), operators=(attrs.evolve(stored(INT, **others).operators[0], key=None),)
    )
    assert Decision.REFUSE == check(hidden, make.job(), repartition=groups).decision


def test_keys_without_a_hash_that_flink_knows_are_refused_where_flink_is_to_find_them(make, stored):
    decimals = serializer_for(__import__("decimal").Decimal)
    groups = Repartition(max_parallelism=64)

    def ask(value, target=Target.ANY):
        old = stored(decimals, make.state("s", VALUE, value, namespace=VOID))
        return check(old, make.job(key=decimals), repartition=groups, target=target)

    refused, ours = ask(LONG), ask(make.Layout(1))

    assert "no hash that is the same in every JVM" in refused.operators[0].key.result.findings[0].reason
    assert (Decision.REFUSE, Decision.MIGRATE) == (refused.decision, ours.decision)
    assert Decision.REFUSE == ask(make.Layout(1), Target.FLINK).decision


def test_types_with_a_stable_hash_are_those_that_are_hashed():
    assert set(_HASHES) == {*SIMPLE_TYPES, "bigint"}


def test_the_numbers_are_flinks():
    for number in (0, 1 << 16, True, "1000"):
        with pytest.raises(DeclarationError, match=r"max parallelism .* is not possible"):
            Repartition(max_parallelism=number)
    with pytest.raises(DeclarationError, match="a merge must be a function of two values"):
        Repartition(merge={"s": 1})


def test_names_that_are_not_there_are_refused_with_those_that_are(make, stored):
    new = make.job(key=LONG)

    with pytest.raises(StateNotFound, match="no operator has the uid or id 'acounts'; there are: accounts"):
        check(stored(LONG), new, repartition=Repartition(max_parallelism={"acounts": 9}))
    with pytest.raises(StateNotFound, match="there is no state 'totals'"):
        check(stored(LONG), new, repartition=Repartition(merge={"totals": max}))
    timers = stored(LONG, make.state("timers", TIMERS, TimerSerializer(LONG, VOID)))
    with pytest.raises(DeclarationError, match="equal timers are merged automatically"):
        check(timers, new, repartition=Repartition(merge={"timers": max}))
    lists = stored(None, make.state("s", StateKind.SPLIT_LIST, LONG))
    with pytest.raises(DeclarationError, match="it has no key"):
        check(lists, make.job(), repartition=Repartition(merge={"accounts/s": max}))


def test_an_operator_that_is_not_in_the_job_is_kept_and_cannot_be_named(make, stored):
    old = stored(LONG)
    other = attrs.evolve(old.operators[0], operator_id="f" * 32, uid="other")
    both = attrs.evolve(old, operators=(*old.operators, other))
    new = make.job(key=LONG)

    kept = plan(check(both, new, repartition=Repartition(max_parallelism=9))).operator("f" * 32)
    assert (None, 0) == (kept.rekeying, kept.max_parallelism)
    with pytest.raises(DeclarationError, match=r"'other' is not in the job, so it keeps its 128 key groups"):
        check(both, new, repartition=Repartition(max_parallelism={"other": 9}))


def test_a_merge_is_named_as_converters_are(make, stored):
    repartition = Repartition(merge={"s": functions.sub})
    report = check(stored(INT), make.job(make.state("s", VALUE, LONG), key=LONG), repartition=repartition)

    (operator,) = plan(report).operators

    assert {"s": function_name(functions.sub)} == {
        name: merging.merge.name for name, merging in operator.rekeying.merges
    }


def test_without_the_option_the_way_out_names_it(make, stored):
    with pytest.raises(IncompatibleState) as refused:
        plan(check(stored(INT), make.job(make.state("s", VALUE, LONG), key=LONG)))

    of_both = (what_text(refused.value, words) for words in (on_command_line, in_python))
    ways = "    ways out: keep the old type; or rekey the operator: "
    options = ("stateshift migrate --repartition", "options=MigrationOptions(repartition=Repartition())")
    assert [True, True] == [f"{ways}{option}; or" in text for option, text in zip(options, of_both, strict=True)]


def test_a_key_converter_goes_with_a_key():
    with pytest.raises(DeclarationError, match="has a key_converter but no key type"):
        Operator("op", key_converter=str)
    assert SerializerDescription.of(STRING).converter is None
