"""Byte rewrites of primitives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from .. import rewrite
from ..scalars import kept
from .numeric import BigIntSerializer, FloatingSerializer, NumberSerializer, widening_of
from .table import NUMBERS, PRIMITIVES
from .text import StringSerializer, utf8_to_text

if TYPE_CHECKING:
    from ..rewrite import Conversion, RewriteTable
    from ..serializer import TypeDeserializer, TypeSerializer


def _number(
    writer: NumberSerializer[Any], reader: TypeDeserializer[Any], conversion: Conversion
) -> rewrite.ByteRewrite | None:
    widening = widening_of(reader.row, writer.row) if isinstance(reader, NumberSerializer) else None
    if widening is None or widening[0] is not conversion:
        return kept(writer, reader, conversion)
    old, new = cast("NumberSerializer[Any]", reader).length, writer.length
    if isinstance(writer, FloatingSerializer):
        return rewrite.ToFloat(0 if isinstance(reader, FloatingSerializer) else old, new)
    return rewrite.Widened(old, new) if new > 0 else rewrite.ToBigInteger(old)


def _string(
    writer: StringSerializer, reader: TypeDeserializer[Any], conversion: Conversion
) -> rewrite.ByteRewrite | None:
    if conversion is not utf8_to_text:
        return kept(writer, reader, conversion)
    are_bytes = rewrite.rewrite_of(reader, None, cast("TypeSerializer[Any]", reader)) == rewrite.Blob()
    return rewrite.FromUtf8() if are_bytes else None


REWRITES: RewriteTable = {
    **dict.fromkeys(PRIMITIVES, kept),
    **dict.fromkeys((*NUMBERS, BigIntSerializer), _number),
    StringSerializer: _string,
}
