"""A savepoint as the new side of a check."""

from __future__ import annotations

import attrs
import pytest

from stateshift import Decision, Job, NothingInCommon, Operator, Savepoint, check, load_job, serializer_for
from stateshift.compat import explain
from stateshift.compat.description import JobDescription, StateKind
from stateshift.compat.report import Status
from stateshift.serializers.defaults import Default
from stateshift.serializers.flink.opaque import AvroSerializerSnapshot
from stateshift.serializers.records.classes import RecordField
from stateshift.serializers.records.pojo import PojoSerializer, java_default


@pytest.fixture
def stored_in(savepoint_of):
    def describe(name, version="2.3"):
        return Savepoint.open(savepoint_of(name, version=version)).describe()

    return describe


def findings_of(report):
    """Every difference, without remarks that only a declared type can lead to (REC-17, OPT-5)."""
    return [
        (state.name, finding.path, finding.rule, finding.verdict)
        for _, state, finding in report.findings()
        if finding.rule not in {"REC-17", "OPT-5", "ROLE-6"}  # the numbers of key groups differ, too
    ]


@pytest.mark.parametrize("source", ["hashmap-account-v1", "rocksdb-account-v1"])
@pytest.mark.parametrize("version", [2, 3])
def test_a_probe_leads_to_the_verdicts_of_the_declared_classes(stored_in, root, monkeypatch, source, version):
    monkeypatch.syspath_prepend(str(root / "examples"))
    stored, job = stored_in(source), load_job(f"accounts_v{version}:job").describe()

    declared = check(stored, job)
    probed = check(stored, stored_in(f"hashmap-account-v{version}").as_probe())

    assert findings_of(declared) == findings_of(probed)
    assert declared.decision is probed.decision is Decision.MIGRATE
    for old, new in zip(declared.states(), probed.states(), strict=True):
        assert old[1].name == new[1].name
        assert old[1].result.verdict is new[1].result.verdict
        assert old[1].decision is new[1].decision


def test_added_fields_get_javas_defaults(stored_in):
    report = check(stored_in("hashmap-account-v1"), stored_in("hashmap-account-v3").as_probe())

    reasons = {f.path: f.reason for _, state, f in report.findings() if f.rule == "REC-2" and state.name == "account"}
    assert {
        "$.email": "the field is new; stored records get Java's default null",
        "$.score": "the field is new; stored records get Java's default 0.0",
    } == reasons


@pytest.mark.parametrize(
    ("hint", "default"), [(int, 0), (float, 0.0), (bool, False), (str, None), (list[int], None), (int | None, None)]
)
def test_javas_defaults(hint, default):
    assert Default(default) == java_default(serializer_for(hint).snapshot_configuration())


def test_a_restored_class_restores_to_the_snapshot_it_came_from():
    serializer = PojoSerializer("a.B", (RecordField("n", serializer_for(int)), RecordField("s", serializer_for(str))))
    snapshot = serializer.snapshot_configuration()

    assert snapshot == snapshot.restore_serializer().snapshot_configuration()


def without(description, *names):
    operators = [
        attrs.evolve(operator, states=tuple(state for state in operator.states if state.name not in names))
        for operator in description.operators
    ]
    return attrs.evolve(description, operators=tuple(operators))


def test_what_is_not_in_the_probe_is_kept_and_said_so(stored_in):
    stored = stored_in("hashmap-account-v1")
    probe = without(stored_in("hashmap-account-v3"), "accounts", "_timer_state/event_user-timers")
    probe = attrs.evolve(probe, operators=tuple(o for o in probe.operators if o.uid == "account-state"))

    report = check(stored, probe.as_probe())

    left = {state.name for _, state in report.states() if state.status is Status.NOT_IN_PROBE}
    assert {"accounts", "_timer_state/event_user-timers", "pending"} == left
    assert Status.NOT_IN_PROBE is next(o for o in report.operators if o.uid == "account-state-lists").status
    lines = explain.text_lines(report)
    assert "  accounts  list  list<fx.evo.Account>: not in the probe: kept" in lines
    assert any(line.endswith("account-state lists: not in the probe: kept") for line in lines)
    assert "  _timer_state/event_user-timers  timers  timer<long, VoidNamespace>: kept" in lines
    assert not any("only in the stored state" in line for line in lines)


def test_a_probe_of_another_job_is_refused_at_once(stored_in):
    with pytest.raises(
        NothingInCommon, match="its operators with state are window-list, window-reduce; the savepoint has"
    ):
        check(stored_in("hashmap-account-v1"), stored_in("hashmap-windows-p2-m128").as_probe())


def test_a_probe_without_any_state_is_no_probe(stored_in):
    with pytest.raises(NothingInCommon, match="its operators with state are none"):
        check(stored_in("hashmap-account-v1"), JobDescription("savepoint empty").as_probe())


def test_two_backends_of_one_job_start_from_each_other(stored_in):
    report = check(stored_in("hashmap-zoo-p1-m128"), stored_in("rocksdb-zoo-p1-m200").as_probe())

    assert Decision.START is report.decision
    assert {Status.MATCHED} == {state.status for _, state in report.states()}


def test_a_changed_type_that_is_not_read_is_refused_and_not_an_error(stored_in):
    probe = stored_in("hashmap-zoo-p1-m128")
    avro = attrs.evolve(probe.operators[0].states[0].value, snapshot=AvroSerializerSnapshot(runtime_class="fx.Click"))
    operators = [
        attrs.evolve(
            operator,
            states=tuple(attrs.evolve(s, value=avro) if s.name == "date" else s for s in operator.states),
        )
        for operator in probe.operators
    ]

    report = check(stored_in("hashmap-zoo-p1-m128"), attrs.evolve(probe, operators=tuple(operators)).as_probe())

    (refused,) = [state for _, state in report.states() if state.decision is Decision.REFUSE]
    assert "date" == refused.name
    (finding,) = refused.result.findings
    assert (
        "it differs from what is stored, and cannot be compared: values of avro<fx.Click> are not read by this release"
        == (finding.reason)
    )


def test_a_changed_key_that_is_not_read_is_refused_and_not_an_error(make):
    stored = make.job(make.state("a", StateKind.VALUE, serializer_for(int)), key=serializer_for(int))
    probe = make.job(
        make.state("a", StateKind.VALUE, serializer_for(int).snapshot_configuration()), key=AvroSerializerSnapshot()
    )

    report = check(stored, probe.as_probe())

    assert Decision.REFUSE is report.operators[0].key.decision
    assert "READ-4" == report.operators[0].key.result.findings[0].rule


def test_an_unreadable_operator_in_the_probe_is_refused(stored_in):
    probe = stored_in("hashmap-account-v3")
    operators = [attrs.evolve(o, states=(), key=None, unreadable="a class X is not known") for o in probe.operators]

    report = check(stored_in("hashmap-account-v1"), attrs.evolve(probe, operators=tuple(operators)).as_probe())

    assert Decision.REFUSE is report.decision
    assert {"the operator's state in the probe is not known: a class X is not known"} == {
        finding.reason for _, _, finding in report.findings()
    }


def test_a_job_in_code_is_no_probe(stored_in):
    report = check(stored_in("hashmap-account-v1"), Job([Operator("account-state", key=int)]).describe())

    assert {Status.ORPHANED} == {state.status for _, state in report.states()}
