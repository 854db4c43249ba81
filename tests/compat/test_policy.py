"""A policy makes any flag an error, and changes no verdict (rules, section 1 and section 2, step 6)."""

from __future__ import annotations

import attrs
import pytest

from stateshift import (
    CompatibilityResult,
    Decision,
    Finding,
    Flag,
    IncompatibleState,
    Job,
    Operator,
    Policy,
    TypeSerializer,
    ValueStateDescriptor,
    Verdict,
    check,
    serializer_for,
)
from stateshift.compat import explain
from stateshift.compat.description import StateKind
from stateshift.compat.planner import plan
from stateshift.compat.policy import LOOK
from stateshift.compat.report_data import to_data
from stateshift.serializers.containers.lists import MapSerializer
from stateshift.serializers.primitives.numeric import DoubleSerializer, IntSerializer, LongSerializer

DETAILS = {Flag.DROPS: ":$.name", Flag.POSSIBLE_RENAME: ":name->title"}


@attrs.frozen
class FlaggedSerializer(TypeSerializer[int]):
    """Answers with one flag, on the verdict that is asked for."""

    flag: str
    verdict: Verdict

    def serialize(self, value, target):
        target.write_long(value)

    def deserialize(self, source):
        return source.read_long()

    def snapshot_configuration(self):
        return LongSerializer().snapshot_configuration()

    def ensure_compatibility(self, snapshot):
        finding = Finding("$", "TEST-1", self.verdict, "one", "two", "so it is", ("keep it",), flags=(self.flag,))
        return CompatibilityResult(self.verdict, (finding,))


@pytest.fixture
def judged(make):
    """Check one state with an old against a new serializer under a policy; the whole report."""

    def check_one(old, new, *forbidden, kind=StateKind.VALUE):
        jobs = [make.job(make.state("s", kind, side)) for side in (old, new)]
        return check(*jobs, policy=Policy(forbidden))

    return check_one


@pytest.mark.parametrize("verdict", [Verdict.COMPATIBLE, Verdict.REQUIRES_MIGRATION])
@pytest.mark.parametrize("flag", Flag)
def test_any_flag_can_be_made_an_error_and_the_verdict_stays(judged, flag, verdict):
    report = judged(LongSerializer(), FlaggedSerializer(flag + DETAILS.get(flag, ""), verdict), flag)

    (state,) = report.operators[0].states
    (finding,) = state.result.findings
    assert (Decision.REFUSE, verdict, verdict) == (state.decision, state.result.verdict, finding.verdict)
    looks = (str(LOOK),) if flag is Flag.MAY_FAIL_PER_VALUE else ()
    assert ((flag,), (*looks, "keep it", f"accept it: do not forbid {flag}")) == (
        finding.forbidden,
        tuple(map(str, finding.ways_out)),
    )
    assert 1 == report.exit_status(allow_migration=True)


@pytest.mark.parametrize("flag", Flag)
def test_a_flag_is_accepted_where_only_the_others_are_forbidden(judged, flag):
    new = FlaggedSerializer(flag + DETAILS.get(flag, ""), Verdict.REQUIRES_MIGRATION)

    report = judged(LongSerializer(), new, *set(Flag) - {flag})

    assert Decision.MIGRATE is report.decision
    assert () == report.operators[0].states[0].result.findings[0].forbidden


def test_a_long_that_becomes_a_double_is_refused_where_loss_is_forbidden_and_text_and_data_say_so(judged):
    report = judged(LongSerializer(), DoubleSerializer(), Flag.LOSSY)

    text = "\n".join(explain.text_lines(report))
    assert text.startswith("refuse: 1 of 1 state cannot be taken over by the new types; the policy forbids lossy\n")
    assert "s  value  long: refuse (requires_migration" in text
    assert "refuse   $  long -> double" in text
    assert "[PRIM-2] lossy (forbidden)\n" in text
    assert text.endswith("ways out: keep the old type; or accept it: do not forbid lossy")
    data = to_data(report)
    assert (["lossy"], "refuse", "requires_migration") == (data["forbid"], data["decision"], data["verdict"])
    assert ["lossy"] == data["operators"][0]["states"][0]["findings"][0]["forbidden"]


def test_a_remark_that_is_forbidden_is_reported_as_a_refusal(judged):
    new = FlaggedSerializer(Flag.UNVERIFIED, Verdict.COMPATIBLE)

    lines = explain.text_lines(judged(LongSerializer(), new, Flag.UNVERIFIED))

    assert "    refuse   $  one -> two  so it is  [TEST-1] unverified (forbidden)" in lines


def test_no_plan_is_made_of_what_is_forbidden(judged):
    report = judged(LongSerializer(), DoubleSerializer(), Flag.LOSSY)

    with pytest.raises(IncompatibleState, match=r"lossy \(forbidden\)(.|\n)*do not forbid lossy"):
        plan(report)


def test_a_user_key_that_might_collide_is_refused_where_that_is_forbidden_map_3(judged):
    old, new = (MapSerializer(key, LongSerializer()) for key in (IntSerializer(), LongSerializer()))

    report = judged(old, new, Flag.COLLISION_CHECK, kind=StateKind.MAP)

    assert Decision.REFUSE is report.decision
    assert ["$<key>"] == [found.path for _, _, found in report.findings() if found.forbidden]


def test_a_flag_of_the_operators_key_counts_too(make):
    sides = [
        make.job(make.state("s", StateKind.VALUE, LongSerializer()), key=key)
        for key in (LongSerializer(), FlaggedSerializer(Flag.UNVERIFIED, Verdict.COMPATIBLE))
    ]

    report = check(*sides, policy=Policy(Flag))

    assert (Decision.REFUSE, Decision.START) == (report.operators[0].decision, report.operators[0].states[0].decision)


def test_a_flag_may_be_named_and_a_misspelt_one_is_an_error():
    assert Policy({Flag.LOSSY}) == Policy(["lossy"])
    with pytest.raises(ValueError, match="losy"):
        Policy(["losy"])


def test_accepted_flags_are_in_the_plan_that_the_lineage_keeps_run_6(judged):
    migration = plan(judged(serializer_for(bytes), serializer_for(str)))

    assert (("$", "may_fail_per_value"),) == migration.operators[0].states[0].flags


def test_where_a_converter_decides_nothing_is_flagged_that_only_the_rules_would_lose():
    before, after = (
        attrs.make_class("Account", {name: attrs.field(type=int, default=0)}) for name in ("cents", "euros")
    )

    def decision(**more):
        old, new = (
            Job([Operator("bank", key=int, states=[ValueStateDescriptor("account", cls, **given)])]).describe()
            for cls, given in ((before, {}), (after, more))
        )
        return check(old, new, policy=Policy(frozenset({Flag.DROPS, Flag.POSSIBLE_RENAME}))).decision

    assert Decision.REFUSE is decision()
    assert Decision.MIGRATE is decision(converter=lambda account: after(account.cents // 100))


class OfAStart(Policy):
    """A policy that its caller did not set."""

    accepted_by = "pass options=MigrationOptions() to start"


def test_what_a_default_policy_refuses_is_not_called_a_policy_of_the_caller():
    long, double = (Job([Operator("op", key=str, states=[ValueStateDescriptor("n", of)])]) for of in (int, float))
    report = check(long.describe(), double.describe(), policy=OfAStart({Flag.LOSSY}))

    text = "\n".join(explain.text_lines(report))

    assert "not accepted by default: lossy" in text.splitlines()[0]
    assert "accept it: pass options=MigrationOptions() to start" in text
    assert "forbid" not in text.replace("(forbidden)", "")
