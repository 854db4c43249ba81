"""Columns of dates and times.

    Instant, java.util.Date, java.sql.Timestamp  timestamp        LocalDate      date
    LocalDateTime                                timestamp_ntz    LocalTime      time
    java.sql.Date, java.sql.Time                 bigint: milliseconds since 1970, in an unknown time zone

Spark stores microseconds. A value with nanoseconds, or outside the years that Spark supports, is an error; the exact
codec returns times as text in ISO 8601, to the nanosecond.

Columns are converted to the numbers that Flink stores without making an object of any value. A Spark timestamp with a
time zone is an instant, one without (`timestamp_ntz`) a local datetime; Arrow counts both in ticks of some unit since
1970. Values that do not fit, or may not fit, are declined.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..columns.bytes_at import number_array, numbers_at
from ..columns.codec import (
    EXACT,
    ColumnCodec,
    Decoded,
    EncodedColumn,
    not_in_column,
    nulls_of,
    number_bytes,
    plain,
    spark_name,
)
from ..columns.scalars import TextCodec
from ..wording import one
from .serializers import (
    LONG_NULL,
    DateSerializer,
    InstantSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
    SqlDateSerializer,
    SqlTimeSerializer,
    SqlTimestampSerializer,
    TemporalSerializer,
)
from .values import TemporalValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..columns.bytes_at import Flags, Places
    from ..columns.codec import Cells, Codecs, ColumnTable, Singly, Taker

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


_MICROS = 1_000_000
_WITH_NANOS = 12
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

    def _arrow_value(self, value: Any) -> Any:
        return str(exact_of(self.serializer, value))


@attrs.frozen
class TimesCodec(ColumnCodec):
    """Base of the codecs of dates and times, whose columns count ticks.

    Attributes:
        split: Splits ticks into the stored numbers.
    """

    split: Split

    @property
    def size(self) -> int:
        return self.serializer.length

    def _encoded(self, column: pa.Array, singly: Singly) -> EncodedColumn | None:
        return encoded(self.split, column) if self._fits(column.type) else None


@attrs.frozen
class MomentCodec(TimesCodec):
    """Moments: seconds or milliseconds since 1970, and i32 nanoseconds of the second in values of 12 bytes.

    Attributes:
        per_second: The number of units of the first number in a second.
    """

    per_second: int

    kind = pa.timestamp("us", "UTC")

    def _arrow_value(self, value: Any) -> Any:
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
        raise not_in_column(str(value), "has nanoseconds, but a column has only microseconds", EXACT)
    if abs(seconds) >= _MOST_SECONDS:
        raise not_in_column(str(value), "is outside the years that Spark supports", EXACT)
    return seconds * _MICROS + nanos // 1000


@attrs.frozen
class DateCodec(TimesCodec):
    """Dates: i32 year, i8 month, i8 day."""

    kind = pa.date32()

    def _arrow_value(self, value: Any) -> Any:
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

    def _arrow_value(self, value: Any) -> Any:
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

    def _arrow_value(self, value: Any) -> Any:
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

    def _arrow_value(self, value: Any) -> Any:
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
    make: Callable[[TemporalSerializer, Split], ColumnCodec],
    split: Split,
    codecs: Codecs,
    serializer: TemporalSerializer,
) -> ColumnCodec:
    return ExactTimeCodec(serializer) if codecs.exact else make(serializer, split)


_MILLIS = partial(MomentCodec, per_second=1000)

COLUMNS: ColumnTable = {
    InstantSerializer: partial(_time, partial(MomentCodec, per_second=1), instants),
    DateSerializer: partial(_time, _MILLIS, millis),
    SqlTimestampSerializer: partial(_time, _MILLIS, timestamps),
    LocalDateSerializer: partial(_time, DateCodec, dates),
    LocalTimeSerializer: partial(_time, TimeCodec, times),
    LocalDateTimeSerializer: partial(_time, DateTimeCodec, datetimes),
    SqlDateSerializer: plain(MillisCodec),
    SqlTimeSerializer: plain(MillisCodec),
}
