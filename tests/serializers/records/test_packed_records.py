"""Records that are packed by a few calls have the bytes and the values of their serializer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import Float32, Int32
from stateshift.serializers.hints import serializer_for
from stateshift.serializers.records.rewrites import PackedRecord
from stateshift.serializers.views import DataInputView, DataOutputView


@attrs.frozen
class Account:
    name: str
    amount: float
    even: bool
    count: int
    small: Int32
    nickname: str
    rate: Float32 = 0.0


@dataclass
class Loose:
    text: str
    count: int | None


class Pair(NamedTuple):
    second: int
    first: str


@attrs.frozen
class Keyword:
    count: int = attrs.field(kw_only=True)


texts = st.text(max_size=4) | st.text(st.characters(max_codepoint=0x7F), max_size=140)
longs = st.integers(-(2**63), 2**63 - 1)
VALUES = st.one_of(
    st.builds(Account, texts, st.floats(allow_nan=False), st.booleans(), longs, st.integers(-(2**31), 2**31 - 1),
              texts, st.floats(width=32, allow_nan=False)),
    st.builds(Loose, texts, st.none() | longs),
    st.builds(Pair, longs, texts),
    st.builds(Keyword, count=longs),
)  # fmt: skip


def written(serializer, value):
    target = DataOutputView()
    serializer.serialize(value, target)
    return target.getvalue()


@given(VALUES)
def test_bytes_and_values_are_those_of_the_serializer(value):
    serializer = serializer_for(type(value))
    packed = PackedRecord.of(serializer)
    data = written(serializer, value)
    assert packed.pack(value) in (data, None)
    assert packed.unpack(data) in (value, None)


@given(VALUES, st.data())
def test_damaged_bytes_are_left_to_the_serializer_or_read_as_it_reads_them(value, chance):
    serializer = serializer_for(type(value))
    data = bytearray(written(serializer, value))
    data[chance.draw(st.integers(0, len(data) - 1))] = chance.draw(st.integers(0, 255))
    data = data[: chance.draw(st.integers(0, len(data)))]
    found = PackedRecord.of(serializer).unpack(bytes(data))
    if found is not None:
        view = DataInputView(bytes(data))
        assert repr(serializer.deserialize(view)) == repr(found)
        assert view.remaining() == 0


def test_usual_values_take_the_short_way():
    account = Account("ann", 2.5, True, 7, 3, "")
    packed = PackedRecord.of(serializer_for(Account))
    assert packed.unpack(packed.pack(account)) == account


@pytest.mark.parametrize(
    "value",
    [Account("ann", 1, True, 7, 3, ""), Account("ann", 1.0, 1, 7, 3, ""), Account("ann", 1.0, True, 1 << 70, 3, ""),
     Account("ä", 1.0, True, 7, 3, ""), Account(None, 1.0, True, 7, 3, ""), Account("ann", 1.0, True, 7, 3, "x" * 127)],
    ids=repr,
)  # fmt: skip
def test_what_is_not_usual_is_left_to_the_serializer(value):
    assert PackedRecord.of(serializer_for(Account)).pack(value) is None


def test_only_a_class_whose_values_cannot_change_is_frozen():
    kinds = {kind: PackedRecord.of(serializer_for(kind)).is_frozen for kind in (Account, Loose, Pair)}
    assert kinds == {Account: True, Loose: False, Pair: True}


def test_records_with_other_fields_are_not_packed():
    assert PackedRecord.of(serializer_for(list[int])) is None
    assert PackedRecord.of(serializer_for(attrs.make_class("Empty", {}))) is None
    assert PackedRecord.of(serializer_for(attrs.make_class("Many", {"many": attrs.field(type=list[int])}))) is None
