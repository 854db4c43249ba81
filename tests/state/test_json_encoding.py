"""JSON of values at the edge of what JSON, or Python, has a form for."""

from __future__ import annotations

from decimal import Decimal

import pytest

from stateshift import BigInt, serializer_for
from stateshift.serializers.records.pojo import PojoField, PojoSerializerSnapshot, PojoSubclass
from stateshift.serializers.views import DataInputView
from stateshift.state.savepoint.json_encoding import tagger_of


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
