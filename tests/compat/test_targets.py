"""Which types a named Flink could not read, and what another major release has stored."""

from __future__ import annotations

import pytest

from stateshift import Decision, Target, check
from stateshift.compat.description import (
    JobDescription,
    OperatorDescription,
    SerializerDescription,
    StateDescription,
    StateKind,
)
from stateshift.serializers.containers.lists import ListSerializer, ListSerializerSnapshot
from stateshift.serializers.containers.wrappers import TtlAwareSerializerSnapshot
from stateshift.serializers.enums.serializers import JavaEnumSerializer
from stateshift.serializers.flink.opaque import KryoSerializerSnapshot
from stateshift.serializers.primitives.numeric import LongSerializer
from stateshift.serializers.records.classes import RecordField
from stateshift.serializers.records.pojo import PojoSerializer
from stateshift.serializers.records.serializers import RecordSerializer

LONG = LongSerializer().snapshot_configuration()
KRYO = ListSerializerSnapshot((KryoSerializerSnapshot("fx.Odd"),))
TTL_AWARE = TtlAwareSerializerSnapshot(has_ttl=False, inner=LONG)
UNTOUCHED = OperatorDescription("f" * 32, "other", key=SerializerDescription(LONG))


def stored(snapshot, *, by, uid="odd"):
    state = StateDescription("odd", StateKind.VALUE, SerializerDescription(snapshot))
    operator = OperatorDescription("0" * 32, uid, key=SerializerDescription(LONG), states=(state,))
    return JobDescription("savepoint", (operator, UNTOUCHED), stored_by=by)


NEW_SIDES = {
    "in the job": lambda old: old,
    "not in the job": lambda old: JobDescription("job", old.operators[1:]),
}


@pytest.mark.parametrize("side", NEW_SIDES)
@pytest.mark.parametrize(
    ("snapshot", "by", "target", "reason"),
    [
        (KRYO, "2", Target.FLINK_1_20, "Flink 1.20 cannot read list<kryo<fx.Odd>>: Flink 1 holds Kryo 2"),
        (KRYO, "1", Target.FLINK_2_3, "Flink 2.3 cannot read list<kryo<fx.Odd>>: Flink 1 holds Kryo 2"),
        (TTL_AWARE, "2", Target.FLINK_1_20, "Flink 1.20 cannot read long: its snapshot"),
    ],
)
def test_what_the_named_flink_cannot_read_is_refused(snapshot, by, target, reason, side):
    old = stored(snapshot, by=by)

    report = check(old, NEW_SIDES[side](old), target=target)

    ((operator, state, finding),) = report.findings()
    assert (Decision.REFUSE, "odd", "odd", "TARGET-FLINK") == (
        report.decision,
        operator.title,
        state.name,
        finding.rule,
    )
    assert finding.reason.startswith(reason)


@pytest.mark.parametrize(
    ("snapshot", "by", "target"),
    [
        (KRYO, "2", Target.FLINK_2_3),
        (KRYO, "1", Target.FLINK_1_20),
        (KRYO, "2", Target.FLINK),
        (KRYO, "1", Target.ANY),
        (TTL_AWARE, "2", Target.FLINK_2_3),
        (LONG, "2", Target.FLINK_1_20),
    ],
)
def test_what_the_target_can_read_starts(snapshot, by, target):
    old = stored(snapshot, by=by)

    assert Decision.START is check(old, old, target=target).decision


def test_a_savepoint_shows_the_major_release_that_wrote_it(savepoint_of):
    from stateshift import Savepoint

    places = [savepoint_of("hashmap-account-v1", version=version) for version in ("1.20", "2.3")]

    assert ["1", "2"] == [Savepoint.open(place).describe().stored_by for place in places]


def letters(java_class, *symbols, **options):
    return JavaEnumSerializer(symbols, java_class, **options)


def record(name, *fields, **options):
    made = tuple(sorted((RecordField(*given) for given in fields), key=lambda field: field.name))
    return PojoSerializer(name, made, **options)


MAKER = record("shop.Maker", ("maker", LongSerializer()))
ALIASED = RecordField("mfr", LongSerializer(), aliases=("maker",))
HEADER_ONLY = {
    "REC-6": (MAKER, PojoSerializer("shop.Maker", (ALIASED,))),
    "REC-11": (MAKER, record("shop.Moved", ("maker", LongSerializer()), aliases=("shop.Maker",))),
    "ENUM-6": (letters("E", "A"), letters("E", "B", symbol_aliases=(("B", ("A",)),))),
    "ENUM-7": (letters("E", "A"), letters("shop.E", "A", aliases=("E",))),
}


@pytest.mark.parametrize("rule", HEADER_ONLY)
@pytest.mark.parametrize("wrap", [lambda one: one, ListSerializer], ids=["itself", "in a list"])
def test_the_current_restorer_decides_if_no_target_is_given(make, rule, wrap):
    """Flink reads null, or refuses, under the old header; stateshift pairs by alias (tried in tests/interop)."""
    old, new = (make.job(make.state("s", StateKind.VALUE, wrap(one))) for one in HEADER_ONLY[rule])

    (state,) = check(old, new).operators[0].states

    assert (Decision.MIGRATE, True) == (state.decision, "header" in state.note)
    assert Decision.MIGRATE is check(old, new, target=Target.FLINK).decision
    assert Decision.START is check(old, new, target=Target.ANY).decision
    assert new.operators[0].states[0].value.snapshot == state.labels_after.value


@pytest.mark.parametrize("rule", ["ENUM-6", "ENUM-7"])
def test_the_key_of_broadcast_state_has_a_header_too(make, rule):
    value = SerializerDescription.of(LongSerializer())
    old, new = (
        make.job(StateDescription("s", StateKind.BROADCAST, value, SerializerDescription.of(key)))
        for key in HEADER_ONLY[rule]
    )

    (state,) = check(old, new).operators[0].states

    assert (Decision.MIGRATE, Decision.START) == (state.decision, check(old, new, target=Target.ANY).decision)
    assert new.operators[0].states[0].key.snapshot == state.labels_after.key


def test_what_flink_reconfigures_itself_needs_no_header(make):
    """ENUM-2, ENUM-3 and REC-14 (tried in tests/interop)."""
    old, new = (make.job(make.state("s", StateKind.VALUE, letters("E", *of))) for of in ("AB", "CBA"))

    assert Decision.START is check(old, new).decision is check(old, new, target=Target.FLINK).decision


def test_an_operator_that_flink_cannot_restore_is_judged_for_stateshift(make):
    """Before or after: one type of its own is enough, as Flink refuses the whole operator over it."""
    old, new = (make.state("s", StateKind.VALUE, one) for one in HEADER_ONLY["REC-6"])
    own = make.state("own", StateKind.VALUE, RecordSerializer("shop.Own", (RecordField("a", LongSerializer()),)))

    assert Decision.START is check(make.job(old, own), make.job(new, own)).decision
    assert Decision.START is check(make.job(old), make.job(new, own)).decision
    assert Decision.MIGRATE is check(make.job(old), make.job(new)).decision
