"""Strategies of numbers, booleans, strings and chars."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from ..drawing import always, whole
from .big_numbers import DecimalSerializer
from .numeric import (
    BigIntSerializer,
    BooleanSerializer,
    ByteSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
)
from .text import CharSerializer, StringSerializer

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from ..drawing import StrategyTable


def _with_zeros(floats: SearchStrategy[float]) -> SearchStrategy[float]:
    return st.sampled_from([0.0, -0.0]) | floats


_decimals = st.builds(lambda digits, exponent: Decimal(f"{digits}E{exponent}"), whole(80), st.integers(-12, 3))

STRATEGIES: StrategyTable = {
    ByteSerializer: always(whole(7)),
    ShortSerializer: always(whole(15)),
    IntSerializer: always(whole(31)),
    LongSerializer: always(whole(63)),
    BigIntSerializer: always(whole(63) | whole(130)),
    FloatSerializer: always(_with_zeros(st.floats(width=32, allow_nan=False))),
    DoubleSerializer: always(_with_zeros(st.floats(allow_nan=False))),
    BooleanSerializer: always(st.booleans()),
    StringSerializer: always(st.text(max_size=12)),
    CharSerializer: always(st.characters(max_codepoint=0xFFFF)),
    DecimalSerializer: always(_decimals),
}
