"""Decimals: exact, or refused."""

from decimal import Context, Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import CorruptSavepoint, DataInputView, DataOutputView, ValueNotConvertible
from stateshift.serializers.primitives.numeric import DecimalSerializer, LongSerializer, decimal_of

EXAMPLES = [
    ("0", "00000001 00000000"),
    ("1", "00000002 00000000"),
    ("10", "00000003 00000000"),
    ("0.00", "00000001 00000002"),
    ("0E+5", "00000001 FFFFFFFB"),
    ("1E+3", "00000002 FFFFFFFD"),
    ("-1", "00000005 FF 00000000"),
    ("12.50", "00000006 04E2 00000002"),
    ("-12.5", "00000005 83 00000001"),
    ("1E-2147483647", "00000002 7FFFFFFF"),
    ("1E+2147483648", "00000002 80000000"),
]


@pytest.mark.parametrize(("text", "data"), EXAMPLES)
def test_the_bytes_are_those_of_java_both_ways(write, text, data):
    assert bytes.fromhex(data) == write(DecimalSerializer(), Decimal(text))
    assert Decimal(text).as_tuple() == DecimalSerializer().deserialize(DataInputView(bytes.fromhex(data))).as_tuple()


@given(st.integers(), st.integers(-(2**31), 2**31 - 1))
def test_every_digit_and_the_scale_are_kept(write, read, unscaled, scale):
    value = Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))

    assert value.as_tuple() == read(DecimalSerializer(), write(DecimalSerializer(), value)).as_tuple()


@pytest.mark.parametrize("bits", [8191, 8192, 8193, 16384, 16385, 24000, 65536, 100_001])
@pytest.mark.parametrize("sign", [1, -1])
def test_large_integers_become_decimals_exactly(bits, sign):
    for number in (1 << bits, (1 << bits) - 1, (1 << bits) + 1, int("7" * 1000) << bits):
        assert Decimal(sign * number).as_tuple() == decimal_of(sign * number).as_tuple()


def test_a_megabyte_of_digits_takes_no_minutes(read):
    data = (1_000_000).to_bytes(4, "big") + b"\x7f" * 999_996 + b"\0\0\0\0"

    assert 2_408_230 < len(read(DecimalSerializer(), data).as_tuple().digits) < 2_408_240


def test_the_context_of_the_caller_rounds_nothing(write):
    value = Decimal("9" * 5000 + "." + "1" * 5000)
    with localcontext(Context(prec=3, Emax=5, Emin=-5)):
        back = DecimalSerializer().deserialize(DataInputView(write(DecimalSerializer(), value)))

    assert value.as_tuple() == back.as_tuple()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Decimal("-0"), "lose its sign"),
        (Decimal("-0.00"), "lose its sign"),
        (Decimal("NaN"), "is not a number"),
        (Decimal("sNaN"), "is not a number"),
        (Decimal("-Infinity"), "is not a number"),
        (Decimal("1E+2147483649"), "scale of -2147483649"),
        (Decimal("1E-2147483648"), "scale of 2147483648"),
        (1, "1 is not a Decimal"),
        (1.5, "1.5 is not a Decimal"),
        (None, "None is not a Decimal"),
    ],
)
def test_what_java_cannot_hold_is_refused(write, value, message):
    with pytest.raises(ValueNotConvertible, match=message):
        write(DecimalSerializer(), value)


def test_a_null_is_read_and_written_where_it_is_allowed(write):
    restored = DecimalSerializer().snapshot_configuration().restore_serializer()

    assert b"\0\0\0\0" == write(restored, None)
    assert restored.deserialize(DataInputView(b"\0\0\0\0")) is None
    with pytest.raises(ValueNotConvertible, match="a null is stored"):
        DecimalSerializer().deserialize(DataInputView(b"\0\0\0\0"))


def test_copying_passes_over_nulls_and_numbers(write):
    allowing = DecimalSerializer(allow_null=True)
    data = write(allowing, None) + write(DecimalSerializer(), Decimal("12.50"))
    source, target = DataInputView(data), DataOutputView()

    allowing.copy_bytes(source, target)
    allowing.copy_bytes(source, target)

    assert data == target.getvalue()


def test_a_size_that_no_number_has_is_refused():
    with pytest.raises(CorruptSavepoint, match="4 is not the size"):
        DecimalSerializer().deserialize(DataInputView(bytes.fromhex("00000004 00000000")))


def test_any_two_are_compatible_for_nothing_bounds_them_dec_1(ask):
    assert ask(DecimalSerializer(), DecimalSerializer()).is_compatible_as_is()


def test_a_number_becomes_no_decimal_without_a_converter():
    result = DecimalSerializer().ensure_compatibility(LongSerializer().snapshot_configuration())

    assert result.is_incompatible()
    assert all(finding.ways_out for finding in result.findings)
