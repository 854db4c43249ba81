"""Stamped values of states with a time to live: Flink's bytes, and the rules STATE-4 to STATE-6 of their serializer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift.serializers.compatibility import CompatibilityResult
from stateshift.serializers.containers import ListSerializer, MapSerializer
from stateshift.serializers.errors import CorruptSavepoint, ValueNotConvertible
from stateshift.serializers.numeric import (
    BooleanSerializer,
    DoubleSerializer,
    IntSerializer,
    IntSerializerSnapshot,
    LongSerializer,
    LongSerializerSnapshot,
)
from stateshift.serializers.optional import OptionalSerializer
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes
from stateshift.serializers.text import StringSerializer
from stateshift.serializers.ttl import TtlSerializer, TtlSerializerSnapshot, TtlValue
from stateshift.serializers.ttl_aware import TtlAwareSerializerSnapshot

LONG, INT, STRING = LongSerializer(), IntSerializer(), StringSerializer()


def test_the_stamp_stands_before_the_value(write, read, stored):
    serializer = TtlSerializer(INT)
    data = bytes.fromhex("000000000000000100000002")

    assert data == write(serializer, TtlValue(1, 2))
    assert TtlValue(1, 2) == read(serializer, data)
    assert TtlValue(1, 2) == read(stored(serializer).restore_serializer(), data)


@pytest.mark.parametrize(("value", "expected"), [(INT, 12), (STRING, -1), (OptionalSerializer(INT, 4), 13)])
def test_the_length_is_that_of_the_value_and_eight(value, expected):
    assert expected == TtlSerializer(value).length


def test_a_bare_value_is_refused_with_the_way_to_stamp_it(write):
    with pytest.raises(ValueNotConvertible, match=r"5 has no time of last access(.|\n)*TtlValue"):
        write(TtlSerializer(INT), 5)


def test_time_stamps_that_are_not_longs_are_corrupt():
    data = snapshot_to_bytes(TtlSerializerSnapshot((IntSerializerSnapshot(), LongSerializerSnapshot())))

    with pytest.raises(CorruptSavepoint, match="time stamps of ttl are described as int"):
        snapshot_from_bytes(data)


def test_the_path_of_the_user_value_is_not_lengthened(write, ask, rules):
    """STATE-6."""
    result = ask(MapSerializer(STRING, TtlSerializer(LONG)), MapSerializer(STRING, TtlSerializer(INT)))

    assert [("${}", "PRIM-2")] == rules(result)
    with pytest.raises(ValueNotConvertible) as caught:
        write(ListSerializer(TtlSerializer(INT)), [TtlValue(1, "x")])
    assert "$[]" == caught.value.where["path"]


def test_the_same_with_ttl_is_compatible(ask):
    """STATE-6."""
    assert CompatibilityResult.compatible() == ask(TtlSerializer(LONG), TtlSerializer(LONG))
    assert ask(TtlSerializer(BooleanSerializer()), TtlSerializer(LONG)).is_incompatible()


@pytest.mark.parametrize("wrap", [lambda value: value, ListSerializer, lambda value: MapSerializer(STRING, value)])
@pytest.mark.parametrize(
    ("enabled", "rule", "reason"),
    [
        (True, "STATE-4", "enabling TTL of stored state is not available in this release"),
        (False, "STATE-5", "disabling TTL of stored state is not available in this release"),
    ],
)
def test_turning_ttl_on_or_off_is_refused_with_the_rule_and_ways_out(ask, wrap, enabled, rule, reason):
    bare, stamped = wrap(LONG), wrap(TtlSerializer(LONG))
    result = ask(stamped, bare) if enabled else ask(bare, stamped)

    assert result.is_incompatible()
    assert [rule] == [finding.rule for finding in result.findings]
    assert reason == result.findings[0].reason
    assert "as it was stored" in result.findings[0].ways_out[0]


def test_flinks_note_of_ttl_around_a_snapshot_changes_no_answer(stored, rules):
    old = stored(TtlSerializer(INT))
    noted = snapshot_from_bytes(snapshot_to_bytes(TtlAwareSerializerSnapshot(has_ttl=True, inner=old)))
    in_list = stored(ListSerializer(TtlSerializer(INT)))
    in_list.nested = (noted,)

    assert TtlSerializer(INT).ensure_compatibility(noted).is_compatible_as_is()
    assert ListSerializer(TtlSerializer(INT)).ensure_compatibility(in_list).is_compatible_as_is()
    assert [("$[]", "STATE-5")] == rules(ListSerializer(INT).ensure_compatibility(in_list))


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1))
def test_conversion_keeps_the_stamp(write, read, stored, ask, stamp, number):
    old, new = TtlSerializer(INT), TtlSerializer(DoubleSerializer())
    result = ask(new, old)
    found = read(stored(old).restore_serializer(), write(old, TtlValue(stamp, number)))

    assert result.conversion is not None
    assert TtlValue(stamp, float(number)) == read(new, write(new, result.conversion(found)))
