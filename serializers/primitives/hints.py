"""Hints of numbers, booleans, strings and chars."""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Annotated

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
    from ..hints import HintTable

Int8 = Annotated[int, ByteSerializer()]
Int16 = Annotated[int, ShortSerializer()]
Int32 = Annotated[int, IntSerializer()]
BigInt = Annotated[int, BigIntSerializer()]
Float32 = Annotated[float, FloatSerializer()]
Char = Annotated[str, CharSerializer()]

HINTS: HintTable = {
    int: LongSerializer(),
    float: DoubleSerializer(),
    bool: BooleanSerializer(),
    str: StringSerializer(),
    decimal.Decimal: DecimalSerializer(),
}
