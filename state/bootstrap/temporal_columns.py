"""Conversion of columns of dates and times to the numbers that Flink stores, without making an object of any value.

A Spark timestamp with a time zone is an instant, one without (`timestamp_ntz`) a local datetime; Arrow counts both in
ticks of some unit since 1970. Values that do not fit, or may not fit, are declined: see `column_bytes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...serializers.temporal.java_sql import DateSerializer, SqlTimestampSerializer
from ...serializers.temporal.java_time import (
    LONG_NULL,
    InstantSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
)
from .column_types import fits_temporal

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...serializers.serializer import TypeSerializer

Numbers = np.ndarray[Any, np.dtype[np.int64]]

_PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_NANOS = 1_000_000_000
_DAY_SECONDS = 86_400


@attrs.frozen
class TemporalNumbers:
    """The numbers of the values of a column.

    Attributes:
        parts: The arrays of numbers that make up a value, in order, each with its numpy format.
        declined: The rows whose numbers are meaningless, apart from nulls.
    """

    parts: tuple[tuple[Numbers, str], ...]
    declined: np.ndarray[Any, np.dtype[np.bool_]]


def temporal_numbers(serializer: TypeSerializer[Any], column: pa.Array) -> TemporalNumbers | None:
    """Return the numbers that encode a column; None if its serializer must write each value."""
    kind = column.type
    split = _SPLITTERS.get(type(serializer))
    if split is None or not fits_temporal(serializer, kind):
        return None
    if pa.types.is_date32(kind):
        return split(_ticks(pc.cast(column, pa.int32())), 1)
    per_second = _PER_SECOND.get(getattr(kind, "unit", ""))
    if per_second is None or pa.types.is_time32(kind):
        return None
    return split(_ticks(pc.cast(column, pa.int64())), per_second)


def _ticks(column: pa.Array) -> Numbers:
    filled = pc.fill_null(column, pa.scalar(0, column.type)) if column.null_count else column
    return np.asarray(filled.to_numpy(zero_copy_only=False)).astype(np.int64)


def _nothing(numbers: Numbers) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.zeros(len(numbers), dtype=bool)


def _instants(ticks: Numbers, per_second: int) -> TemporalNumbers:
    seconds, rest = np.divmod(ticks, per_second)
    return TemporalNumbers(((seconds, ">i8"), (rest * (_NANOS // per_second), ">i4")), _nothing(ticks))


def _millis(ticks: Numbers, per_second: int) -> TemporalNumbers:
    millis, finer = np.divmod(ticks, per_second // 1000)
    return TemporalNumbers(((millis, ">i8"),), (finer != 0) | (millis == LONG_NULL))


def _timestamps(ticks: Numbers, per_second: int) -> TemporalNumbers:
    millis = ticks // (per_second // 1000)
    nanos = ticks % per_second * (_NANOS // per_second)
    return TemporalNumbers(((millis, ">i8"), (nanos, ">i4")), millis == LONG_NULL)


def _dates(days: Numbers, _: int) -> TemporalNumbers:
    date = days.astype("datetime64[D]")
    month = date.astype("datetime64[M]")
    year = date.astype("datetime64[Y]").astype(np.int64) + 1970
    numbers = (
        (year, ">i4"),
        (month.astype(np.int64) % 12 + 1, ">i1"),
        ((date - month.astype("datetime64[D]")).astype(np.int64) + 1, ">i1"),
    )
    return TemporalNumbers(numbers, _nothing(days))


def _times(ticks: Numbers, per_second: int) -> TemporalNumbers:
    seconds, rest = np.divmod(ticks, per_second)
    minutes, second = np.divmod(seconds, 60)
    hour, minute = np.divmod(minutes, 60)
    numbers = ((hour, ">i1"), (minute, ">i1"), (second, ">i1"), (rest * (_NANOS // per_second), ">i4"))
    return TemporalNumbers(numbers, (seconds < 0) | (seconds >= _DAY_SECONDS))


def _datetimes(ticks: Numbers, per_second: int) -> TemporalNumbers:
    days, rest = np.divmod(ticks, per_second * _DAY_SECONDS)
    return TemporalNumbers((*_dates(days, 1).parts, *_times(rest, per_second).parts), _nothing(ticks))


_SPLITTERS: dict[type, Callable[[Numbers, int], TemporalNumbers]] = {
    InstantSerializer: _instants,
    DateSerializer: _millis,
    SqlTimestampSerializer: _timestamps,
    LocalDateSerializer: _dates,
    LocalTimeSerializer: _times,
    LocalDateTimeSerializer: _datetimes,
}
"""By exact type: a subclass may write other bytes."""
