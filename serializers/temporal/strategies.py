"""Strategies of dates, times and instants."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from ..drawing import always
from .serializers import (
    DateSerializer,
    InstantSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
    SqlDateSerializer,
    SqlTimeSerializer,
    SqlTimestampSerializer,
)
from .values import SqlDate, SqlTime

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from ..drawing import Drawing, Strategy, StrategyTable
    from .serializers import TemporalSerializer

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # the years of Python's datetime

_millis = st.sampled_from([0, _FIRST_MS, _LAST_MS]) | st.integers(_FIRST_MS, _LAST_MS)
_moments = st.datetimes(timezones=st.just(dt.UTC))


def _of_python(values: SearchStrategy[Any]) -> Strategy:
    """Return what the table holds for a serializer of Python's values, which are converted where it is exact."""

    def drawn(_: Drawing, serializer: TemporalSerializer) -> SearchStrategy[Any]:
        exact = serializer.value_class
        return values.map(exact.from_python) if serializer.exact else values

    return drawn


STRATEGIES: StrategyTable = {
    InstantSerializer: _of_python(_moments),
    LocalDateSerializer: _of_python(st.dates()),
    LocalTimeSerializer: _of_python(st.times()),
    LocalDateTimeSerializer: _of_python(st.datetimes()),
    DateSerializer: _of_python(_millis.map(lambda millis: _EPOCH + dt.timedelta(milliseconds=millis))),
    SqlTimestampSerializer: _of_python(_moments),
    SqlDateSerializer: always(_millis.map(SqlDate)),
    SqlTimeSerializer: always(_millis.map(SqlTime)),
}
