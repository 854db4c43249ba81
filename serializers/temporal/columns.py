"""Columns of dates and times.

    Instant, java.util.Date, java.sql.Timestamp  timestamp        LocalDate      date
    LocalDateTime                                timestamp_ntz    LocalTime      time
    java.sql.Date, java.sql.Time                 bigint: milliseconds since 1970, in an unknown time zone

Spark stores microseconds. A value with nanoseconds, or outside the years that Spark supports, is an error; the exact
codec returns times as text in ISO 8601, to the nanosecond.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import numpy as np
import pyarrow as pa

from ..columns.bytes_at import number_array, numbers_at
from ..columns.codec import EXACT, ColumnCodec, Decoded, not_in_column
from ..columns.factory import plain
from ..columns.kinds import spark_name
from ..columns.scalars import TextCodec
from ..wording import one
from . import column_numbers
from .java_sql import DateSerializer, SqlDateSerializer, SqlTimeSerializer, SqlTimestampSerializer
from .java_time import (
    LONG_NULL,
    InstantSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
    TemporalSerializer,
)
from .values import TemporalValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..columns.bytes_at import Flags, Places
    from ..columns.codec import Cells, Taker
    from ..columns.encoded import EncodedColumn, Singly
    from ..columns.factory import Codecs, ColumnTable

_MICROS, _NANOS = 1_000_000, 1_000_000_000
_WITH_NANOS = 12
_DAY_SECONDS = 86_400
_MOST_SECONDS = (1 << 63) // _MICROS - 1
_MOST_YEAR = 290_000
"""A year well within the range of microseconds in 64 bits."""
_INT_NULL = -(2**31)
_SHORT_NULL, _BYTE_NULL = -32768, -128
_ZONE = "which a cast makes in the session's time zone"
_NO_ZONE = "is {0}, which lacks the time zone of a {1}; use a function that returns {2}(milliseconds), or a bigint"


def exact_of(serializer: Any, value: Any) -> TemporalValue:
    """Return the exact value; one of Python's own types, as the equivalent of an Avro type may have, is converted."""
    found: TemporalValue = value if isinstance(value, TemporalValue) else serializer.value_class.from_python(value)
    return found


@attrs.frozen
class ExactTimeCodec(TextCodec):
    """Times as text in ISO 8601, to the nanosecond."""

    def _told(self, value: Any) -> Any:
        return str(exact_of(self.serializer, value))


@attrs.frozen
class TimesCodec(ColumnCodec):
    """Base of the codecs of dates and times, whose columns count ticks.

    Attributes:
        split: Splits ticks into the stored numbers.
    """

    split: column_numbers.Split

    @property
    def size(self) -> int:
        return self.serializer.length

    def _encoded(self, column: pa.Array, singly: Singly) -> EncodedColumn | None:
        return column_numbers.encoded(self.split, column) if self._fits(column.type) else None


@attrs.frozen
class MomentCodec(TimesCodec):
    """Moments: seconds or milliseconds since 1970, and i32 nanoseconds of the second in values of 12 bytes.

    Attributes:
        per_second: The number of units of the first number in a second.
    """

    per_second: int

    kind = pa.timestamp("us", "UTC")

    def _told(self, value: Any) -> Any:
        exact: Any = exact_of(self.serializer, value)
        return _micros(exact, *exact.moment)

    def decode(self, cells: Cells) -> Decoded:
        ends, odd = cells.skipped(self.size)
        first = numbers_at(cells.data, cells.starts, ">i8")
        valid = first != LONG_NULL
        seconds, rest = np.divmod(first, self.per_second)
        nanos: Any = rest * (_NANOS // self.per_second)
        if self.size == _WITH_NANOS:
            second = numbers_at(cells.data, cells.starts + 8, ">i4").astype(np.int64)
            if self.per_second == 1:
                valid |= second != _INT_NULL
            else:
                valid |= second != 0
                odd = odd | valid & (second // _MICROS != rest)
            nanos = second
        fits = (np.abs(seconds) < _MOST_SECONDS) & (nanos >= 0) & (nanos < _NANOS) & (nanos % 1000 == 0)
        micros = np.where(fits, seconds, 0) * _MICROS + np.where(fits, nanos, 0) // 1000
        return Decoded(number_array(self.kind, micros, valid), ends, odd | valid & ~fits)

    def _fits(self, kind: pa.DataType) -> bool:
        return bool(pa.types.is_timestamp(kind)) and kind.tz is not None

    def _wanted(self, kind: pa.DataType) -> str:
        if pa.types.is_timestamp(kind):
            return f"a timestamp, {_ZONE}; as it is, it is a NaiveDatetime"
        return f"a timestamp, {_ZONE}" if pa.types.is_date(kind) else "a timestamp"


def _micros(value: object, seconds: int, nanos: int) -> int:
    if nanos % 1000:
        raise not_in_column(str(value), "has nanoseconds, but Spark has only microseconds", EXACT)
    if abs(seconds) >= _MOST_SECONDS:
        raise not_in_column(str(value), "is outside the years that Spark supports", EXACT)
    return seconds * _MICROS + nanos // 1000


@attrs.frozen
class DateCodec(TimesCodec):
    """Dates: i32 year, i8 month, i8 day."""

    kind = pa.date32()

    def _told(self, value: Any) -> Any:
        exact = exact_of(self.serializer, value)
        return _days_of(exact, *exact.parts)

    def decode(self, cells: Cells) -> Decoded:
        ends, odd = cells.skipped(6)
        days, valid, fits = _days(cells, cells.starts)
        return Decoded(number_array(self.kind, days.astype(np.int32), valid), ends, odd | valid & ~fits)

    def _fits(self, kind: pa.DataType) -> bool:
        return bool(pa.types.is_date(kind))

    def _wanted(self, kind: pa.DataType) -> str:
        return f"a date, {_ZONE}" if pa.types.is_timestamp(kind) and kind.tz else "a date"


def _days_of(value: object, year: int, month: int, day: int) -> int:
    if abs(year) > _MOST_YEAR:
        raise not_in_column(str(value), "is outside the years that Spark supports", EXACT)
    first = np.datetime64((year - 1970) * 12 + month - 1, "M").astype("datetime64[D]")
    return int(first.astype(np.int64)) + day - 1


def _days(cells: Cells, starts: Places) -> tuple[Places, Flags, Flags]:
    """Return the days since 1970, which rows are not null, and which are a valid date."""
    year = numbers_at(cells.data, starts, ">i4").astype(np.int64)
    month = numbers_at(cells.data, starts + 4, ">i1").astype(np.int64)
    day = numbers_at(cells.data, starts + 5, ">i1").astype(np.int64)
    valid = (year != _INT_NULL) | (month * 256 + day != _SHORT_NULL)
    usual = (np.abs(year) <= _MOST_YEAR) & (month >= 1) & (month <= 12)
    months = (np.where(usual, year - 1970, 0) * 12 + np.where(usual, month - 1, 0)).astype("datetime64[M]")
    first = months.astype("datetime64[D]").astype(np.int64)
    past = (months + 1).astype("datetime64[D]").astype(np.int64)
    days = first + np.where(usual, day, 1) - 1
    return days, valid, usual & (day >= 1) & (days < past)


@attrs.frozen
class TimeCodec(TimesCodec):
    """Times of day: i8 hour, i8 minute, i8 second, i32 nanoseconds."""

    kind = pa.time64("ns")

    def _told(self, value: Any) -> Any:
        exact = exact_of(self.serializer, value)
        hour, minute, second, nanos = exact.parts
        return _micros(exact, (hour * 60 + minute) * 60 + second, nanos) * 1000

    def decode(self, cells: Cells) -> Decoded:
        ends, odd = cells.skipped(7)
        micros, valid, fits = _clock(cells, cells.starts)
        return Decoded(number_array(self.kind, micros * 1000, valid), ends, odd | valid & ~fits)

    def _fits(self, kind: pa.DataType) -> bool:
        return bool(pa.types.is_time(kind))

    def _wanted(self, kind: pa.DataType) -> str:
        return "a time"


def _clock(cells: Cells, starts: Places) -> tuple[Places, Flags, Flags]:
    """Return the microseconds of the day, which rows are not null, and which are a valid time in whole microseconds."""
    hour, minute, second = (numbers_at(cells.data, starts + at, ">i1").astype(np.int64) for at in range(3))
    nanos = numbers_at(cells.data, starts + 3, ">i4").astype(np.int64)
    valid = (hour != _BYTE_NULL) | (minute * 256 + second != _SHORT_NULL) | (nanos != _INT_NULL)
    fits = (hour >= 0) & (hour < 24) & (minute >= 0) & (minute < 60) & (second >= 0) & (second < 60)
    fits &= (nanos >= 0) & (nanos < _NANOS) & (nanos % 1000 == 0)
    micros = ((hour * 60 + minute) * 60 + second) * _MICROS + nanos // 1000
    return np.where(fits, micros, 0), valid, fits


@attrs.frozen
class DateTimeCodec(TimesCodec):
    """Dates with times, without a time zone: a date, a time."""

    day_bytes: ClassVar[int] = 6

    kind = pa.timestamp("us")

    def _told(self, value: Any) -> Any:
        exact = exact_of(self.serializer, value)
        year, month, day, hour, minute, second, nanos = exact.parts
        days = _days_of(exact, year, month, day)
        return _micros(exact, days * _DAY_SECONDS + (hour * 60 + minute) * 60 + second, nanos)

    def decode(self, cells: Cells) -> Decoded:
        ends, odd = cells.skipped(13)
        days, has_day, is_day = _days(cells, cells.starts)
        micros, has_time, is_time = _clock(cells, cells.starts + self.day_bytes)
        valid, fits = has_day | has_time, is_day & is_time
        total = np.where(fits, days, 0) * (_DAY_SECONDS * _MICROS) + micros
        return Decoded(number_array(self.kind, total, valid), ends, odd | valid & ~fits)

    def _fits(self, kind: pa.DataType) -> bool:
        return bool(pa.types.is_timestamp(kind)) and kind.tz is None

    def _wanted(self, kind: pa.DataType) -> str:
        return f"a timestamp_ntz, {_ZONE}" if pa.types.is_timestamp(kind) else "a timestamp_ntz"


@attrs.frozen
class MillisCodec(ColumnCodec):
    """Values that `java.sql` stores as a moment in the time zone of its JVM: milliseconds since 1970."""

    serializer: TemporalSerializer

    kind = pa.int64()
    size = 8

    def _told(self, value: Any) -> Any:
        return value.parts[0]

    def decode(self, cells: Cells) -> Decoded:
        ends, odd = cells.skipped(8)
        millis = numbers_at(cells.data, cells.starts, ">i8")
        return Decoded(number_array(self.kind, millis, millis != LONG_NULL), ends, odd)

    def mismatches(self, kind: pa.DataType, path: str = "") -> Iterator[tuple[str, str]]:
        if not pa.types.is_integer(kind):
            given = self.serializer.value_class.__name__
            yield path, _NO_ZONE.format(one(spark_name(kind)), self.serializer.describe(), given)

    def taker(self) -> Taker:
        return self.serializer.value_class


def _time(
    make: Callable[[TemporalSerializer, column_numbers.Split], ColumnCodec],
    split: column_numbers.Split,
    codecs: Codecs,
    serializer: TemporalSerializer,
) -> ColumnCodec:
    return ExactTimeCodec(serializer) if codecs.exact else make(serializer, split)


_MILLIS = partial(MomentCodec, per_second=1000)

COLUMNS: ColumnTable = {
    InstantSerializer: partial(_time, partial(MomentCodec, per_second=1), column_numbers.instants),
    DateSerializer: partial(_time, _MILLIS, column_numbers.millis),
    SqlTimestampSerializer: partial(_time, _MILLIS, column_numbers.timestamps),
    LocalDateSerializer: partial(_time, DateCodec, column_numbers.dates),
    LocalTimeSerializer: partial(_time, TimeCodec, column_numbers.times),
    LocalDateTimeSerializer: partial(_time, DateTimeCodec, column_numbers.datetimes),
    SqlDateSerializer: plain(MillisCodec),
    SqlTimeSerializer: plain(MillisCodec),
}
