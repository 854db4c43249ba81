"""Stamped values of states with a time to live: Flink's bytes, and the rules STATE-4 to STATE-6 of their serializer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import (
    CompatibilityResult,
    CorruptSavepoint,
    DeclarationError,
    SqlTimestamp,
    TtlValue,
    ValueNotConvertible,
    serializer_for,
)
from stateshift.serializers import rewrite
from stateshift.serializers.containers.lists import ListSerializer, MapSerializer
from stateshift.serializers.containers.ttl import (
    AtTime,
    TtlSerializer,
    TtlSerializerSnapshot,
    stripped_rewrite,
    taking_null,
)
from stateshift.serializers.containers.wrappers import OptionalSerializer, TtlAwareSerializerSnapshot
from stateshift.serializers.primitives.numeric import (
    BooleanSerializer,
    DoubleSerializer,
    IntSerializer,
    IntSerializerSnapshot,
    LongSerializer,
    LongSerializerSnapshot,
)
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes

LONG, INT, STRING = LongSerializer(), IntSerializer(), StringSerializer()


def test_the_stamp_comes_before_the_value(write, read, stored):
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


WRAPS = [lambda value: value, ListSerializer, lambda value: MapSerializer(STRING, value)]


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize(
    ("enabled", "rule", "way"), [(True, "STATE-4", "reference time"), (False, "STATE-5", "former_")]
)
def test_turning_ttl_on_or_off_takes_a_migration(ask, rules, wrap, enabled, rule, way):
    """STATE-4, STATE-5."""
    bare, stamped = wrap(LONG), wrap(TtlSerializer(LONG))
    result = ask(stamped, bare) if enabled else ask(bare, stamped)

    assert result.is_migration_required()
    assert [rule] == [found for _, found in rules(result)]
    assert any(way in told for finding in result.findings for told in map(str, finding.ways_out))


@pytest.mark.parametrize("wrap", WRAPS)
def test_the_verdict_is_the_worst_of_stamps_and_value(ask, rules, wrap):
    """STATE-4, STATE-5."""
    for new, old in [(TtlSerializer(LONG), INT), (LONG, TtlSerializer(INT))]:
        assert ask(wrap(new), wrap(old)).is_migration_required()
        assert "PRIM-2" == rules(ask(wrap(new), wrap(old)))[-1][1]
    for new, old in [(TtlSerializer(INT), LONG), (INT, TtlSerializer(LONG))]:
        assert ask(wrap(new), wrap(old)).is_incompatible()
        assert "PRIM-3" == rules(ask(wrap(new), wrap(old)))[-1][1]


def test_a_value_gets_the_reference_time_and_its_new_type_in_one_go(ask):
    """STATE-4."""
    result = ask(TtlSerializer(DoubleSerializer()), INT)

    assert TtlValue(1000, 5.0) == AtTime(1000, result.conversion)(5)


def test_a_stamp_without_a_reference_time_is_refused_as_a_check_reads_no_clock(ask):
    """V-3."""
    result = ask(TtlSerializer(INT), INT)
    AtTime(1000, result.conversion)(5)

    with pytest.raises(DeclarationError, match="but none was given"):
        result.conversion(5)


def test_a_stamp_is_taken_off_with_the_new_type_in_one_go(migrate):
    """STATE-5."""
    assert 5.0 == migrate(DoubleSerializer(), TtlSerializer(INT), TtlValue(1000, 5))


def test_nulls_after_a_stamp_stay_nulls(ask, migrate):
    """STATE-4, STATE-5."""
    long, number = OptionalSerializer(LONG), OptionalSerializer(INT)

    assert [5, None] == [migrate(long, TtlSerializer(number), TtlValue(1, value)) for value in (5, None)]
    stamp = AtTime(1, ask(TtlSerializer(long), number).conversion)
    assert [TtlValue(1, 5), TtlValue(1, None)] == [stamp(5), stamp(None)]


def test_a_null_after_a_stamp_that_stays_is_not_converted(ask):
    """STATE-6: the new serializer decides on it, and a conversion of numbers knows no null."""
    conversion = ask(TtlSerializer(DoubleSerializer()), TtlSerializer(INT)).conversion

    assert [TtlValue(1, 5.0), TtlValue(1, None)] == [conversion(TtlValue(1, value)) for value in (5, None)]


def test_the_rewrite_takes_every_stamp_that_has_not_expired_and_no_other(ask):
    """STATE-5: those others, objects look at."""
    old = TtlSerializer(INT)
    given = stripped_rewrite(old, ask(INT, old).conversion, INT, 1000)

    assert rewrite.Sequence((rewrite.Ranged(8, 1001, (1 << 63) - 1), rewrite.Fixed(4)), (1,)) == given


def test_flinks_note_of_ttl_around_a_snapshot_changes_no_answer(stored, rules):
    old = stored(TtlSerializer(INT))
    noted = snapshot_from_bytes(snapshot_to_bytes(TtlAwareSerializerSnapshot(has_ttl=True, inner=old)))
    in_list = stored(ListSerializer(TtlSerializer(INT)))
    in_list.nested = (noted,)

    assert TtlSerializer(INT).ensure_compatibility(noted).is_compatible_as_is()
    assert ListSerializer(TtlSerializer(INT)).ensure_compatibility(in_list).is_compatible_as_is()
    assert [("$[]", "STATE-5")] == rules(ListSerializer(INT).ensure_compatibility(in_list))


@pytest.mark.parametrize("has_ttl", [False, True])
@pytest.mark.parametrize("hint", [int, str, bytes, int | None, list[int], dict[str, int], tuple[int, str], bool])
def test_a_serializer_answers_about_a_noted_snapshot_as_about_the_one_within(stored, has_ttl, hint):
    """STATE-4, STATE-5."""
    serializer = serializer_for(hint)
    old = stored(TtlSerializer(serializer) if has_ttl else serializer)
    noted = TtlAwareSerializerSnapshot(has_ttl=has_ttl, inner=old)

    for new in (serializer, TtlSerializer(serializer)):
        assert new.ensure_compatibility(old) == new.ensure_compatibility(noted)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 1 << 42))
def test_on_and_off_again_gives_the_same_bytes(write, read, ask, number, at):
    """STATE-4, STATE-5: the law of a round trip, in which nothing has expired."""
    on, off = ask(TtlSerializer(INT), INT), ask(INT, TtlSerializer(INT))
    stamped = write(TtlSerializer(INT), AtTime(at, on.conversion)(number))

    assert write(INT, number) == write(INT, off.conversion(read(TtlSerializer(INT), stamped)))


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1))
def test_conversion_keeps_the_stamp(write, read, stored, ask, stamp, number):
    old, new = TtlSerializer(INT), TtlSerializer(DoubleSerializer())
    result = ask(new, old)
    found = read(stored(old).restore_serializer(), write(old, TtlValue(stamp, number)))

    assert result.conversion is not None
    assert TtlValue(stamp, float(number)) == read(new, write(new, result.conversion(found)))


def test_after_a_stamp_a_null_goes_by_the_form_of_its_type_but_that_which_flink_reads_wrongly_state_4():
    takes_null = {hint: taking_null(serializer_for(hint)) is not None for hint in (str, SqlTimestamp, int)}

    assert {str: True, SqlTimestamp: False, int: False} == takes_null
