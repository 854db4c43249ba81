"""Byte rewrites of dates and times: their numbers stay, where they are valid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import rewrite
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
    from ..rewrite import Conversion, RewriteTable
    from ..serializer import TypeDeserializer

_NANOS = rewrite.Ranged(4, 0, 999_999_999)
_MILLIS = rewrite.Ranged(8, LONG_NULL + 1, -LONG_NULL - 1)
_DATE = rewrite.Date()
_TIME = (rewrite.Ranged(1, 0, 23), rewrite.Ranged(1, 0, 59), rewrite.Ranged(1, 0, 59), _NANOS)
_NUMBERS: dict[type[TemporalSerializer], tuple[rewrite.ByteRewrite, ...]] = {
    InstantSerializer: (rewrite.Ranged(8, FIRST_SECOND, LAST_SECOND), _NANOS),
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
) -> rewrite.ByteRewrite | None:
    if conversion is not None or not isinstance(reader, type(writer)) or not reader.exact:
        return None
    return rewrite.Sequence(_NUMBERS[type(writer)])


REWRITES: RewriteTable = dict.fromkeys(_NUMBERS, _temporal)
