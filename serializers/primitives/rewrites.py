"""Byte rewrites of primitives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from .. import rewrite
from .big_numbers import DecimalSerializer
from .numeric import (
    BigIntSerializer,
    BooleanSerializer,
    ByteSerializer,
    DoubleSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    NumberSerializer,
    ShortSerializer,
    widening_of,
)
from .text import CharSerializer, StringSerializer, utf8_to_text

if TYPE_CHECKING:
    from ..rewrite import Conversion, RewriteTable
    from ..serializer import TypeDeserializer, TypeSerializer

_INTEGER_BYTES = {"byte": 1, "short": 2, "int": 4, "long": 8}
_FLOAT_BYTES = {"float": 4, "double": 8}
_CHAR_BYTES, _SCALE_BYTES = 2, 4


def _number(
    writer: NumberSerializer[Any], reader: TypeDeserializer[Any], conversion: Conversion
) -> rewrite.ByteRewrite | None:
    if not isinstance(reader, NumberSerializer):
        return None
    old, new = reader.number, writer.number
    widening = (None, False) if old == new else widening_of(old, new)
    return None if widening is None or widening[0] is not conversion else _widened(old, new)


def _widened(old: str, new: str) -> rewrite.ByteRewrite | None:
    """Return the byte rewrite of a conversion that `widening_of` allows, or of none."""
    if old == new:
        if new in _FLOAT_BYTES:
            return rewrite.Float(_FLOAT_BYTES[new])
        return rewrite.BigInteger() if new == "bigint" else rewrite.Fixed(_INTEGER_BYTES[new])
    if old in _INTEGER_BYTES and new in _INTEGER_BYTES and _INTEGER_BYTES[old] < _INTEGER_BYTES[new]:
        return rewrite.Widened(_INTEGER_BYTES[old], _INTEGER_BYTES[new])
    if new in _FLOAT_BYTES and old in _INTEGER_BYTES:
        return rewrite.ToFloat(_INTEGER_BYTES[old], _FLOAT_BYTES[new])
    if new == "bigint" and old in _INTEGER_BYTES:
        return rewrite.ToBigInteger(_INTEGER_BYTES[old])
    return rewrite.ToFloat(0, 8) if (old, new) == ("float", "double") else None


def _boolean(_: BooleanSerializer, reader: TypeDeserializer[Any], conversion: Conversion) -> rewrite.ByteRewrite | None:
    return rewrite.Boolean() if isinstance(reader, BooleanSerializer) and conversion is None else None


def _decimal(_: DecimalSerializer, reader: TypeDeserializer[Any], conversion: Conversion) -> rewrite.ByteRewrite | None:
    if not isinstance(reader, DecimalSerializer) or conversion is not None:
        return None
    return rewrite.Sequence((rewrite.BigInteger(), rewrite.Fixed(_SCALE_BYTES)))


def _string(_: StringSerializer, reader: TypeDeserializer[Any], conversion: Conversion) -> rewrite.ByteRewrite | None:
    if conversion is utf8_to_text:
        are_bytes = rewrite.rewrite_of(reader, None, cast("TypeSerializer[Any]", reader)) == rewrite.Blob()
        return rewrite.FromUtf8() if are_bytes else None
    return rewrite.Text() if isinstance(reader, StringSerializer) and conversion is None else None


def _char(_: CharSerializer, reader: TypeDeserializer[Any], conversion: Conversion) -> rewrite.ByteRewrite | None:
    return rewrite.Fixed(_CHAR_BYTES) if isinstance(reader, CharSerializer) and conversion is None else None


REWRITES: RewriteTable = {
    ByteSerializer: _number,
    ShortSerializer: _number,
    IntSerializer: _number,
    LongSerializer: _number,
    FloatSerializer: _number,
    DoubleSerializer: _number,
    BigIntSerializer: _number,
    DecimalSerializer: _decimal,
    BooleanSerializer: _boolean,
    StringSerializer: _string,
    CharSerializer: _char,
}
