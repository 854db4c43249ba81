"""What is registered for enums beside hints: byte rewrites, JSON, and the source that `init` writes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from .. import rewrite
from ..source import Group, NoSourceError, class_docstring, class_options, is_name, quoted, statement
from .serializers import (
    EnumSerializer,
    EnumSerializerSnapshot,
    JavaEnumSerializer,
    JavaEnumSerializerSnapshot,
    SymbolConversion,
)

if TYPE_CHECKING:
    from ..json_forms import JsonFormTable
    from ..rewrite import Conversion, RewriteTable
    from ..serializer import TypeDeserializer
    from ..source import SourceTable, TypeSource, Use


def _enum_rewrite(
    writer: EnumSerializer, reader: TypeDeserializer[Any], conversion: Conversion
) -> rewrite.ByteRewrite | None:
    if not isinstance(reader, EnumSerializer) or reader.enum_class is not None:
        return None
    if not isinstance(conversion, SymbolConversion | None):
        return None
    became = {symbol: symbol for symbol in reader.symbols} if conversion is None else conversion.became
    ordinals = {symbol: ordinal for ordinal, symbol in enumerate(writer.symbols)}
    return rewrite.Ordinal(tuple(ordinals.get(became.get(symbol, ""), -1) for symbol in reader.symbols))


REWRITES: RewriteTable = {EnumSerializer: _enum_rewrite, JavaEnumSerializer: _enum_rewrite}


JSON_FORMS: JsonFormTable = {EnumSerializerSnapshot: lambda _: lambda value: {"$enum": value.name}}


_NOT_IN_A_BODY = {"enum", "name", "value"}


def _enum_source(source: TypeSource, snapshot: EnumSerializerSnapshot, _: Use) -> str:
    return source.once(snapshot, partial(_define, source))


def _define(source: TypeSource, snapshot: EnumSerializerSnapshot) -> str:
    if not snapshot.symbols:
        raise NoSourceError(f"the enum {snapshot.name} has no symbols")
    never = next((symbol for symbol in snapshot.symbols if _is_no_member(symbol)), None)
    if never is not None:
        raise NoSourceError(f"a Python enum cannot have the member {never!r} of {snapshot.name}")
    name = source.names.class_name(snapshot.name, fallback="Symbols")
    is_java = isinstance(snapshot, JavaEnumSerializerSnapshot)
    options = class_options(is_java=is_java, name=snapshot.name)
    if all(is_name(symbol) and symbol[0] != "_" and symbol not in _NOT_IN_A_BODY for symbol in snapshot.symbols):
        source.blocks.append([
            *statement(Group("@enum_options(", (options,))),
            f"class {name}(enum.Enum):",
            class_docstring(snapshot.name, "enum", is_java=is_java),
            "",
            *(f"    {symbol} = enum.auto()" for symbol in snapshot.symbols),
        ])  # fmt: skip
        return name
    members = Group("[", [f"({quoted(symbol)}, {place})" for place, symbol in enumerate(snapshot.symbols, 1)])
    source.blocks.append(statement(Group("enum.Enum(", (quoted(name), members)), before=f"{name} = "))
    source.blocks.append(statement(Group("enum_options(", (options,)), after=f"({name})"))
    return name


def _is_no_member(symbol: str) -> bool:
    """Whether Python does not make a member of this name in an enum."""
    return not symbol or symbol == "mro" or (symbol.startswith("_") and symbol.endswith("_"))


SOURCES: SourceTable = {EnumSerializerSnapshot: _enum_source, JavaEnumSerializerSnapshot: _enum_source}
