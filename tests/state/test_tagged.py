"""JSON of values at the edge of what JSON, or Python, has a form for."""

from __future__ import annotations

from decimal import Decimal

import pytest

from stateshift import BigInt, serializer_for
from stateshift.state.savepoint.tagged import tagger_of


@pytest.mark.parametrize("digits", [1, 4300, 4301, 60000])
@pytest.mark.parametrize("sign", [1, -1])
def test_integers_of_any_length_are_written_digit_by_digit(digits, sign):
    """Python writes no integer of more than 4300 digits, and Java stores them."""
    number, text = sign * (10**digits - 1), ("-" if sign < 0 else "") + "9" * digits
    tag = {hint: tagger_of(serializer_for(hint).snapshot_configuration()) for hint in (BigInt, Decimal)}

    assert tag[BigInt](number) == {"$bigint": text}
    assert tag[Decimal](Decimal((sign < 0, (9,) * digits, -2))) == {"$bigdec": [text, 2]}
