"""Strategies of numbers, booleans, strings and chars."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from ..drawing import always, whole
from .numeric import BigIntSerializer, BooleanSerializer, DecimalSerializer, FloatingSerializer
from .table import NUMBERS
from .text import CharSerializer, StringSerializer

if TYPE_CHECKING:
    from ..drawing import Strategy, StrategyTable
    from .numeric import NumberSerializer


def _numbers(number: type[NumberSerializer[Any]]) -> Strategy:
    bits = 8 * number.row.size
    if not issubclass(number, FloatingSerializer):
        return always(whole(bits - 1))
    return always(st.sampled_from([0.0, -0.0]) | st.floats(width=32 if bits == 32 else 64, allow_nan=False))


_decimals = st.builds(lambda digits, exponent: Decimal(f"{digits}E{exponent}"), whole(80), st.integers(-12, 3))

STRATEGIES: StrategyTable = {
    **{number: _numbers(number) for number in NUMBERS},
    BigIntSerializer: always(whole(63) | whole(130)),
    BooleanSerializer: always(st.booleans()),
    StringSerializer: always(st.text(max_size=12)),
    CharSerializer: always(st.characters(max_codepoint=0xFFFF)),
    DecimalSerializer: always(_decimals),
}
