"""What the old job could make of what the new job writes: the check, asked the other way round."""

from __future__ import annotations

import datetime as dt

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateshift import (
    Decision,
    Edits,
    Int32,
    Job,
    ListStateDescriptor,
    Operator,
    Repartition,
    ValueStateDescriptor,
    check,
    record,
)
from stateshift.compat import explain
from stateshift.compat.description import StateKind, operator_id_of_uid
from stateshift.compat.edits import NewIdentity
from stateshift.compat.gate.levels import Level, Levels, Revision, judge
from stateshift.compat.gate.recording import from_json, to_json
from stateshift.compat.report_data import to_data
from stateshift.compat.testing.strategies import evolutions, types
from stateshift.compat.way_back import ways_back

START, MIGRATE, REFUSE = Decision.START, Decision.MIGRATE, Decision.REFUSE


def class_of(**fields):
    """A Java class with fields by name; only `note` may be left out."""
    made = {
        name: attrs.field(type=hint, kw_only=True, **({"default": None} if name == "note" else {}))
        for name, hint in fields.items()
    }
    return record(java_class="acme.Order")(attrs.make_class("Order", made, frozen=True))


def job(value, key=str, *, uid="shop", name="open", more=()):
    lists = [ListStateDescriptor("pending", Int32)]
    return Job([Operator(uid, key=key, states=[ValueStateDescriptor(name, value)], list_states=lists), *more])


def stored(given):
    """As a savepoint has it: snapshots, and no code."""

    def bare(part):
        return None if part is None else attrs.evolve(part, serializer=None)

    description = given.describe("savepoint sp-1")
    return attrs.evolve(
        description,
        operators=tuple(
            attrs.evolve(
                operator,
                key=bare(operator.key),
                states=tuple(
                    attrs.evolve(one, value=bare(one.value), key=bare(one.key), namespace=bare(one.namespace))
                    for one in operator.states
                ),
            )
            for operator in description.operators
        ),
    )


def backs(old, new, **more):
    """Decision and reasons by state, and the key's where it differs."""
    found = ways_back(check(old, new, **more))
    states = {place[2]: back for place, back in found.states.items()}
    for key in found.keys.values():
        states["<key>"] = key
    return states


def rules(back):
    return [(finding.path, finding.rule) for finding in back.findings]


def test_what_stays_is_read_as_it_is():
    answers = backs(stored(job(Int32)), job(Int32).describe())

    assert {"open": (START, (), ""), "pending": (START, (), "")} == {
        name: (back.decision, back.findings, back.note) for name, back in answers.items()
    }


def test_a_wider_number_has_no_way_back_and_the_rule_says_why():
    back = backs(stored(job(Int32)), job(int).describe())["open"]

    assert (REFUSE, [("$", "PRIM-3")]) == (back.decision, rules(back))


def test_a_new_field_is_dropped_on_the_way_back():
    back = backs(stored(job(class_of(id=int))), job(class_of(id=int, note=str | None)).describe())["open"]

    assert (MIGRATE, ("$.note",)) == (back.decision, back.drops)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (Int32, int),
        (Int32, Int32),
        (class_of(id=int), class_of(id=int, note=str | None)),
        (class_of(id=int, note=str | None), class_of(id=int)),
        (class_of(id=Int32), class_of(id=int)),
        (list[Int32], list[int]),
    ],
    ids=str,
)
def test_it_agrees_with_the_level_forward(old, new):
    before, after = stored(job(old)), job(new).describe()

    gate = judge([Revision("1", before)], after, Levels(Level.FORWARD), today=dt.date(2026, 3, 1))
    refused = {name for name, back in backs(before, after).items() if back.decision is REFUSE}
    assert {state.state for state in gate.states if not state.passes} == refused


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_it_is_what_the_check_says_with_the_sides_exchanged(data):
    """Whatever the types: what is not asked, since both sides have it, is read as it is."""
    hint = data.draw(types())
    later, _ = data.draw(evolutions(hint))
    before, after = stored(job(hint)), job(later).describe()

    exchanged = {state.name: state.decision for _, state in check(after, before.as_probe()).states()}
    found = {name: back.decision for name, back in backs(before, after).items()}
    assert {name: exchanged[name] for name in found} == found


@pytest.mark.parametrize(("old", "is_flagged"), [(Int32, True), (str, False)], ids=["a primitive", "never a primitive"])
def test_a_null_that_the_old_class_may_not_take_is_reported(old, is_flagged):
    """REC-17 back: Flink fails on a null in a field that is `int` in the old class, and no byte is rewritten."""
    back = backs(stored(job(class_of(id=int, visits=old))), job(class_of(id=int, visits=old | None)).describe())["open"]

    assert START == back.decision
    assert [("$.visits", ("may_fail_per_value",))] * is_flagged == [
        (one.path, tuple(map(str, one.flags))) for one in back.findings
    ]
    assert back.flagged == back.findings


def test_flags_count_on_the_way_back_of_a_record_as_they_do_on_the_way_there():
    """The old code is known: it says that there are no nulls; the same pair is flagged in both directions."""
    old, new = job(class_of(id=int, visits=Int32)), job(class_of(id=int, visits=Int32 | None))
    recorded_old = from_json(to_json(old.describe()))

    forwards = check(new.describe(), recorded_old.as_probe())
    assert [("$.visits", "REC-17", ("may_fail_per_value",))] == [
        (finding.path, finding.rule, tuple(map(str, finding.flags)))
        for _, _, finding in forwards.findings()
        if finding.old == "optional<int>"
    ]
    assert START == backs(recorded_old, new.describe())["open"].decision
    assert ("$.visits", "REC-17") in rules(backs(recorded_old, new.describe())["open"])


def test_what_a_migration_back_fills_is_reported_next_to_what_it_drops():
    back = backs(stored(job(class_of(id=int, title=str))), job(class_of(id=int, note=str | None)).describe())["open"]

    assert (MIGRATE, ", which drops $.note and fills $.title with a default") == (back.decision, back.loss)


def test_time_stamps_that_a_migration_back_takes_off_are_reported():
    old = Job([Operator("shop", key=str, states=[ValueStateDescriptor("open", int)])])
    new = Job([Operator("shop", key=str, states=[ValueStateDescriptor("open", int, time_to_live=True)])])

    assert ", which removes the time stamps" == backs(stored(old), new.describe())["open"].loss


def test_under_another_key_no_keyed_state_has_a_way_back():
    """What an operator keeps without keys has, and a keyed state that the job does not declare has not."""
    answers = backs(
        stored(job(Int32, key=Int32)), job(Int32, key=int, name="others").describe(), repartition=Repartition()
    )

    assert {"open": REFUSE, "pending": START, "<key>": REFUSE} == {
        name: back.decision for name, back in answers.items()
    }
    assert "the key of its operator has no way back" == answers["open"].note
    assert "ROLE-2" in dict(map(reversed, rules(answers["<key>"])))


def test_another_max_parallelism_is_a_condition():
    back = backs(
        attrs.evolve(
            stored(job(Int32)),
            operators=tuple(attrs.evolve(one, max_parallelism=128) for one in stored(job(Int32)).operators),
        ),
        job(Int32).describe(),
        repartition=Repartition(max_parallelism=256),
    )["open"]

    assert (START, True) == (back.decision, "max parallelism: that of the operator is now 256" in back.note)


@pytest.mark.parametrize(
    ("edits", "new", "words"),
    [
        (Edits(drop=("open",)), job(Int32, name="others"), "the state is dropped"),
        (Edits(rename_states=(("open", "orders"),)), job(Int32, name="orders"), "it is now called orders"),
        (
            Edits(rename_operators=(("shop", NewIdentity(operator_id_of_uid("store").hex(), "store")),)),
            job(Int32, uid="store"),
            "its operator now has the uid store",
        ),
    ],
    ids=["dropped", "state renamed", "operator renamed"],
)
def test_what_the_old_job_will_not_find_would_start_empty(edits, new, words):
    answers = backs(edits.apply(stored(job(Int32))), new.describe())
    back = next(back for name, back in answers.items() if name != "pending")

    assert (REFUSE, True) == (back.decision, back.note.startswith(words))
    assert back.note.endswith("the old job would start it empty")


def test_an_operator_that_the_job_lacks_is_dropped_by_flink():
    old = stored(job(Int32, more=[Operator("audit", key=str, states=[ValueStateDescriptor("seen", int)])]))
    back = backs(old, job(Int32).describe())["seen"]

    assert (START, True) == (back.decision, "--allowNonRestoredState" in back.note)


def test_of_what_is_refused_or_new_nothing_is_reported():
    new = job(bool, more=[Operator("audit", key=str, states=[ValueStateDescriptor("seen", int)])]).describe()

    assert {"pending"} == backs(stored(job(str)), new).keys()


def test_an_old_serializer_that_fails_when_it_is_asked_ends_no_check(make):
    """Nor does it hide what is known of other operators."""
    asked = []

    @attrs.define
    class Failing(make.LayoutSnapshot):
        def restore_serializer(self):
            asked.append(self)
            raise RuntimeError("no answer")

    old = make.job(make.state("s", StateKind.VALUE, Failing(1)))
    new = make.job(make.state("s", StateKind.VALUE, make.Layout(2)))

    back = backs(old, new)["s"]
    assert asked
    assert REFUSE == back.decision
    assert "it is not known: RuntimeError" in back.note


class TestText:
    def lines(self, old, new):
        return explain.text_lines(check(stored(job(old)), job(new).describe()))

    def test_a_state_with_a_way_back_after_a_migration_says_what_that_drops(self):
        lines = self.lines(class_of(id=int), class_of(id=int, note=str | None))

        assert "    way back: after migrate --downgrade, which drops $.note" in lines
        assert "way back: of 2 states, the old job can use 1 as they are, 1 after migrate --downgrade" == lines[-2]
        assert lines[-1].startswith("  as far as the stored types show")

    def test_a_state_without_one_names_path_and_rule(self):
        lines = self.lines(class_of(id=Int32), class_of(id=int))

        assert "    way back: none; $.id  long -> int  [PRIM-3]" in lines
        assert "1 not at all" in lines[-2]
        assert "check --against" in lines[-1]

    def test_where_nothing_differs_one_line_says_so(self):
        assert ["", "way back: the old job can use what the new one writes"] == self.lines(Int32, Int32)[-2:]

    def test_where_the_check_refuses_there_is_none_to_tell(self):
        report = check(stored(job(str)), job(bool).describe())

        assert not any("way back" in line for line in explain.text_lines(report))
        data = to_data(report)
        ways = {state["name"]: state["way_back"] for state in data["operators"][0]["states"]}
        assert data["way_back"] is None
        assert {"open": None, "pending": {"decision": "start", "note": None, "findings": []}} == ways
