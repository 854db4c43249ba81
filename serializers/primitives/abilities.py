"""What is registered for primitives: hints, byte rewrites, JSON, and the source that `init` writes."""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Annotated, Any, cast

from .. import rewrite
from ..json_forms import as_is, tagged_float
from ..scalars import kept
from .numeric import (
    BigIntSerializer,
    BooleanSerializer,
    ByteSerializer,
    DecimalSerializer,
    DoubleSerializer,
    FloatingSerializer,
    FloatSerializer,
    IntSerializer,
    LongSerializer,
    NumberSerializer,
    ShortSerializer,
    decimal_of,
    split_decimal,
    widening_of,
)
from .table import NUMBERS, PRIMITIVES
from .text import CharSerializer, StringSerializer, utf8_to_text

if TYPE_CHECKING:
    from ..hints import HintTable
    from ..json_forms import JsonFormTable, Tagger
    from ..rewrite import Conversion, RewriteTable
    from ..serializer import TypeDeserializer, TypeSerializer
    from ..source import SourceTable

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


def _float(_: object) -> Tagger:
    return tagged_float


def _decimal(_: object) -> Tagger:
    def convert(value: Any) -> Any:
        unscaled, scale = split_decimal(value)
        return {"$bigdec": [_digits(unscaled), scale]}

    return convert


def _digits(value: int) -> str:
    """Return the digits of an integer of any length; `str` refuses more than 4300 digits, as its time is quadratic."""
    return format(decimal_of(value), "f")


_FORMS = {BigIntSerializer: lambda _: lambda value: {"$bigint": _digits(value)}, DecimalSerializer: _decimal}

JSON_FORMS: JsonFormTable = {
    scalar.snapshot: _float if issubclass(scalar, FloatingSerializer) else _FORMS.get(scalar, as_is)
    for scalar in PRIMITIVES
}


SOURCES: SourceTable = {scalar.snapshot: scalar.row.hint for scalar in PRIMITIVES}

JAVA_PRIMITIVES = frozenset(scalar.snapshot for scalar in PRIMITIVES if scalar.row.array)
"""The types that are mostly Java primitives, which cannot be null."""
