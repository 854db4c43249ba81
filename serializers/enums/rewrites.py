"""Byte rewrites of enums: ordinals become those of the same symbols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import rewrite
from .rules import SymbolConversion
from .serializers import EnumSerializer, JavaEnumSerializer

if TYPE_CHECKING:
    from ..rewrite import Conversion, RewriteTable
    from ..serializer import TypeDeserializer


def _enum(writer: EnumSerializer, reader: TypeDeserializer[Any], conversion: Conversion) -> rewrite.ByteRewrite | None:
    if not isinstance(reader, EnumSerializer) or reader.enum_class is not None:
        return None
    if not isinstance(conversion, SymbolConversion | None):
        return None
    became = {symbol: symbol for symbol in reader.symbols} if conversion is None else conversion.became
    ordinals = {symbol: ordinal for ordinal, symbol in enumerate(writer.symbols)}
    return rewrite.Ordinal(tuple(ordinals.get(became.get(symbol, ""), -1) for symbol in reader.symbols))


REWRITES: RewriteTable = {EnumSerializer: _enum, JavaEnumSerializer: _enum}
