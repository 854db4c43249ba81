"""Every value has a form in JSON; and values at the edge of what JSON, or Python, has a form for."""

from __future__ import annotations

import json
from decimal import Decimal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateshift import (
    BigInt,
    CountWindow,
    DataInputView,
    DataOutputView,
    GlobalWindow,
    TimeWindow,
    VoidNamespace,
    serializer_for,
)
from stateshift.compat.testing.strategies import types, values_of
from stateshift.serializers.json_forms import tagger_of
from stateshift.serializers.primitives.numeric import BigIntSerializerSnapshot
from stateshift.serializers.records.pojo import PojoField, PojoSerializerSnapshot, PojoSubclass
from stateshift.serializers.snapshot import FlinkSnapshot, snapshot_from_bytes, snapshot_to_bytes


@given(st.data())
def test_every_value_has_a_form_that_tells_of_which_type_it_is(data):
    serializer = serializer_for(data.draw(types()))
    snapshot = snapshot_from_bytes(snapshot_to_bytes(serializer.snapshot_configuration()))
    target = DataOutputView()
    serializer.serialize(data.draw(values_of(serializer)), target)

    text = json.dumps(tagger_of(snapshot)(snapshot.restore_serializer().deserialize(DataInputView(target.getvalue()))))

    assert '{"$opaque"' not in text


class Stranger(FlinkSnapshot):
    """Registered by no family."""

    restore_serializer = None


class Cents(BigIntSerializerSnapshot):
    """Writes other bytes than its base, perhaps; its values are integers."""


@attrs.frozen
class Money:
    amount: int


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (TimeWindow(5, 9), {"$window": [5, 9]}),
        (VoidNamespace(), {"$void": True}),
        (CountWindow(3), {"$count_window": 3}),
        (GlobalWindow(), {"$global": True}),
        (True, True),
        (7, 7),
        ("é", "é"),
        (0.5, 0.5),
        (float("-inf"), {"$double": "-Infinity"}),
        (b"\0\xff", {"$bytes": "00ff"}),
        (Money(3), {"$opaque": "Money(amount=3)"}),
        (None, None),
    ],
)
def test_what_no_family_knows_has_the_form_of_its_values_or_their_text(value, expected):
    assert expected == tagger_of(Stranger())(value)


def test_a_subclass_has_the_form_of_its_base():
    assert {"$bigint": "12"} == tagger_of(Cents())(12)


@pytest.mark.parametrize("digits", [1, 4300, 4301, 60000])
@pytest.mark.parametrize("sign", [1, -1])
def test_integers_of_any_length_are_written_digit_by_digit(digits, sign):
    """Python writes no integer of more than 4300 digits, and Java stores them."""
    number, text = sign * (10**digits - 1), ("-" if sign < 0 else "") + "9" * digits
    tag = {hint: tagger_of(serializer_for(hint).snapshot_configuration()) for hint in (BigInt, Decimal)}

    assert tag[BigInt](number) == {"$bigint": text}
    assert tag[Decimal](Decimal((sign < 0, (9,) * digits, -2))) == {"$bigdec": [text, 2]}


def test_subclasses_of_subclasses_and_strange_names_have_a_form():
    """What names a subclass and what it calls itself are two places of a snapshot, and may be damaged one by one."""
    inner = PojoSerializerSnapshot("fx.C", (PojoField("n", "fx.C", serializer_for(int).snapshot_configuration()),))
    middle = PojoSerializerSnapshot("fx.B", unregistered=(PojoSubclass("fx.C", inner),))
    outer = PojoSerializerSnapshot("fx.A", registered=(PojoSubclass("fx.&", middle),))
    value = outer.restore_serializer().deserialize(
        DataInputView(b"\x08\x00\x04\x00\x04fx.C\x02\x00" + bytes(7) + b"\x05")
    )

    assert tagger_of(outer)(value) == {"$pojo": {"class": "fx.C", "fields": {"n": 5}}}
