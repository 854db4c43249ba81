"""Binary rows of Flink SQL: values come back, other bytes are kept, and damage is named."""

import pickle
import struct
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import CorruptSavepoint, Row, RowKind, StateShiftError, ValueNotConvertible
from stateshift.serializers.sql.binary_rows import decode_row, encode_row
from stateshift.serializers.sql.logical_types import LogicalField, LogicalType
from stateshift.serializers.sql.serializers import RowDataSerializer, RowDataSerializerSnapshot
from stateshift.serializers.sql.strategies import values_of
from stateshift.serializers.sql.values import RowData, TimestampData
from stateshift.serializers.views import DataInputView, DataOutputView


def sql_type(root, *, nullable=True, **parameters):
    return LogicalType(root, nullable, tuple(parameters.items()))


def row_of(*types):
    return LogicalType("ROW", fields=tuple(LogicalField(f"f{i}", of) for i, of in enumerate(types)))


def array_of(of):
    return LogicalType("ARRAY", fields=(LogicalField("elementType", of),))


def map_of(key, value):
    return LogicalType("MAP", fields=(LogicalField("keyType", key), LogicalField("valueType", value)))


INT, BIGINT, STRING = sql_type("INTEGER"), sql_type("BIGINT"), sql_type("VARCHAR", length=2**31 - 1)
WIDE, SHORT_DECIMAL = sql_type("DECIMAL", precision=38, scale=4), sql_type("DECIMAL", precision=10, scale=2)
FINE = sql_type("TIMESTAMP_WITHOUT_TIME_ZONE", precision=6, kind="REGULAR")
COARSE = sql_type("TIMESTAMP_WITH_LOCAL_TIME_ZONE", precision=3, kind="REGULAR")
PLAIN = [
    sql_type("BOOLEAN"), sql_type("TINYINT"), sql_type("SMALLINT"), INT, BIGINT, sql_type("FLOAT"), sql_type("DOUBLE"),
    sql_type("DATE"), sql_type("TIME_WITHOUT_TIME_ZONE", precision=3), STRING, sql_type("CHAR", length=5),
    sql_type("BINARY", length=4), sql_type("VARBINARY", length=9), WIDE, SHORT_DECIMAL, FINE, COARSE,
    sql_type("INTEGER", nullable=False),
]  # fmt: skip
TYPES = st.recursive(
    st.sampled_from(PLAIN),
    lambda inner: (
        st.builds(array_of, inner)
        | st.builds(map_of, st.sampled_from(PLAIN), inner)
        | st.lists(inner, min_size=1, max_size=3).map(lambda types: row_of(*types))
    ),
    max_leaves=4,
)
FIELDS = st.lists(TYPES, min_size=1, max_size=5)


@given(data=st.data(), types=FIELDS)
def test_a_row_comes_back_and_its_bytes_are_those_written(data, types):
    value = data.draw(values_of(row_of(*types)).filter(lambda row: row is not None))
    written = encode_row(value, types)
    read = decode_row(written, types)

    assert written == encode_row(read, types)
    assert repr(value) == repr(read)  # as values, a NaN would not be equal to itself
    assert len(written) % 8 == 0


@given(data=st.data(), types=FIELDS, seed=st.randoms(use_true_random=False))
def test_damage_of_a_row_raises_no_other_error(data, types, seed):
    value = data.draw(values_of(row_of(*types)).filter(lambda row: row is not None))
    damaged = bytearray(encode_row(value, types))
    for _ in range(3):
        damaged[seed.randrange(len(damaged))] = seed.randrange(256)
    try:
        encode_row(decode_row(bytes(damaged), types), types)
    except StateShiftError:
        return


def reserved(types):
    """A row of nulls as generated code of Flink writes it: with room in the variable part."""
    heads = (len(types) + 8 + 63) // 64 * 8
    data = bytearray(heads + 8 * len(types))
    for index, of in enumerate(types):
        bit = 8 + index
        data[bit >> 3] |= 1 << (bit & 7)
        room = {"DECIMAL": 16, "TIMESTAMP_WITHOUT_TIME_ZONE": 8}[of.root]
        struct.pack_into("<Q", data, heads + 8 * index, len(data) << 32)
        data += bytes(room)
    return bytes(data)


def test_a_null_with_room_keeps_its_bytes_and_is_another_key():
    types = (WIDE, FINE)
    serializer = RowDataSerializer(RowDataSerializerSnapshot.of(types))
    stored = reserved(types)
    framed = len(stored).to_bytes(4, "big") + stored

    with_room = serializer.deserialize(DataInputView(framed))
    plain = decode_row(encode_row(Row(None, None), types), types)
    target = DataOutputView()
    serializer.serialize(with_room, target)

    assert framed == target.getvalue()
    assert [None, None] == list(with_room)
    assert len({with_room, plain}) == 2
    assert with_room == pickle.loads(pickle.dumps(with_room))


def test_the_bytes_of_a_row_are_those_of_flink():
    types = (INT, STRING, STRING, SHORT_DECIMAL, WIDE, FINE)
    row = Row(-2, "seven b", "longer text", Decimal("1.5"), Decimal(-1), TimestampData(5, 7))

    data = encode_row(row._with_kind(RowKind.DELETE), types)

    assert (
        "0300000000000000"  # kind, null bits
        "feffffff00000000"
        "736576656e206287"  # seven bytes in the slot, whose last byte is 0x80 | 7
        "0b00000038000000"  # 11 bytes at 56
        "9600000000000000"
        "0200000048000000"  # two bytes at 72, of 16
        "0700000058000000"  # nanoseconds, and milliseconds at 88
        "6c6f6e6765722074657874" + "00" * 5 + "d8f0" + "00" * 14 + "0500000000000000"
    ) == data.hex()


@pytest.mark.parametrize(
    ("value", "of", "why"),
    [
        (2**31, INT, "is no value of INT"),
        (True, INT, "is no value of INT"),
        (1, STRING, "is no value of STRING"),
        ("\ud800", STRING, "a lone surrogate"),
        (Decimal("0.001"), SHORT_DECIMAL, r"does not fit DECIMAL\(10, 2\)"),
        (Decimal(10**8), SHORT_DECIMAL, "does not fit"),
        (Decimal("NaN"), SHORT_DECIMAL, "is not a finite Decimal"),
        (TimestampData(0, 1), COARSE, "is no value of TIMESTAMP_LTZ"),
        ({}, array_of(INT), "is not a list"),
        ([], map_of(INT, INT), "is not a dict"),
        ((1,), row_of(INT), "is not a Row"),
    ],
)
def test_a_value_of_another_type_is_refused_where_it_is(value, of, why):
    with pytest.raises(ValueNotConvertible, match=why) as caught:
        encode_row(Row("", value), (STRING, of))

    assert "$(1)" == caught.value.where["path"]


@pytest.mark.parametrize(
    ("data", "types", "why"),
    [
        (bytes(8), (INT,), "needs at least 16"),
        (b"\x04" + bytes(15), (INT,), "the kind 4"),
        (bytes(8) + struct.pack("<Q", 9 << 32 | 8), (STRING,), "is not within the 16 bytes around it"),
        (bytes(15) + b"\xff", (STRING,), "says that it holds 127"),
        (bytes(8) + b"\xff" + bytes(6) + b"\x81", (STRING,), "is not UTF-8"),
        (bytes(8) + struct.pack("<q", 10**10), (SHORT_DECIMAL,), "more digits"),
        (bytes(8) + struct.pack("<Qi", 16 << 32 | 4, 7), (array_of(INT),), "says that it has 7 items"),
    ],
)
def test_damage_is_named(data, types, why):
    with pytest.raises(CorruptSavepoint, match=why):
        decode_row(data, types)


def test_a_time_stamp_is_a_datetime_if_python_has_it():
    assert "2024-02-29 12:00:00.123456" == str(TimestampData(1709208000123, 456_000).to_datetime())
    for beyond in (TimestampData(0, 1), TimestampData(2**62)):
        with pytest.raises(ValueNotConvertible):
            beyond.to_datetime()


def test_a_row_is_equal_to_another_of_the_same_fields():
    assert RowData(1, "a") == RowData(1, "a")
    assert RowData(1, "a") != RowData(1, "b")
