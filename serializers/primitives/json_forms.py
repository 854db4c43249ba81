"""JSON forms of primitives: JSON has most of them; numbers of any length become digits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..json_forms import as_is, tagged_float
from .big_numbers import DecimalSerializer, decimal_of, split_decimal
from .numeric import BigIntSerializer, FloatingSerializer
from .table import PRIMITIVES

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


_FORMS = {BigIntSerializer: _big_integer, DecimalSerializer: _decimal}

JSON_FORMS: JsonFormTable = {
    scalar.snapshot: _float if issubclass(scalar, FloatingSerializer) else _FORMS.get(scalar, as_is)
    for scalar in PRIMITIVES
}
