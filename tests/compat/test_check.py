"""Rules of state kinds, roles, readers and targets; the rules of types have their tests next to their families."""

from __future__ import annotations

import attrs
import pytest

from stateshift import (
    CompatibilityCheckError,
    DataInputView,
    DataOutputView,
    Decision,
    DeclarationError,
    NothingInCommon,
    Target,
    TtlValue,
    Verdict,
    check,
)
from stateshift.compat.description import (
    Converter,
    JobDescription,
    OperatorDescription,
    SerializerDescription,
    StateKind,
)
from stateshift.compat.old_reader import ReaderSource
from stateshift.compat.report import Status
from stateshift.serializers.containers.lists import ListSerializer, MapSerializer
from stateshift.serializers.containers.ttl import TtlSerializer, TtlSerializerSnapshot
from stateshift.serializers.containers.wrappers import TtlAwareSerializerSnapshot
from stateshift.serializers.flink.namespaces import TimerSerializer
from stateshift.serializers.primitives.numeric import (
    BigIntSerializer,
    BooleanSerializer,
    DoubleSerializer,
    IntSerializer,
    LongSerializer,
    LongSerializerSnapshot,
)
from stateshift.serializers.records.classes import RecordField
from stateshift.serializers.records.serializers import RecordSerializer

VALUE = StateKind.VALUE


@pytest.fixture
def judged(make):
    """Check one state with an old against a new serializer, and give its report."""

    def check_one(old, new, kind=VALUE, **options):
        report = check(make.job(make.state("s", kind, old)), make.job(make.state("s", kind, new)), **options)
        return report.operators[0].states[0]

    return check_one


def found(report):
    return [(finding.path, finding.rule) for finding in report.result.findings if finding.rule != "OPT-5"]


def double(value):
    return value * 2


def test_an_equal_type_starts(judged):
    report = judged(LongSerializer(), LongSerializer())

    assert (Verdict.COMPATIBLE, Decision.START, "") == (report.result.verdict, report.decision, report.reader)


def test_the_question_goes_to_the_new_side_v_1(judged, make):
    refusing, accepting = make.Layout(1, "refuses"), make.Layout(2)

    assert Decision.START == judged(refusing, accepting).decision
    assert Decision.REFUSE == judged(accepting, refusing).decision


def test_equal_questions_get_equal_answers_and_no_state_is_there_to_read_v_3(make):
    old, new = (
        make.job(make.state("s", VALUE, value), make.state("m", StateKind.MAP, MapSerializer(value, value)))
        for value in (IntSerializer(), LongSerializer())
    )

    first, second = (check(old, new).operators[0].states for _ in range(2))

    assert [Decision.MIGRATE] * 2 == [state.decision for state in first]
    assert [state.result for state in first] == [state.result for state in second]


def test_a_stored_type_that_only_notes_the_absence_of_ttl_is_the_type_it_wraps(make):
    """Flink 2 wraps the serializers of states without TTL too, to know later whether it was switched on."""
    wrapped = TtlAwareSerializerSnapshot(has_ttl=False, inner=LongSerializer().snapshot_configuration())
    new = make.state("s", VALUE, LongSerializer())

    report = check(make.job(attrs.evolve(new, value=SerializerDescription(wrapped))), make.job(new))

    assert report.decision is Decision.START


def test_a_wider_number_migrates_with_the_reader_of_the_snapshot(judged):
    report = judged(IntSerializer(), LongSerializer())

    assert (Decision.MIGRATE, "snapshot", [("$", "PRIM-2")]) == (report.decision, report.reader, found(report))


@pytest.mark.parametrize(
    ("kind", "old", "new", "path"),
    [
        (StateKind.LIST, ListSerializer(IntSerializer()), ListSerializer(LongSerializer()), "$[]"),
        (
            StateKind.MAP,
            MapSerializer(LongSerializer(), IntSerializer()),
            MapSerializer(LongSerializer(), LongSerializer()),
            "${}",
        ),
        (StateKind.REDUCING, IntSerializer(), LongSerializer(), "$"),
        (StateKind.AGGREGATING, IntSerializer(), LongSerializer(), "$"),
        (StateKind.SPLIT_LIST, IntSerializer(), LongSerializer(), "$[]"),
        (StateKind.UNION_LIST, IntSerializer(), LongSerializer(), "$[]"),
    ],
)
def test_a_state_of_the_same_kind_gets_the_verdict_of_its_parts_state_3(judged, kind, old, new, path):
    report = judged(old, new, kind)

    assert (Decision.MIGRATE, [(path, "PRIM-2")]) == (report.decision, found(report))


def test_a_migrating_user_key_is_checked_for_collisions_map_3(judged):
    report = judged(
        MapSerializer(IntSerializer(), LongSerializer()),
        MapSerializer(LongSerializer(), LongSerializer()),
        StateKind.MAP,
    )

    assert Decision.MIGRATE == report.decision
    assert ("$<key>", "collision_check") in report.result.flags
    assert [True, False] == [part.is_rewritten for part in report.parts]


def test_a_broadcast_key_may_migrate_with_a_collision_check_map_3(make):
    old = make.state("s", StateKind.BROADCAST, LongSerializer(), key=IntSerializer())
    new = make.state("s", StateKind.BROADCAST, LongSerializer(), key=LongSerializer())

    report = check(make.job(old), make.job(new)).operators[0].states[0]

    assert Decision.MIGRATE == report.decision
    assert [("$<key>", "MAP-3"), ("$<key>", "PRIM-2")] == found(report)


def test_a_changed_kind_is_refused_state_1(make):
    old = make.job(make.state("s", VALUE, LongSerializer()))
    new = make.job(make.state("s", StateKind.LIST, ListSerializer(LongSerializer())))

    report = check(old, new).operators[0].states[0]

    assert (Decision.REFUSE, [("$<state>", "STATE-1")]) == (report.decision, found(report))


def test_a_state_that_moved_from_keyed_to_broadcast_is_a_changed_kind_and_not_lost(make):
    old = make.job(make.state("s", VALUE, LongSerializer()))
    new = make.job(make.state("s", StateKind.BROADCAST, LongSerializer(), key=LongSerializer()))

    (report,) = check(old, new).operators[0].states

    assert [("$<state>", "STATE-1")] == found(report)


def test_a_keyed_and_an_operator_state_may_share_a_name(make):
    both = make.job(
        make.state("s", VALUE, LongSerializer()), make.state("s", StateKind.SPLIT_LIST, BooleanSerializer())
    )

    report = check(both, both)

    assert [(VALUE, Status.MATCHED), (StateKind.SPLIT_LIST, Status.MATCHED)] == sorted(
        ((state.kind, state.status) for _, state in report.states()), key=lambda pair: pair[0] is not VALUE
    )
    assert Decision.START == report.decision


def test_orphaned_and_new_states(make):
    """G28."""
    old = make.job(make.state("gone", VALUE, LongSerializer()), make.state("same", VALUE, LongSerializer()))
    new = make.job(make.state("same", VALUE, LongSerializer()), make.state("fresh", VALUE, DoubleSerializer()))

    report = check(old, new)

    assert [("fresh", Status.NEW), ("gone", Status.ORPHANED), ("same", Status.MATCHED)] == [
        (state.name, state.status) for _, state in report.states()
    ]
    assert Decision.START == report.decision


def operator(make, digit, uid, name="s"):
    return OperatorDescription(digit * 32, uid, states=(make.state(name, VALUE, LongSerializer()),))


def test_orphaned_and_new_operators_affect_nothing(make):
    old = JobDescription("savepoint", (operator(make, "a", "gone"), operator(make, "b", "shared")))
    new = JobDescription("job", (operator(make, "b", "shared"), operator(make, "f", "other", "t")))

    report = check(old, new)

    assert [("gone", Status.ORPHANED), ("other", Status.NEW), ("shared", Status.MATCHED)] == [
        (one.uid, one.status) for one in report.operators
    ]
    assert Decision.START == report.decision


def test_a_job_without_any_operator_of_the_savepoint_is_an_error_that_names_both(make):
    old, new = (
        JobDescription("savepoint", (operator(make, "a", "accounts"),)),
        JobDescription("job", (operator(make, "f", "acounts"),)),
    )

    with pytest.raises(NothingInCommon, match="declares acounts; the savepoint has accounts"):
        check(old, new)


def test_values_that_cannot_be_read_are_refused_where_they_would_be_rewritten_and_fine_where_not(make):
    unread = SerializerDescription(LongSerializer().snapshot_configuration(), unread="stored in a native format")
    old = make.job(attrs.evolve(make.state("s", VALUE, LongSerializer()), value=unread))

    same = check(old, make.job(make.state("s", VALUE, LongSerializer())))
    widened = check(old, make.job(make.state("s", VALUE, BigIntSerializer())))

    assert Decision.START == same.decision
    assert Decision.REFUSE == widened.decision
    assert [("READ-4", "stored in a native format"), ("PRIM-2", "every long fits a bigint, in other bytes")] == [
        (finding.rule, finding.reason) for _, _, finding in widened.findings()
    ]


@pytest.mark.parametrize("answer", ["compatible", "reconfigured"])
def test_a_key_that_keeps_its_bytes_is_accepted_role_1_role_3(make, answer):
    states = (make.state("s", VALUE, LongSerializer()),)

    report = check(make.job(*states, key=make.Layout(1)), make.job(*states, key=make.Layout(2, answer)))

    assert Decision.START == report.decision
    assert not report.operators[0].key.result.is_incompatible()


@pytest.mark.parametrize(
    ("old", "new"),
    [(IntSerializer(), LongSerializer()), (LongSerializer(), IntSerializer())],
    ids=["widened", "narrowed"],
)
def test_a_key_that_would_be_rewritten_is_refused_role_2(make, old, new):
    report = check(
        make.job(make.state("s", VALUE, LongSerializer()), key=old),
        make.job(make.state("s", VALUE, LongSerializer()), key=new),
    )
    (operator,) = report.operators

    assert ("$<key>", "ROLE-2") == found(operator.key)[0]
    assert {"$<key>"} == {path for path, _ in found(operator.key)}
    ways = {way for finding in operator.key.result.findings for way in map(str, finding.ways_out)}
    assert {"keep the old type", "give the operator a new uid, and build its state again"} < ways
    assert any("migrate --repartition" in way or "migrate with --repartition" in way for way in ways)
    assert (Decision.REFUSE, 1) == (report.decision, report.exit_status(allow_migration=True))
    assert "the key of its operator is refused" in operator.states[0].note


def test_a_refused_key_says_nothing_of_operator_state(make):
    states = (make.state("s", StateKind.SPLIT_LIST, LongSerializer()),)

    report = check(make.job(*states, key=IntSerializer()), make.job(*states, key=LongSerializer()))

    assert Decision.START == report.operators[0].states[0].decision


@pytest.mark.parametrize(("answer", "decision"), [("reconfigured", Decision.START), ("migrates", Decision.REFUSE)])
def test_a_namespace_follows_the_rules_of_keys_role_5(make, answer, decision):
    old = make.state("s", VALUE, LongSerializer(), namespace=make.Layout(1))
    new = make.state("s", VALUE, LongSerializer(), namespace=make.Layout(2, answer))

    report = check(make.job(old), make.job(new)).operators[0].states[0]

    assert decision == report.decision
    if decision is Decision.REFUSE:
        assert [("$<namespace>", "ROLE-5"), ("$<namespace>", "TEST-1")] == found(report)


def test_a_timer_queue_follows_the_rules_of_keys(judged):
    def timers(key):
        return TimerSerializer(key, LongSerializer())

    kept = judged(timers(LongSerializer()), timers(LongSerializer()), StateKind.TIMERS)
    refused = judged(timers(IntSerializer()), timers(LongSerializer()), StateKind.TIMERS)

    assert Decision.START == kept.decision
    assert (Decision.REFUSE, [("$<key>", "ROLE-2"), ("$<key>", "PRIM-2")]) == (refused.decision, found(refused))


def test_list_state_whose_serializer_has_no_elements_cannot_migrate(judged, make):
    report = judged(ListSerializer(IntSerializer()), make.Layout(2, "migrates"), StateKind.LIST)

    assert (Decision.REFUSE, ("$", "STATE-3")) == (report.decision, found(report)[0])


def test_an_exception_inside_a_check_is_an_error_with_its_place_v_6(judged, make):
    with pytest.raises(CompatibilityCheckError, match="no answer") as caught:
        judged(make.Layout(1), make.Layout(2, "raises"))

    assert {"path": "$", "state": "s", "operator": "accounts"} == caught.value.where


def test_a_verdict_without_findings_still_carries_one_comp_6(judged, make):
    class Silent(make.Layout):
        def ensure_compatibility(self, snapshot):
            return attrs.evolve(super().ensure_compatibility(snapshot), findings=())

    report = judged(make.Layout(1), Silent(2, "refuses"))

    assert [("$", "COMP-6")] == found(report)
    assert report.result.findings[0].ways_out


def test_reader_not_touched_when_compatible(judged, make):
    """J13, READ-7: the snapshot would raise."""
    report = judged(make.LayoutSnapshot(1, restorable=False), make.Layout(1))

    assert (Decision.START, "") == (report.decision, report.reader)


def test_a_migration_that_nothing_can_read_is_refused_with_all_reasons_read_4(judged, make):
    report = judged(make.LayoutSnapshot(1, restorable=False), make.Layout(2, "migrates"))

    assert (Decision.REFUSE, [("$", "READ-4"), ("$", "TEST-1")]) == (report.decision, found(report))
    reason = report.result.findings[0].reason
    assert "the class is gone" in reason
    assert "the savepoint has none" in reason
    assert "fallback: the job has none" in reason


def test_a_removed_field_that_nothing_can_read_takes_a_fallback_rec_4_read_4(judged, make):
    class Gone(make.Layout):
        def snapshot_configuration(self):
            return make.LayoutSnapshot(1, restorable=False)

    new = RecordSerializer("shop.Account", (RecordField("id", LongSerializer()),))
    old = attrs.evolve(new, fields=(*new.fields, RecordField("odd", Gone())))

    refused = judged(old, new)
    migrated = judged(old, SerializerDescription.of(new, fallback=old))

    assert (Decision.REFUSE, [("$", "READ-4"), ("$.odd", "REC-4")]) == (refused.decision, found(refused))
    assert "snapshot: the class is gone (at $.odd)" in refused.result.findings[0].reason
    assert (Verdict.REQUIRES_MIGRATION_WITH_FALLBACK, "fallback") == (migrated.result.verdict, migrated.reader)


def test_a_fallback_serves_where_the_snapshot_cannot_read_3(judged, make):
    new = SerializerDescription.of(make.Layout(2, "migrates"), fallback=make.Layout(1))

    report = judged(make.LayoutSnapshot(1, restorable=False), new)

    assert (Verdict.REQUIRES_MIGRATION_WITH_FALLBACK, "fallback") == (report.result.verdict, report.reader)


@pytest.mark.parametrize("is_on", [True, False])
def test_a_fallback_reads_what_lies_after_the_time_stamp_read_3(judged, make, is_on):
    gone = TtlSerializerSnapshot((LongSerializerSnapshot(), make.LayoutSnapshot(1, restorable=False)))
    bare = make.Layout(2, "migrates")
    new = SerializerDescription.of(TtlSerializer(bare) if is_on else bare, fallback=make.Layout(1))
    stored = DataOutputView()
    TtlSerializer(make.Layout(1)).serialize(TtlValue(77, 5), stored)

    (part,) = judged(gone, new).parts

    assert ReaderSource.FALLBACK is part.reader.source
    assert TtlValue(77, 5) == part.reader.reader.deserialize(DataInputView(stored.getvalue()))


def test_fallback_not_used_when_restorable(judged, make):
    """J12, READ-6."""
    new = SerializerDescription.of(make.Layout(2, "migrates"), fallback=make.Layout(1))

    report = judged(make.LayoutSnapshot(1), new)

    assert (Verdict.REQUIRES_MIGRATION, "snapshot") == (report.result.verdict, report.reader)


def test_a_converter_turns_a_refusal_into_a_migration_that_keeps_the_findings(judged):
    new = SerializerDescription.of(IntSerializer(), converter=Converter.of(double))

    report = judged(LongSerializer(), new)
    (finding,) = report.result.findings

    assert (Verdict.REQUIRES_MIGRATION, "PRIM-3") == (report.result.verdict, finding.rule)
    assert Verdict.REQUIRES_MIGRATION == finding.verdict
    assert str(finding.ways_out[0]).endswith("double decides")
    assert report.converter.endswith("double")


def test_a_converter_of_map_values_does_not_excuse_the_user_key(judged):
    new = SerializerDescription.of(MapSerializer(IntSerializer(), LongSerializer()), converter=Converter.of(double))

    report = judged(MapSerializer(LongSerializer(), IntSerializer()), new, StateKind.MAP)

    assert Decision.REFUSE == report.decision
    assert ("$<key>", "PRIM-3") in found(report)


def test_an_unreadable_operator_is_refused_only_where_the_job_needs_its_state(make):
    old = make.job(unreadable="the snapshot class 'com.acme.Odd' is not known")

    needed, kept = check(old, make.job(make.state("s", VALUE, LongSerializer()))), check(old, make.job())

    assert (Decision.REFUSE, Decision.START) == (needed.decision, kept.decision)
    (state,) = needed.operators[0].states
    assert "com.acme.Odd" in state.result.findings[0].reason
    assert Status.UNREADABLE == state.status


def test_losing_flink_is_an_error_only_when_flink_is_the_target(make):
    converted = SerializerDescription.of(make.Layout(2, "migrates"))
    old, new = make.job(make.state("s", VALUE, LongSerializer())), make.job(make.state("s", VALUE, converted))

    anyone, flink = check(old, new, target=Target.ANY), check(old, new, target=Target.FLINK)

    assert (Decision.MIGRATE, Decision.REFUSE) == (anyone.decision, flink.decision)
    assert ("$", "TARGET-FLINK") == found(flink.operators[0].states[0])[0]
    assert (True, False) == (anyone.operators[0].flink_restorable_before, anyone.operators[0].flink_restorable_after)


def test_what_flink_could_not_restore_before_is_no_loss(make):
    old, new = make.job(make.state("s", VALUE, make.Layout(1))), make.job(make.state("s", VALUE, make.Layout(1)))

    report = check(old, new, target=Target.FLINK)

    assert Decision.START == report.decision
    assert False is report.operators[0].flink_restorable_before


def test_flink_needs_the_header_of_a_reconfigured_state_rewritten(make):
    class Reconfigured(LongSerializer):
        def ensure_compatibility(self, snapshot):
            from stateshift import CompatibilityResult

            return CompatibilityResult.compatible_after_reconfiguration(DoubleSerializer())

    old, new = make.job(make.state("s", VALUE, LongSerializer())), make.job(make.state("s", VALUE, Reconfigured()))

    anyone, flink = check(old, new, target=Target.ANY), check(old, new, target=Target.FLINK)
    (state,) = flink.operators[0].states

    assert (Decision.START, Decision.MIGRATE) == (anyone.decision, flink.decision)
    assert Verdict.COMPATIBLE_AFTER_RECONFIGURATION == state.result.verdict
    assert "header" in state.note


@pytest.mark.parametrize(
    ("new", "allow", "status"),
    [
        (LongSerializer(), False, 4),
        (LongSerializer(), True, 0),
        (IntSerializer(), False, 0),
        (BooleanSerializer(), True, 1),
    ],
)
def test_the_exit_status_says_start_migrate_or_refuse(make, new, allow, status):
    report = check(make.job(make.state("s", VALUE, IntSerializer())), make.job(make.state("s", VALUE, new)))

    assert status == report.exit_status(allow_migration=allow)


def test_equal_snapshots_need_no_serializer_to_be_compatible(judged, make):
    same = make.LayoutSnapshot(1, restorable=False)

    assert Decision.START == judged(same, make.LayoutSnapshot(1, restorable=False)).decision


def test_a_savepoint_can_be_the_new_side(judged):
    report = judged(IntSerializer().snapshot_configuration(), LongSerializer().snapshot_configuration())

    assert Decision.MIGRATE == report.decision


def test_what_is_no_description_is_refused_with_the_call_that_was_meant(make):
    described = make.job(make.state("s", VALUE, LongSerializer()))
    for sides in ((described, "a job"), (None, described)):
        with pytest.raises(DeclarationError, match=r"is not a description\n.*job\.describe\(\)"):
            check(*sides)
