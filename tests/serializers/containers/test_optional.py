"""Optional values: Flink's NullableSerializer and the rules OPT-1 to OPT-3 (harness case E21)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import (
    CompatibilityResult,
    CorruptSavepoint,
    DataInputView,
    DataOutputView,
    DeclarationError,
    TtlValue,
    ValueNotConvertible,
    Verdict,
)
from stateshift.serializers.containers.ttl import TtlSerializer
from stateshift.serializers.containers.wrappers import NullableSerializerSnapshot, OptionalSerializer
from stateshift.serializers.primitives.numeric import (
    BooleanSerializer,
    IntSerializer,
    LongSerializer,
    LongSerializerSnapshot,
)
from stateshift.serializers.primitives.text import StringSerializer
from stateshift.serializers.snapshot import snapshot_from_bytes, snapshot_to_bytes

LONG, INT, STRING = LongSerializer(), IntSerializer(), StringSerializer()


@pytest.mark.parametrize(
    ("padding", "value", "expected", "length"),
    [(0, 7, "00 00000007", -1), (0, None, "01", -1), (4, 7, "00 00000007", 5), (4, None, "01 00000000", 5)],
)
def test_a_value_comes_after_its_null_flag_and_a_null_may_be_padded(write, read, padding, value, expected, length):
    serializer = OptionalSerializer(INT, padding)
    data = bytes.fromhex(expected)

    assert data == write(serializer, value)
    assert value == read(serializer, data)
    assert length == serializer.length
    source, target = DataInputView(data), DataOutputView()
    serializer.copy_bytes(source, target)
    assert data == target.getvalue()


def test_a_restored_serializer_keeps_the_padding(stored):
    snapshot = stored(OptionalSerializer(LONG, 8))

    assert "optional<long>" == snapshot.describe()
    assert OptionalSerializer(LONG, 8) == snapshot.restore_serializer()


@pytest.mark.parametrize("padding", [4, -1])
def test_a_padding_that_is_not_the_length_of_the_value_is_refused_when_declared(padding):
    with pytest.raises(DeclarationError, match=f"padded with {padding} bytes, but the value takes 8"):
        OptionalSerializer(LONG, padding)


def test_an_impossible_stored_padding_is_corrupt_and_allocates_nothing():
    for padding in (-1, 2**31 - 1):
        data = snapshot_to_bytes(NullableSerializerSnapshot((LongSerializerSnapshot(),), padding))
        with pytest.raises(CorruptSavepoint, match=f"padded with {padding} bytes"):
            snapshot_from_bytes(data)
    wrong = snapshot_from_bytes(snapshot_to_bytes(NullableSerializerSnapshot((LongSerializerSnapshot(),), 3)))
    with pytest.raises(CorruptSavepoint, match="padded with 3 bytes"):
        wrong.restore_serializer()


@pytest.mark.parametrize("data", ["", "02", "01 0000", "00 0000"])
def test_damaged_bytes_are_an_error(read, data):
    with pytest.raises(CorruptSavepoint):
        read(OptionalSerializer(INT, 4), bytes.fromhex(data))


def test_an_error_inside_has_the_step_of_an_optional(write):
    with pytest.raises(ValueNotConvertible) as caught:
        write(OptionalSerializer(INT), "x")

    assert "$?" == caught.value.where["path"]


class TestRules:
    def test_optional_wrapper(self, ask, migrate, rules):
        """E21: T -> Optional[T] migrates, and back is incompatible."""
        there, back = ask(OptionalSerializer(LONG), LONG), ask(LONG, OptionalSerializer(LONG))

        assert Verdict.REQUIRES_MIGRATION is there.verdict
        assert [("$", "OPT-1")] == rules(there)
        assert 5 == migrate(OptionalSerializer(LONG), LONG, 5)
        assert Verdict.INCOMPATIBLE is back.verdict
        assert [("$", "OPT-2")] == rules(back)
        assert "declare the type optional (T | None)" in map(str, back.findings[0].ways_out)

    def test_becoming_optional_is_composed_with_the_change_of_the_type(self, ask, migrate, rules):
        """OPT-1."""
        assert [("$", "OPT-1"), ("$?", "PRIM-2")] == rules(ask(OptionalSerializer(LONG), INT))
        assert 5 == migrate(OptionalSerializer(LONG), INT, 5)
        assert [("$", "OPT-1"), ("$?", "PRIM-4")] == rules(ask(OptionalSerializer(BooleanSerializer()), STRING))
        assert ask(OptionalSerializer(BooleanSerializer()), STRING).is_incompatible()

    def test_nothing_optional_becomes_required_by_widening(self, ask, rules):
        """OPT-2."""
        assert [("$", "OPT-2")] == rules(ask(LONG, OptionalSerializer(INT)))

    def test_both_optional_is_the_verdict_of_the_inner_type(self, ask, migrate, rules):
        """OPT-3."""
        assert CompatibilityResult.compatible() == ask(OptionalSerializer(LONG, 8), OptionalSerializer(LONG, 8))
        assert [("$?", "PRIM-2")] == rules(ask(OptionalSerializer(LONG), OptionalSerializer(INT)))
        assert [5, None] == [migrate(OptionalSerializer(LONG), OptionalSerializer(INT), value) for value in (5, None)]
        assert ask(OptionalSerializer(INT), OptionalSerializer(LONG)).is_incompatible()

    @pytest.mark.parametrize(("new", "old"), [(0, 8), (8, 0)])
    def test_a_stored_padding_is_kept(self, ask, rules, new, old):
        """OPT-3."""
        result = ask(OptionalSerializer(LONG, new), OptionalSerializer(LONG, old))

        assert [("$", "OPT-3")] == rules(result)
        assert OptionalSerializer(LONG, old) == result.reconfigured_serializer

    def test_a_migration_takes_the_padding_of_the_new_type(self, ask, migrate, rules):
        old, new = OptionalSerializer(INT, 4), OptionalSerializer(LONG, 8)

        assert [("$", "OPT-3"), ("$?", "PRIM-2")] == rules(ask(new, old))
        assert [5, None] == [migrate(new, old, value) for value in (5, None)]

    def test_a_stamped_value_loses_its_stamp_and_becomes_optional_state_5_and_opt_1(self, ask, rules, migrate):
        new, old = OptionalSerializer(LONG), TtlSerializer(LONG)

        assert [("$", "STATE-5"), ("$", "OPT-1")] == rules(ask(new, old))
        assert 7 == migrate(new, old, TtlValue(1, 7))


@given(st.none() | st.integers(-(2**31), 2**31 - 1), st.sampled_from([0, 4]))
def test_reading_is_the_inverse_of_writing_and_conversion_keeps_nulls(write, read, migrate, value, padding):
    old = OptionalSerializer(INT, padding)

    assert value == read(old, write(old, value))
    assert value == migrate(OptionalSerializer(LONG, padding * 2), old, value)
