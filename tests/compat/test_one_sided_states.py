"""Stored state that is not taken over, and state that starts empty (STATE-7)."""

from __future__ import annotations

import pytest

from stateshift import Decision, Policy, check, parse_edits
from stateshift.compat.description import (
    JobDescription,
    OperatorDescription,
    SerializerDescription,
    StateKind,
    operator_id_of_uid,
)
from stateshift.compat.edits import same_types
from stateshift.serializers.containers.lists import ListSerializer
from stateshift.serializers.primitives.numeric import DoubleSerializer, DoubleSerializerSnapshot, LongSerializer

VALUE = StateKind.VALUE


@pytest.fixture
def job(make):
    """`job(uid={name: serializer})`: operators with value states."""

    def described(**operators):
        return JobDescription("job", tuple(
            OperatorDescription(
                operator_id_of_uid(uid).hex(), uid, key=SerializerDescription.of(LongSerializer()),
                states=tuple(
                    make.state(name, StateKind.LIST if isinstance(one, ListSerializer) else VALUE, one)
                    for name, one in states.items()
                ),
            )
            for uid, states in operators.items()
        ))  # fmt: skip

    return described


LONG, DOUBLE = LongSerializer(), DoubleSerializer()
LIKELY = {
    "of the same type": ({"total": LONG}, {"sum": LONG}),
    "of nearly the same name": ({"visits": LONG}, {"visit": DOUBLE}),
}


@pytest.mark.parametrize("case", LIKELY)
def test_a_state_that_may_be_a_stored_one_is_refused_until_this_is_declared(job, case):
    stored, declared = LIKELY[case]
    (old,), (new,) = stored, declared
    before, after = job(shop=stored), job(shop=declared)

    report = check(before, after)

    ((_, state, finding),) = report.findings()
    assert (Decision.REFUSE, new, "STATE-7") == (report.decision, state.name, finding.rule)
    assert f"--rename-state {old}={new}" in str(finding.ways_out[0])
    assert f"--allow-empty shop/{new}" in str(finding.ways_out[1])
    renamed = parse_edits(rename_states=[f"{old}={new}"]).apply(before)
    assert "STATE-7" not in {one.rule for _, _, one in check(renamed, after).findings()}
    for name in (new, f"shop/{new}", f"{before.operators[0].operator_id}/{new}"):
        allowed = check(before, after, policy=Policy(allow_empty=[name]))
        assert (Decision.START, ()) == (allowed.decision, allowed.starting_empty)


@pytest.mark.parametrize(
    ("stored", "declared"),
    [
        ({"total": LONG}, {"other": DOUBLE}),
        ({"total": LONG}, {"other": ListSerializer(LONG)}),
        ({"total": LONG, "second": LONG}, {"other": LONG}),
    ],
    ids=["another type", "another kind", "two that may be it"],
)
def test_a_state_that_is_like_none_or_several_begins_empty_and_is_counted(job, stored, declared):
    report = check(job(shop=stored), job(shop=declared))

    assert Decision.START is report.decision
    assert (len(stored), 1) == (len(report.not_taken), len(report.starting_empty))


def test_an_operator_with_another_uid_is_refused_until_this_is_declared(job):
    same = {"s": LONG}
    before, after = (
        job(shop={"total": LONG, "more": LONG}, other=same),
        job(shopp={"total": LONG, "new": LONG}, other=same),
    )

    report = check(before, after)

    ((_, state, finding),) = report.findings()
    assert (Decision.REFUSE, "total", "STATE-7") == (report.decision, state.name, finding.rule)
    assert "--rename-uid shop=shopp" in str(finding.ways_out[0])
    assert Decision.START is check(before, after, policy=Policy(allow_empty=["shopp/total"])).decision


def test_what_a_person_renamed_away_is_not_asked_for_again(job):
    before = parse_edits(rename_states=["total=archive"]).apply(job(shop={"total": LONG}))

    assert "STATE-7" not in {one.rule for _, _, one in check(before, job(shop={"total": LONG})).findings()}


@pytest.mark.parametrize(
    ("stored", "declared", "allowed", "status"),
    [
        ({"a": LONG}, {"a": LONG}, {}, 0),
        ({"a": LONG, "b": LONG}, {"a": LONG}, {}, 4),
        ({"a": LONG, "b": LONG}, {"a": LONG}, {"allow_non_restored_state": True}, 0),
        ({"a": LONG}, {"a": LONG, "b": LONG}, {"allow_non_restored_state": True}, 4),
        ({"a": LONG}, {"a": LONG, "b": LONG}, {"empty": ["b"]}, 0),
    ],
)
def test_the_exit_status_asks_for_a_look(job, stored, declared, allowed, status):
    policy = Policy(allow_empty=allowed.pop("empty", ()))
    report = check(job(shop=stored), job(shop=declared), policy=policy)

    assert status == report.exit_status(allow_migration=True, **allowed)


def test_a_probe_does_not_say_that_a_state_is_gone(job):
    before = job(shop={"a": LONG, "b": LONG})

    report = check(before, job(shop={"a": LONG}).as_probe())

    assert ((), 0) == (report.not_taken, report.exit_status(allow_migration=False))
    assert () == check(before, same_types(before)).not_taken


class Counting(DoubleSerializer):
    """A serializer whose snapshot counts how often its type is asked for."""

    asked = 0

    def snapshot_configuration(self):
        return CountingSnapshot()


class CountingSnapshot(DoubleSerializerSnapshot):
    def describe(self):
        Counting.asked += 1
        return super().describe()


def test_the_work_of_finding_other_names_grows_with_the_number_of_states(job):
    states = 300
    before = job(shop={f"a{number}": Counting() for number in range(states)})
    after = job(shop={f"b{number}": Counting() for number in range(states)})
    Counting.asked = 0

    report = check(before, after)

    assert (states, states) == (len(report.not_taken), len(report.starting_empty))
    assert Counting.asked < 20 * states
