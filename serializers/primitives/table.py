"""The table of primitives: the serializers whose rows say what is registered for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .numeric import (
    BigIntSerializer,
    BooleanSerializer,
    ByteSerializer,
    DecimalSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    ShortSerializer,
)
from .text import CharSerializer, StringSerializer

if TYPE_CHECKING:
    from ..scalars import ScalarSerializer
    from .numeric import NumberSerializer

NUMBERS: tuple[type[NumberSerializer[Any]], ...] = (
    ByteSerializer, ShortSerializer, IntSerializer, LongSerializer, FloatSerializer, DoubleSerializer,
)  # fmt: skip
"""Those of fixed length."""

PRIMITIVES: tuple[type[ScalarSerializer[Any]], ...] = (
    *NUMBERS, BigIntSerializer, DecimalSerializer, BooleanSerializer, StringSerializer, CharSerializer,
)  # fmt: skip
