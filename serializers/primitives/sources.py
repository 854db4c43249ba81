"""What `init` writes for primitives: a type hint each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .big_numbers import BigDecSerializerSnapshot
from .numeric import (
    BigIntSerializerSnapshot,
    BooleanSerializerSnapshot,
    ByteSerializerSnapshot,
    DoubleSerializerSnapshot,
    FloatSerializerSnapshot,
    IntSerializerSnapshot,
    LongSerializerSnapshot,
    ShortSerializerSnapshot,
)
from .text import CharSerializerSnapshot, StringSerializerSnapshot

if TYPE_CHECKING:
    from ..type_source import SourceTable

SOURCES: SourceTable = {
    BigDecSerializerSnapshot: "Decimal",
    BooleanSerializerSnapshot: "bool",
    ByteSerializerSnapshot: "Int8",
    ShortSerializerSnapshot: "Int16",
    IntSerializerSnapshot: "Int32",
    LongSerializerSnapshot: "int",
    BigIntSerializerSnapshot: "BigInt",
    FloatSerializerSnapshot: "Float32",
    DoubleSerializerSnapshot: "float",
    CharSerializerSnapshot: "Char",
    StringSerializerSnapshot: "str",
}

JAVA_PRIMITIVES = frozenset(
    {
        BooleanSerializerSnapshot,
        ByteSerializerSnapshot,
        ShortSerializerSnapshot,
        IntSerializerSnapshot,
        LongSerializerSnapshot,
        FloatSerializerSnapshot,
        DoubleSerializerSnapshot,
        CharSerializerSnapshot,
    }
)
"""The types that are mostly Java primitives, which cannot be null."""
