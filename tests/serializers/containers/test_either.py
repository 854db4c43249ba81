"""Either: Flink's value of one of two types, and how its sides are judged."""

import attrs
import pytest

from stateshift import (
    CompatibilityResult,
    CorruptSavepoint,
    DataInputView,
    DeclarationError,
    Either,
    Int32,
    Left,
    OldReaderUnavailable,
    Right,
    ValueNotConvertible,
    Verdict,
    serializer_for,
)
from stateshift.serializers.containers.tuples import EitherSerializer, TupleSerializer
from stateshift.serializers.containers.wrappers import OptionalSerializer
from stateshift.serializers.flink.opaque import KryoSerializerSnapshot
from stateshift.serializers.primitives.numeric import IntSerializer, LongSerializer
from stateshift.serializers.primitives.text import StringSerializer

LONG, INT, STRING = LongSerializer(), IntSerializer(), StringSerializer()
EITHER = EitherSerializer(STRING, INT)


@pytest.mark.parametrize(("value", "expected"), [(Left("a"), "01 02 61"), (Right(5), "00 00000005")])
def test_a_flag_that_says_left_comes_before_the_value(write, read, copied, value, expected):
    data = bytes.fromhex(expected)

    assert data == write(EITHER, value)
    assert value == read(EITHER, data)
    assert data == copied(EITHER, data)


@pytest.mark.parametrize(
    ("value", "message", "path"),
    [
        ("a", "'a' is neither a Left nor a Right", "$"),
        (Left(1), "1 is not a string", "$|0"),
        (Right("a"), "'a' does not fit an int", "$|1"),
        (Left(None), "None is not a string", "$|0"),
    ],
)
def test_a_value_that_does_not_fit_is_reported_with_its_side(write, value, message, path):
    with pytest.raises(ValueNotConvertible, match=message) as caught:
        write(EITHER, value)
    assert path == caught.value.where.get("path", "$")


@pytest.mark.parametrize("data", ["", "02 00000005", "00 0000", "01 05 61"])
def test_damaged_bytes_are_an_error(read, copied, data):
    for use in (read, copied):
        with pytest.raises(CorruptSavepoint):
            use(EITHER, bytes.fromhex(data))


def test_the_hint_names_both_types():
    assert EITHER == serializer_for(Either[str, Int32])
    assert OptionalSerializer(EITHER) == serializer_for(Either[str, Int32] | None)
    assert "either<string, int>" == EITHER.describe()
    with pytest.raises(DeclarationError, match="Either needs type arguments"):
        serializer_for(Either)
    with pytest.raises(DeclarationError, match="union of several types"):
        serializer_for(int | str)


@pytest.mark.parametrize("version", ["2.3", "1.20"])
def test_what_flink_wrote_is_read(stored_states, version):
    state = stored_states("hashmap-zoo-p1-m128", version)["either"]

    assert serializer_for(Either[str, int]).snapshot_configuration() == state.description.value.snapshot
    values = [entry.value for entry in state.read_entries()]

    assert {Left("l0"), Left("l2"), Left("l4"), Right(1), Right(3), Right(5)} == set(values)


def test_a_side_that_cannot_be_restored_is_named():
    """READ-4."""
    snapshot = EITHER.snapshot_configuration()
    snapshot.nested = (snapshot.nested[0], KryoSerializerSnapshot("fx.Thing"))

    with pytest.raises(OldReaderUnavailable) as caught:
        snapshot.restore_serializer().deserialize(DataInputView(b"\0\0\0\0"))
    assert "$|1" == caught.value.where["path"]


class TestRules:
    def test_the_same_is_compatible(self, ask):
        assert CompatibilityResult.compatible() == ask(EITHER, EITHER)

    def test_a_changed_side_is_judged_by_its_own_rule(self, ask, migrate, rules):
        """PRIM-2 in a branch."""
        new = EitherSerializer(STRING, LONG)

        assert [("$|1", "PRIM-2")] == rules(ask(new, EITHER))
        assert [Left("a"), Right(5)] == [migrate(new, EITHER, value) for value in (Left("a"), Right(5))]

    def test_sides_pair_by_position(self, ask, rules):
        """PRIM-4 on both: left and right are not distinguished by type."""
        result = ask(EitherSerializer(INT, STRING), EITHER)

        assert [("$|0", "PRIM-4"), ("$|1", "PRIM-4")] == rules(result)
        assert result.is_incompatible()

    def test_a_conversion_that_fails_names_its_side(self, ask):
        """TEXT-2."""
        old = EitherSerializer(serializer_for(bytes), INT)

        with pytest.raises(ValueNotConvertible, match="is not UTF-8") as caught:
            ask(EITHER, old).conversion(Left(b"\xff"))
        assert "$|0" == caught.value.where["path"]

    def test_an_either_becomes_nothing_else(self, ask, rules):
        """FAM-2."""
        for other in (STRING, TupleSerializer((STRING, INT))):
            assert [("$", "FAM-2")] == rules(ask(EITHER, other)) == rules(ask(other, EITHER))

    def test_a_reconfigured_side_gives_a_reconfigured_either(self, ask):
        """COMP-4."""
        padded = EitherSerializer(STRING, OptionalSerializer(INT, 4))

        assert padded == ask(EitherSerializer(STRING, OptionalSerializer(INT)), padded).reconfigured_serializer

    def test_a_fallback_reads_its_side(self, write):
        """READ-3."""
        new = EitherSerializer(STRING, _WithFallback())
        result = new.ensure_compatibility(EITHER.snapshot_configuration())

        assert Verdict.REQUIRES_MIGRATION_WITH_FALLBACK is result.verdict
        assert Right(-5) == result.fallback.deserialize(DataInputView(write(EITHER, Right(5))))
        assert Left("a") == result.fallback.deserialize(DataInputView(write(EITHER, Left("a"))))


class _Negative:
    def deserialize(self, source: DataInputView) -> int:
        return -source.read_int()


@attrs.frozen
class _WithFallback(LongSerializer):
    """Asks for its fallback whatever is stored."""

    def ensure_compatibility(self, snapshot):
        return CompatibilityResult.requires_migration(fallback=_Negative())
