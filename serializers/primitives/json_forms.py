"""JSON forms of primitives: JSON has most of them; numbers of any length become digits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..json_forms import as_is, tagged_float
from .big_numbers import BigDecSerializerSnapshot, decimal_of, split_decimal
from .numeric import (
    BigIntSerializerSnapshot,
    BooleanSerializerSnapshot,
    DoubleSerializerSnapshot,
    FloatSerializerSnapshot,
    NumberSnapshot,
)
from .text import CharSerializerSnapshot, StringSerializerSnapshot

if TYPE_CHECKING:
    from ..json_forms import JsonFormTable, Tagger


def _float(_: object) -> Tagger:
    return tagged_float


def _big_integer(_: object) -> Tagger:
    return lambda value: {"$bigint": _digits(value)}


def _decimal(_: object) -> Tagger:
    def convert(value: Any) -> Any:
        unscaled, scale = split_decimal(value)
        return {"$bigdec": [_digits(unscaled), scale]}

    return convert


def _digits(value: int) -> str:
    """Return the digits of an integer of any length; `str` refuses more than 4300 digits, as its time is quadratic."""
    return format(decimal_of(value), "f")


JSON_FORMS: JsonFormTable = {
    NumberSnapshot: as_is,
    FloatSerializerSnapshot: _float,
    DoubleSerializerSnapshot: _float,
    BigIntSerializerSnapshot: _big_integer,
    BigDecSerializerSnapshot: _decimal,
    BooleanSerializerSnapshot: as_is,
    StringSerializerSnapshot: as_is,
    CharSerializerSnapshot: as_is,
}
