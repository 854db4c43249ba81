"""Hints of dates, times and instants."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated

from .java_sql import DateSerializer, SqlDateSerializer, SqlTimeSerializer, SqlTimestampSerializer
from .java_time import InstantSerializer, LocalDateSerializer, LocalDateTimeSerializer, LocalTimeSerializer
from .sql_values import JavaDate, SqlDate, SqlTime, SqlTimestamp
from .values import Instant, LocalDate, LocalDateTime, LocalTime

if TYPE_CHECKING:
    from ..hints import HintTable

AwareDatetime = Annotated[dt.datetime, InstantSerializer()]
"""A datetime with a time zone, stored as an instant and read in UTC; a bare `datetime` means the same."""
NaiveDatetime = Annotated[dt.datetime, LocalDateTimeSerializer()]
"""A datetime without a time zone."""

HINTS: HintTable = {
    dt.datetime: InstantSerializer(),
    dt.date: LocalDateSerializer(),
    dt.time: LocalTimeSerializer(),
    Instant: InstantSerializer(exact=True),
    LocalDate: LocalDateSerializer(exact=True),
    LocalTime: LocalTimeSerializer(exact=True),
    LocalDateTime: LocalDateTimeSerializer(exact=True),
    JavaDate: DateSerializer(exact=True),
    SqlDate: SqlDateSerializer(exact=True),
    SqlTime: SqlTimeSerializer(exact=True),
    SqlTimestamp: SqlTimestampSerializer(exact=True),
}
