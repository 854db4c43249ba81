"""The table of dates and times: the serializers whose rows say what is registered for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .java_sql import DateSerializer, SqlDateSerializer, SqlTimeSerializer, SqlTimestampSerializer
from .java_time import InstantSerializer, LocalDateSerializer, LocalDateTimeSerializer, LocalTimeSerializer

if TYPE_CHECKING:
    from .java_time import TemporalSerializer

TIMES: tuple[type[TemporalSerializer], ...] = (
    InstantSerializer, LocalDateSerializer, LocalTimeSerializer, LocalDateTimeSerializer,
    DateSerializer, SqlDateSerializer, SqlTimeSerializer, SqlTimestampSerializer,
)  # fmt: skip
