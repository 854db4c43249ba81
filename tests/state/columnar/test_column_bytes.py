"""Blocks of columns are written as their serializers write one value after the other."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
from typing import Annotated

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import (
    Array,
    BigInt,
    Char,
    Either,
    Field,
    Float32,
    Instant,
    Int8,
    Int16,
    Int32,
    JavaDate,
    LocalDate,
    LocalDateTime,
    LocalTime,
    NaiveDatetime,
    Row,
    SqlDate,
    SqlTime,
    SqlTimestamp,
    StateShiftError,
    ValueNotConvertible,
    record,
    row_of,
    serializer_for,
)
from stateshift.state.columnar.column_types import fields_by_default, mismatches
from stateshift.state.columnar.column_values import encode_column, encode_values, python_values
from stateshift.state.columnar.row_sources import order_bytes
from stateshift.state.entry_keys import decode, encode


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


@attrs.frozen
class Inner:
    x: int
    y: str | None = None


@attrs.frozen
class Outer:
    name: Annotated[str, Field(name="title")]
    inner: Inner
    maybe: Inner | None
    rate: float
    few: Int16 | None
    tags: list[str]
    colour: Colour | None
    added: int = 7


@record(java_class="com.acme.Plain")
@attrs.frozen
class Plain:
    b: Int32
    a: str


INNER = pa.struct([("x", pa.int64()), ("y", pa.string())])
OUTER = pa.struct(
    [
        ("few", pa.int16()), ("name", pa.string()), ("inner", INNER), ("maybe", INNER), ("rate", pa.float64()),
        ("tags", pa.list_(pa.string())), ("colour", pa.string()), ("not a field", pa.int8()),
    ]
)  # fmt: skip
text = st.text(max_size=30) | st.text(st.characters(max_codepoint=127), min_size=120, max_size=300)
inner = st.fixed_dictionaries({"x": st.integers(-(2**63), 2**63 - 1), "y": st.none() | text})
outer = st.fixed_dictionaries(
    {
        "few": st.none() | st.integers(-(2**15), 2**15 - 1),
        "name": text,
        "inner": inner,
        "maybe": st.none() | inner,
        "rate": st.floats(),
        "tags": st.lists(text, max_size=3),
        "colour": st.sampled_from([None, "RED", "GREEN"]),
        "not a field": st.none(),
    }
)
PLAIN = pa.struct([("a", pa.string()), ("b", pa.int64())])
plain = st.fixed_dictionaries({"a": text, "b": st.integers(-(2**32), 2**32)})
moments = st.datetimes(timezones=st.just(dt.UTC))
UTC_MICROS, MICROS = pa.timestamp("us", "UTC"), pa.timestamp("us")
anything = st.integers(-(2**63), 2**63 - 1)
COLUMNS = {
    "byte": (Int8, pa.int64(), st.integers(-200, 200)),
    "short": (Int16, pa.int32(), st.integers(-40000, 40000)),
    "int": (Int32, pa.int64(), st.integers(-(2**32), 2**32)),
    "long": (int, pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "long from tinyint": (int, pa.int8(), st.integers(-128, 127)),
    "bigint": (BigInt, pa.decimal128(30, 0), st.decimals(-(10**20), 10**20, places=0)),
    "boolean": (bool, pa.bool_(), st.booleans()),
    "double": (float, pa.float64(), st.floats()),
    "double from bigint": (float, pa.int64(), st.integers(-(2**54), 2**54)),
    "float": (Float32, pa.float64(), st.floats()),
    "float from float": (Float32, pa.float32(), st.floats(width=32)),
    "string": (str, pa.string(), text),
    "bytes": (bytes, pa.binary(), st.binary(max_size=200)),
    "decimal": (decimal.Decimal, pa.decimal128(10, 2), st.decimals(-999, 999, places=2)),
    "enum": (Colour, pa.string(), st.sampled_from(["RED", "GREEN", "BLUE"])),
    "list": (list[int], pa.list_(pa.int64()), st.lists(st.integers(0, 9), max_size=3)),
    "array": (Array[Int32], pa.list_(pa.int64()), st.lists(st.integers(-(2**32), 2**32) | st.none(), max_size=3)),
    "array of booleans": (Array[bool], pa.list_(pa.bool_()), st.lists(st.booleans(), max_size=3)),
    "array of objects": (Array[Plain | None], pa.list_(PLAIN), st.lists(st.none() | plain, max_size=3)),
    "array of strings": (Array[str | None], pa.list_(pa.string()), st.lists(st.none() | text, max_size=3)),
    "row": (Row[int, str | None], pa.struct([("l", pa.int64()), ("r", pa.string())]),
            st.fixed_dictionaries({"l": st.none() | st.integers(0, 9), "r": st.none() | text})),
    "named row": (row_of({"a b": int | None, "of": Row[Colour | None]}),
                  pa.struct([("of", pa.struct([("c", pa.string())])), ("none", pa.int8()), ("a b", pa.int64())]),
                  st.fixed_dictionaries({"of": st.fixed_dictionaries({"c": st.sampled_from(["RED", "BLUE", None])}),
                                         "none": st.none(), "a b": st.integers(0, 9)})),
    "set": (set[int], pa.list_(pa.int64()), st.lists(st.integers(0, 3), max_size=3)),
    "map": (dict[str, int | None], pa.map_(pa.string(), pa.int64()), st.lists(st.tuples(text, st.none()), max_size=2)),
    "optional": (str | None, pa.string(), text),
    "char": (Char, pa.string(), st.text(max_size=2)),
    "datetime": (dt.datetime, UTC_MICROS, moments),
    "instant": (Instant, UTC_MICROS, moments),
    "instant of nanoseconds": (Instant, pa.timestamp("ns", "UTC"), st.integers(1 - 2**63, 2**63 - 1)),
    "instant of seconds": (Instant, pa.timestamp("s", "UTC"), st.integers(-(10**10), 10**10)),
    "naive datetime": (NaiveDatetime, MICROS, st.datetimes()),
    "local datetime": (LocalDateTime, MICROS, anything),
    "date": (dt.date, pa.date32(), st.dates()),
    "local date": (LocalDate, pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    "time": (dt.time, pa.time64("ns"), st.times()),
    "local time": (LocalTime, pa.time64("us"), st.times()),
    "java.util.Date": (JavaDate, UTC_MICROS, moments | anything | st.integers(0, 10).map(lambda n: 1000 * n)),
    "java.sql.Timestamp": (SqlTimestamp, UTC_MICROS, anything),
    "optional datetime": (dt.datetime | None, UTC_MICROS, moments),
    "list of dates": (list[dt.date], pa.list_(pa.date32()), st.lists(st.dates() | st.just(10**8), max_size=3)),
    "pojo": (Plain, PLAIN, plain),
    "record": (Outer, OUTER, outer),
    "tuple": (tuple[int, str | None], pa.struct([("l", pa.int64()), ("r", pa.string())]),
              st.fixed_dictionaries({"l": st.integers(0, 9), "r": st.none() | text})),
}  # fmt: skip


def one_by_one(serializer, column):
    """The bytes of each value; None where it does not fit."""
    found = []
    for row in range(len(column)):
        try:
            found.append(encode(serializer, python_values(serializer, column.slice(row, 1))[0]))
        except StateShiftError:
            found.append(None)
    return found


@pytest.mark.parametrize("name", COLUMNS)
@given(data=st.data())
def test_a_block_has_the_bytes_of_its_values(name, data):
    hint, kind, values = COLUMNS[name]
    serializer = serializer_for(hint)
    items = data.draw(st.lists(st.none() | values, max_size=8))
    start = data.draw(st.integers(0, len(items)))
    column = pa.array(items, kind).slice(start)

    encoded = encode_column(serializer, column)
    blocks = [
        None if declined else piece
        for piece, declined in zip(encoded.join().to_pylist(), encoded.declined, strict=True)
    ]
    single = one_by_one(serializer, column)

    assert [want for want, got in zip(single, blocks, strict=True) if got is not None] == [
        b for b in blocks if b is not None
    ]
    assert [row for row, want in enumerate(single) if want is None and blocks[row] is not None] == []


@pytest.mark.parametrize(
    "name",
    ["long", "double", "string", "bytes", "boolean", "tuple", "pojo", "datetime", "date", "time", "naive datetime"],
)
def test_plain_values_are_not_declined(name):
    """What is declined is right, but slow."""
    plain = {
        "long": [0, -5], "double": [0.5, float("nan")], "string": ["", "x" * 1000], "bytes": [b"\xff"],
        "boolean": [True], "tuple": [{"l": 1, "r": None}, {"l": 2, "r": "x"}], "pojo": [{"a": "x", "b": 2}],
        "datetime": [0, -1, 2**62], "naive datetime": [0, -1, 2**62], "date": [0, -1, 10**7],
        "time": [0, 86_399_999_999_999],
    }  # fmt: skip
    hint, kind, _ = COLUMNS[name]

    assert not encode_column(serializer_for(hint), pa.array(plain[name], kind)).declined.any()


def test_a_record_is_read_back_with_defaults_for_fields_without_a_column():
    serializer = serializer_for(Outer)
    value = {
        "few": None, "name": "zoë", "inner": {"x": 1, "y": "s"}, "maybe": None, "rate": 1.5, "tags": ["a"],
        "colour": "GREEN", "not a field": None,
    }  # fmt: skip

    column = pa.array([value], OUTER)
    data = encode_values(serializer, column, [0])[0]

    assert Outer("zoë", Inner(1, "s"), None, 1.5, None, ["a"], Colour.GREEN, 7) == decode(serializer, data)
    assert ["added"] == list(fields_by_default(serializer, OUTER))


def test_a_timestamp_past_the_years_of_python_is_written_in_a_column_and_reported_in_a_list():
    instants = serializer_for(Instant)
    late = pa.array([2**62], UTC_MICROS)

    assert Instant(2**62 // 10**6, 2**62 % 10**6 * 1000) == decode(
        instants, encode_column(instants, late).join()[0].as_py()
    )
    with pytest.raises(
        ValueNotConvertible, match="Python cannot represent the value: OverflowError: date value out of range"
    ):
        encode_values(serializer_for(list[Instant]), pa.array([[2**62]], pa.list_(UTC_MICROS)), [0])


def test_an_error_names_its_row():
    with pytest.raises(ValueNotConvertible, match="does not fit") as caught:
        encode_values(serializer_for(Int8), pa.array([1, 2, 300]), [0, 2])

    assert 2 == caught.value.row


@pytest.mark.parametrize(
    ("hint", "kind", "path", "what"),
    [
        (int, pa.string(), "", "is a string, and long is declared"),
        (Int32, pa.float64(), "", "is a double, and int is declared"),
        (bool, pa.int8(), "", "is a tinyint, and boolean is declared"),
        (float, pa.decimal128(10, 2), "", "is a decimal(10,2), and double is declared"),
        (str, pa.timestamp("us", "UTC"), "", "is a timestamp, and string is declared"),
        (str, pa.date32(), "", "is a date, and string is declared"),
        (int, UTC_MICROS, "", "is a timestamp, and long is declared"),
        (
            dt.datetime,
            MICROS,
            "",
            "is a timestamp_ntz, and instant is declared (a timestamp, which a cast makes in the session's time zone;",
        ),
        (
            dt.datetime,
            pa.date32(),
            "",
            "is a date, and instant is declared (a timestamp, which a cast makes in the session's time zone)",
        ),
        (NaiveDatetime, UTC_MICROS, "", "is a timestamp, and local datetime is declared (a timestamp_ntz, which"),
        (dt.date, UTC_MICROS, "", "is a timestamp, and date is declared (a date, which"),
        (dt.date, MICROS, "", "is a timestamp_ntz, and date is declared (a date)"),
        (dt.time, pa.date32(), "", "is a date, and time is declared (a time)"),
        (dt.datetime, pa.time64("ns"), "", "is a time, and instant is declared (a timestamp)"),
        (JavaDate, pa.int64(), "", "is a bigint, and java.util.Date is declared"),
        (SqlDate, pa.date32(), "", "lacks the time zone of a java.sql.Date; use a function that returns SqlDate"),
        (SqlTime, pa.time64("ns"), "", "lacks the time zone of a java.sql.Time; use a function that returns SqlTime"),
        (Char, pa.int64(), "", "is a bigint, and char is declared"),
        (bytes, pa.string(), "", "is a string, and bytes is declared"),
        (list[int], pa.list_(pa.string()), "[]", "is a string, and long is declared"),
        (list[int], pa.int64(), "", "is a bigint, and list<long> is declared (an array)"),
        (dict[str, int], pa.map_(pa.string(), pa.bool_()), "{}", "is a boolean, and long is declared"),
        (tuple[int, int], pa.struct([("a", pa.int64())]), "", "(a struct of 2 fields)"),
        (Plain, pa.struct([("a", pa.string())]), ".b", "there is no column for the field 'b', and it has no default"),
        (Plain, pa.struct([("a", pa.int8()), ("b", pa.int8())]), ".a", "is a tinyint, and string is declared"),
        (int | None, pa.string(), "", "is a string, and long is declared"),
        (Array[int], pa.int64(), "", "is a bigint, and array<long> is declared (an array)"),
        (Array[Int32 | None], pa.list_(pa.string()), "[]", "is a string, and int is declared"),
        (Array[str], pa.list_(pa.int64()), "[]", "is a bigint, and string is declared"),
        (Row[int, str], pa.struct([("a", pa.int64())]), "", "and row<long, string> is declared (a struct of 2 fields)"),
        (Row[int, int], pa.struct([("a", pa.int64()), ("b", pa.string())]), "(1)", "is a string, and long is declared"),
        (row_of({"a": int}), pa.struct([("b", pa.int64())]), ".a", "there is no column for the row's 'a'"),
        (row_of({"a": int}), pa.struct([("b", pa.int8()), ("a", pa.string())]), ".a", "is a string, and long is"),
        (Either[int, str], pa.int64(), "", "a function that returns Left(value) or Right(value)"),
    ],
)
def test_columns_of_a_wrong_type_are_found_before_any_value_is_read(hint, kind, path, what):
    [(found_path, found)] = list(mismatches(serializer_for(hint), kind))

    assert path == found_path
    assert what in found


def test_whole_decimals_fit_large_integers_and_others_do_not():
    large = serializer_for(BigInt)

    assert [] == list(mismatches(large, pa.decimal128(30, 0)))
    assert ["is a decimal(30,2), and bigint is declared"] == [
        what.partition(" (")[0] for _, what in mismatches(large, pa.decimal128(30, 2))
    ]


ORDERED = {
    "bigint": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "tinyint": (pa.int8(), st.integers(-128, 127)),
    "boolean": (pa.bool_(), st.booleans()),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "string": (pa.string(), st.text(max_size=4)),
    "timestamp": (pa.timestamp("us", "UTC"), st.integers(-(2**40), 2**40)),
    "date": (pa.date32(), st.integers(-9999, 9999)),
}


@pytest.mark.parametrize("one", ORDERED)
@pytest.mark.parametrize("other", ["bigint", "string"])
@given(data=st.data())
def test_bytes_to_order_by_sort_as_the_columns_do(one, other, data):
    (kind, values), (other_kind, others) = ORDERED[one], ORDERED[other]
    rows = data.draw(st.lists(st.tuples(st.none() | values, st.none() | others), max_size=10))
    columns = [pa.array([row[0] for row in rows], kind), pa.array([row[1] for row in rows], other_kind)]

    def key(row):
        return [(item is not None, item.encode() if isinstance(item, str) else item or 0) for item in row]

    marks = order_bytes(columns).to_pylist()
    by_bytes = [key(row) for _, row in sorted(zip(marks, rows, strict=True), key=lambda pair: pair[0])]

    assert sorted(map(key, rows)) == by_bytes


def test_nan_comes_last_and_both_zeros_are_one():
    marks = order_bytes([pa.array([float("nan"), float("inf"), 0.0, -0.0, -1.0, None])]).to_pylist()

    assert marks[5] < marks[4] < marks[3] == marks[2] < marks[1] < marks[0]


def test_a_matrix_of_no_rows_is_an_empty_column():
    encoded = encode_column(serializer_for(Outer), pa.array([], OUTER))

    assert [] == encoded.join().to_pylist()
    assert encoded.declined.dtype == np.bool_
