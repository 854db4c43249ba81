"""Another number of key groups: refused where the job says it, a question where a probe has it (rule ROLE-6)."""

from __future__ import annotations

import pytest

from stateshift import (
    Decision,
    DeclarationError,
    Flag,
    Job,
    ListStateDescriptor,
    Operator,
    Policy,
    Repartition,
    Savepoint,
    SavepointWriter,
    ValueStateDescriptor,
    check,
)
from stateshift.compat.difference import compare
from stateshift.compat.gate.levels import Levels, Revision, judge
from stateshift.compat.gate.recording import digest

COUNTER = Operator("counter", key=int, states=[ValueStateDescriptor("count", int)])
OTHER = Operator("other", key=int, states=[ValueStateDescriptor("count", int)])
LIST = Operator("list", list_states=[ListStateDescriptor("elements", int)])


def job(*operators, number=None):
    return Job(operators or (COUNTER,), max_parallelism=number)


@pytest.fixture
def stored(tmp_path):
    """`stored(128)`: the description of a savepoint with this number of key groups."""

    def write(number, *operators, parallelism=1):
        place = tmp_path / str(len(list(tmp_path.iterdir())))
        with SavepointWriter(place, job(*operators), max_parallelism=number, parallelism=parallelism) as writer:
            if operators != (LIST,):
                writer.put("counter", "count", 1, 1)
        return Savepoint.open(place).describe()

    return write


def of_groups(report):
    return [(finding.path, finding.rule, finding.old, finding.new) for _, _, finding in report.findings()]


@pytest.mark.parametrize("operators", [(COUNTER,), (LIST,)], ids=["keyed", "without keys"])
@pytest.mark.parametrize(("number", "ours"), [(128, 1000), (1000, 128), (128, 64)])
def test_a_job_that_sets_another_number_is_refused_in_both_directions(stored, operators, number, ours):
    report = check(stored(number, *operators), job(*operators, number=ours).describe())

    assert Decision.REFUSE is report.decision
    assert [("$<operator>", "ROLE-6", f"{number:,}", f"{ours:,}")] == of_groups(report)


@pytest.mark.parametrize("ours", [None, 1000])
def test_a_job_that_sets_the_same_number_or_none_starts(stored, ours):
    report = check(stored(1000), job(number=ours).describe())

    assert (Decision.START, []) == (report.decision, of_groups(report))


def test_keys_that_are_rewritten_get_the_number_of_the_job_or_are_refused(stored):
    old, new = stored(128), job(number=1000).describe()

    assert Decision.MIGRATE is check(old, new, repartition=Repartition(max_parallelism=1000)).decision
    assert Decision.REFUSE is check(old, new, repartition=Repartition(max_parallelism=500)).decision
    same = job(number=128).describe()
    assert Decision.REFUSE is check(old, same, repartition=Repartition(max_parallelism=1000)).decision


@pytest.mark.parametrize(("probe", "parallelism", "told"), [
    (128, 1, "128, which Flink derives"),
    (256, 100, "256, which Flink derives"),
    (1000, 2, "1,000, which Flink does not derive"),
])  # fmt: skip
def test_a_probe_with_another_number_is_a_question(stored, probe, parallelism, told):
    old, new = stored(64), stored(probe, parallelism=parallelism).as_probe()

    report = check(old, new)
    (finding,) = (finding for _, _, finding in report.findings())
    assert (Decision.START, (Flag.UNVERIFIED,)) == (report.decision, tuple(one.flag for one in finding.flags))
    assert told in finding.reason
    assert Decision.REFUSE is check(old, new, policy=Policy(forbid=["unverified"])).decision
    assert Decision.REFUSE is not check(old, new, repartition=Repartition(max_parallelism=probe)).decision


def test_a_savepoint_that_is_migrated_as_it_is_has_no_other_number(stored):
    old = stored(128)

    report = check(old, old, repartition=Repartition(max_parallelism=1000))

    assert ["ROLE-4"] == [rule for _, rule, _, _ in of_groups(report)]


def test_numbers_that_part_operators_are_flagged(stored):
    old, new = stored(128, COUNTER, OTHER), job(COUNTER, OTHER).describe()

    apart = check(old, new, repartition=Repartition(max_parallelism={"other": 1000}))
    together = check(old, new, repartition=Repartition(max_parallelism=1000))
    left = check(old, job(COUNTER).describe(), repartition=Repartition(max_parallelism={"counter": 1000}))

    assert [("other", (Flag.UNVERIFIED,))] == [
        (operator.uid, tuple(one.flag for one in finding.flags))
        for operator, _, finding in apart.findings()
        if finding.rule == "ROLE-6"
    ]
    assert "ROLE-6" not in {rule for _, rule, _, _ in of_groups(together)}
    assert "ROLE-6" in {rule for _, rule, _, _ in of_groups(left)}


def test_a_difference_says_it_in_both_directions(stored):
    between = compare(stored(128), stored(64))
    to_job = compare(stored(128), job(number=64).describe())

    assert (Decision.START, Decision.START) == (between.forwards, between.backwards)
    (operator,) = between.operators
    assert ["64", "128"] == [way.findings[0].new for way in (operator.forwards, operator.backwards)]
    assert (Decision.REFUSE, Decision.START) == (to_job.forwards, to_job.backwards)


def test_the_gate_refuses_another_number_and_records_the_first_one():
    plain, first, second = (job(number=number).describe() for number in (None, 128, 256))

    def gated(old, new):
        revision = Revision("0001", lambda: old)
        return judge([revision], new, Levels(), today=None)

    assert digest(plain) != digest(first) != digest(second)
    assert gated(plain, first).passes
    assert not gated(plain, first).is_recorded
    assert gated(first, first).is_recorded
    assert not gated(first, second).passes


def test_a_new_savepoint_has_the_number_of_its_job(tmp_path):
    def written(name, ours, given):
        with SavepointWriter(tmp_path / name, job(number=ours), max_parallelism=given) as writer:
            writer.put("counter", "count", 1, 1)
        (operator,) = Savepoint.open(tmp_path / name).operators
        return operator.max_parallelism

    assert [128, 1000, 1000, 64] == [
        written(f"{ours}-{given}", ours, given)
        for ours, given in ((None, None), (1000, None), (1000, 1000), (None, 64))
    ]
    with pytest.raises(DeclarationError, match="64 is asked for, and the job sets 1000"):
        written("both", 1000, 64)


@pytest.mark.parametrize("number", [0, -1, 32769, True, "128", 1.5])
def test_numbers_that_flink_does_not_know_are_refused(number):
    with pytest.raises(DeclarationError, match="max parallelism of the job"):
        job(number=number)
