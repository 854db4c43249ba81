"""Hints of dates, times and instants."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated

from .java_time import InstantSerializer, LocalDateSerializer, LocalDateTimeSerializer, LocalTimeSerializer
from .table import TIMES

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
    **{time.row.value_class: time(exact=True) for time in TIMES},
}
