"""PyFlink's words for types and times are hints of ours, and no two that PyFlink distinguishes are one."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from stateshift import (
    BigInt,
    Char,
    DeclarationError,
    Float32,
    Instant,
    Int8,
    Int16,
    Int32,
    Row,
    SqlDate,
    SqlTime,
    SqlTimestamp,
    row_of,
    serializer_for,
)
from stateshift.pyflink.common import Duration, Time, Types
from stateshift.state.entry_keys import decode, encode

SCALARS = {
    "BIG_DEC": Decimal, "BIG_INT": BigInt, "BOOLEAN": bool, "BYTE": Int8, "CHAR": Char, "DOUBLE": float,
    "FLOAT": Float32, "INSTANT": Instant, "INT": Int32, "LONG": int, "SHORT": Int16, "SQL_DATE": SqlDate,
    "SQL_TIME": SqlTime, "SQL_TIMESTAMP": SqlTimestamp, "STRING": str,
}  # fmt: skip


@pytest.mark.parametrize(("word", "hint"), SCALARS.items())
def test_a_scalar_word_is_a_hint(word, hint):
    assert hint == getattr(Types, word)()


INT, TEXT = Types.INT(), Types.STRING()
NAMED = Types.ROW_NAMED(["id", "name"], [INT, TEXT])
NESTED = [
    (Types.ROW([INT, TEXT]), [Row(1, "a"), Row(None, None)]),
    (Types.ROW([]), [Row()]),
    (NAMED, [Row(id=1, name="a"), Row(id=None, name=None)]),
    (Types.ROW([NAMED, Types.ROW([NAMED])]), [Row(Row(id=1, name="a"), None)]),
    (Types.TUPLE([INT, NAMED]), [(1, Row(id=1, name=None))]),
    (Types.LIST(NAMED), [[Row(id=1, name="a")], []]),
    (Types.MAP(TEXT, NAMED), [{"a": Row(id=1, name="a"), "b": None}]),
    (Types.PRIMITIVE_ARRAY(INT), [[1, 2], []]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"\0\xff"]),
    (Types.BASIC_ARRAY(INT), [[1, None]]),
    (Types.BASIC_ARRAY(TEXT), [["a", None]]),
    (Types.OBJECT_ARRAY(TEXT), [["a", None]]),
    (Types.OBJECT_ARRAY(NAMED), [[Row(id=1, name="a"), None]]),
    (Types.PICKLED_BYTE_ARRAY(), [1, "a", [None, {"a": (1,)}], Decimal(1)]),
    (Types.LIST(Types.PICKLED_BYTE_ARRAY()), [[1, "a"]]),
]


@pytest.mark.parametrize(("hint", "values"), NESTED)
def test_values_of_a_word_are_written_and_read(hint, values):
    serializer = serializer_for(hint)

    assert values == [decode(serializer, encode(serializer, value)) for value in values]


def test_no_two_words_are_one_hint():
    serializers = [serializer_for(hint) for hint, _ in NESTED]

    assert [] == [one for at, one in enumerate(serializers) if one in serializers[:at]]


def test_a_row_with_names_keeps_them():
    assert row_of({"id": Int32 | None, "name": str | None}) == serializer_for(NAMED)


@pytest.mark.parametrize(
    ("made", "match"),
    [
        (lambda: Types.PRIMITIVE_ARRAY(TEXT), "str'> cannot be in an array of a primitive type"),
        (lambda: Types.BASIC_ARRAY(NAMED), "cannot be in a basic array"),
        (lambda: Types.ROW_NAMED(["a"], [INT, INT]), "the 2 columns of a row are called 'a'"),
        (lambda: Types.ROW_NAMED(["a", "a"], [INT, INT]), "are called 'a', 'a'"),
        (lambda: Duration.of_nanos(1), "1 ns is finer than a timedelta"),
    ],
)
def test_what_no_word_means(made, match):
    with pytest.raises(DeclarationError, match=match):
        made()


def test_lengths_of_time_are_timedeltas():
    assert timedelta(milliseconds=5) == Time.milliseconds(5) == Duration.of_millis(5) == Duration.of_nanos(5_000_000)
    assert timedelta(days=2) == Time.days(2) == Duration.of_hours(48)


def test_an_instant_is_made_of_milliseconds():
    assert Instant(-1, 999_000_000) == Instant.of_epoch_milli(-1)
    assert -1 == Instant(-1, 999_999_999).to_epoch_milli()
