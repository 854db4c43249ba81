"""Conversion of columns of dates and times to the numbers that Flink stores, without making an object of any value.

A Spark timestamp with a time zone is an instant, one without (`timestamp_ntz`) a local datetime; Arrow counts both in
ticks of some unit since 1970. Values that do not fit, or may not fit, are declined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..columns.encoded import EncodedColumn, nulls_of, number_bytes
from .java_time import LONG_NULL

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


Split = Callable[[Numbers, int], TemporalNumbers]
"""Splits ticks, of which so many are in a second, or days."""


def encoded(split: Split, column: pa.Array) -> EncodedColumn | None:
    """Return the bytes of a column; None if its serializer must write each value."""
    numbers = _split(split, column)
    if numbers is None:
        return None
    pieces = tuple(number_bytes(values, form) for values, form in numbers.parts)
    return EncodedColumn(pieces, numbers.declined | nulls_of(column))


def _split(split: Split, column: pa.Array) -> TemporalNumbers | None:
    kind = column.type
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


def instants(ticks: Numbers, per_second: int) -> TemporalNumbers:
    """Return seconds and nanoseconds."""
    seconds, rest = np.divmod(ticks, per_second)
    return TemporalNumbers(((seconds, ">i8"), (rest * (_NANOS // per_second), ">i4")), _nothing(ticks))


def millis(ticks: Numbers, per_second: int) -> TemporalNumbers:
    """Return milliseconds."""
    millis, finer = np.divmod(ticks, per_second // 1000)
    return TemporalNumbers(((millis, ">i8"),), (finer != 0) | (millis == LONG_NULL))


def timestamps(ticks: Numbers, per_second: int) -> TemporalNumbers:
    """Return milliseconds, and nanoseconds of the second."""
    millis = ticks // (per_second // 1000)
    nanos = ticks % per_second * (_NANOS // per_second)
    return TemporalNumbers(((millis, ">i8"), (nanos, ">i4")), millis == LONG_NULL)


def dates(days: Numbers, _: int) -> TemporalNumbers:
    """Return year, month and day."""
    date = days.astype("datetime64[D]")
    month = date.astype("datetime64[M]")
    year = date.astype("datetime64[Y]").astype(np.int64) + 1970
    numbers = (
        (year, ">i4"),
        (month.astype(np.int64) % 12 + 1, ">i1"),
        ((date - month.astype("datetime64[D]")).astype(np.int64) + 1, ">i1"),
    )
    return TemporalNumbers(numbers, _nothing(days))


def times(ticks: Numbers, per_second: int) -> TemporalNumbers:
    """Return hour, minute, second and nanoseconds."""
    seconds, rest = np.divmod(ticks, per_second)
    minutes, second = np.divmod(seconds, 60)
    hour, minute = np.divmod(minutes, 60)
    numbers = ((hour, ">i1"), (minute, ">i1"), (second, ">i1"), (rest * (_NANOS // per_second), ">i4"))
    return TemporalNumbers(numbers, (seconds < 0) | (seconds >= _DAY_SECONDS))


def datetimes(ticks: Numbers, per_second: int) -> TemporalNumbers:
    """Return the parts of date and time."""
    days, rest = np.divmod(ticks, per_second * _DAY_SECONDS)
    return TemporalNumbers((*dates(days, 1).parts, *times(rest, per_second).parts), _nothing(ticks))
