"""Recipes of dates and times: their numbers stay, where they are valid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import recipe
from .java_sql import DateSerializer, SqlDateSerializer, SqlTimeSerializer
from .java_time import (
    LONG_NULL,
    InstantSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
    TemporalSerializer,
)
from .values import FIRST_SECOND, LAST_SECOND

if TYPE_CHECKING:
    from ..recipe import Conversion, RewriteTable
    from ..serializer import TypeDeserializer

_NANOS = recipe.Ranged(4, 0, 999_999_999)
_MILLIS = recipe.Ranged(8, LONG_NULL + 1, -LONG_NULL - 1)
_DATE = recipe.Date()
_TIME = (recipe.Ranged(1, 0, 23), recipe.Ranged(1, 0, 59), recipe.Ranged(1, 0, 59), _NANOS)
_NUMBERS: dict[type[TemporalSerializer], tuple[recipe.Recipe, ...]] = {
    InstantSerializer: (recipe.Ranged(8, FIRST_SECOND, LAST_SECOND), _NANOS),
    LocalDateSerializer: (_DATE,),
    LocalTimeSerializer: _TIME,
    LocalDateTimeSerializer: (_DATE, *_TIME),
    DateSerializer: (_MILLIS,),
    SqlDateSerializer: (_MILLIS,),
    SqlTimeSerializer: (_MILLIS,),
}
"""The numbers in the bytes, with their valid ranges."""


def _temporal(
    writer: TemporalSerializer, reader: TypeDeserializer[Any], conversion: Conversion
) -> recipe.Recipe | None:
    if conversion is not None or not isinstance(reader, type(writer)) or not reader.exact:
        return None
    return recipe.Sequence(_NUMBERS[type(writer)])


REWRITES: RewriteTable = dict.fromkeys(_NUMBERS, _temporal)
