"""Exact values of Java's dates and times: to the nanosecond, and far past the year 9999.

Python's own types hold microseconds and the years 1 to 9999. These classes hold every value that Flink stores:
serializers restored from a savepoint read them, and every temporal serializer writes them. They compare, hash and sort;
`str` is ISO 8601.

The exact values of `java.util.Date` and of the classes of `java.sql`, in milliseconds since 1970 and finer.

A Date and a Timestamp are points in time. A `java.sql.Date` means a day and a `java.sql.Time` a time of day, but both
are stored as a point in time in the time zone of the JVM. That zone is not stored, and without it the day or time is
unknown.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ..errors import ValueNotConvertible, shown
from ..stored_names import lasting
from ..wording import one

if TYPE_CHECKING:
    from typing import Self

SECOND_NANOS = 1_000_000_000
_DAY_SECONDS = 86_400
_MOST_YEAR = 999_999_999
FIRST_SECOND, LAST_SECOND = -31_557_014_167_219_200, 31_556_889_864_403_199
"""The range of `java.time.Instant`: the years -1,000,000,000 to 1,000,000,000."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def check_range(value: int, least: int, most: int, what: str) -> None:
    """Refuse, with `ValueNotConvertible`, a number that is out of range, and anything that is not an integer."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueNotConvertible(f"{shown(value)} is not a valid {what} ({least} to {most})")


def _check_date(year: int, month: int, day: int) -> None:
    check_range(year, -_MOST_YEAR, _MOST_YEAR, "year")
    check_range(month, 1, 12, "month")
    leap_day = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    check_range(day, 1, _MONTH_DAYS[month - 1] + leap_day, f"day of the month {year}-{month:02}")


def _check_clock(hour: int, minute: int, second: int, nanos: int) -> None:
    check_range(hour, 0, 23, "hour")
    check_range(minute, 0, 59, "minute")
    check_range(second, 0, 59, "second")
    check_range(nanos, 0, SECOND_NANOS - 1, "number of nanoseconds in a second")


def _iso_date(year: int, month: int, day: int) -> str:
    sign = "-" if year < 0 else "+" if year > dt.MAXYEAR else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def _iso_time(hour: int, minute: int, second: int, nanos: int) -> str:
    fraction = f"{nanos:09}"
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    return f"{hour:02}:{minute:02}:{second:02}" + (f".{fraction}" if fraction else "")


def civil_date(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a number of days since 1970-01-01, in the proleptic Gregorian calendar.

    Years begin in March here, so that a leap day is the last of its year; 400 years are an era.
    """
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    shifted = month + 3 if month < 10 else month - 9
    return year + 400 * era + (shifted <= 2), shifted, day - (153 * month + 2) // 5 + 1


def _not_in_python(value: object, why: str) -> ValueNotConvertible:
    name = type(value).__name__
    return ValueNotConvertible(
        f"{shown(str(value))} {why}", advice=f"declare the type stateshift.{name}, which is exact"
    )


def _micros(nanos: int, value: object, python: str) -> int:
    micros, rest = divmod(nanos, 1000)
    if rest:
        raise _not_in_python(value, f"has nanoseconds, but Python's {python} holds microseconds")
    return micros


def _check_python_year(year: int, value: object, python: str) -> None:
    if not dt.MINYEAR <= year <= dt.MAXYEAR:
        raise _not_in_python(value, f"is outside the years 1 to 9999 of Python's {python}")


def _nanos_of(value: dt.datetime | dt.time) -> int:
    """Return the nanoseconds of the second, which `pandas.Timestamp`, a subclass of datetime, has as well."""
    return value.microsecond * 1000 + int(getattr(value, "nanosecond", 0))


def _is_not_a_time(value: dt.datetime) -> bool:
    """Whether a datetime is the `NaT` of pandas, which equals nothing."""
    return value != value  # noqa: PLR0124 - NaT differs from itself


class TemporalValue(ABC):
    """Base of the exact values.

    Attributes:
        parts: The numbers in Flink's bytes, in their order.
    """

    __slots__ = ()

    java: ClassVar[str]
    """The Java class."""

    @property
    @abstractmethod
    def parts(self) -> tuple[int, ...]:
        """The numbers in Flink's bytes, in their order; `type(value)(*value.parts)` equals `value`."""

    @classmethod
    @abstractmethod
    def from_python(cls, value: Any) -> Self:
        """Make an exact value from a value of Python's `datetime` module.

        Raises:
            ValueNotConvertible: The value does not fit, or would have to be rounded or given a time zone.
        """

    @abstractmethod
    def to_python(self) -> Any:
        """Return the value as a type of Python's `datetime` module.

        Raises:
            ValueNotConvertible: It has nanoseconds, or is out of the years 1 to 9999.
        """


def _parts(*names: str) -> Any:
    """Return the property `parts` of a value with these attributes."""
    return property(attrgetter(*names))


class Moment(TemporalValue):
    """A point in time; in Python a datetime with a time zone, which is read in UTC."""

    __slots__ = ()

    @property
    @abstractmethod
    def moment(self) -> tuple[int, int]:
        """Seconds since 1970-01-01T00:00Z, and nanoseconds of the second."""

    @classmethod
    @abstractmethod
    def at(cls, seconds: int, nanos: int) -> Self:
        """Return the value for a point in time; raises `ValueNotConvertible` if it would have to be rounded."""

    @classmethod
    def from_python(cls, value: Any) -> Self:
        """Make a value from a datetime with a time zone, or from any other `Moment`; raises the errors of `at`."""
        if isinstance(value, Moment):
            return cls.at(*value.moment)
        if not isinstance(value, dt.datetime) or _is_not_a_time(value):
            raise ValueNotConvertible(f"{shown(value)} is neither a datetime nor {one(cls.__name__)}")
        if value.utcoffset() is None:
            raise ValueNotConvertible(
                f"{shown(value)} has no time zone, but a moment is declared ({cls.java})",
                advice="add its zone, such as by value.replace(tzinfo=timezone.utc); or declare the type "
                "NaiveDatetime, "
                "which is Flink's LocalDateTime",
            )
        seconds, micros = divmod((value - _EPOCH) // _MICROSECOND, 1_000_000)
        return cls.at(seconds, micros * 1000 + _nanos_of(value) % 1000)

    def to_python(self) -> dt.datetime:
        seconds, nanos = self.moment
        micros = _micros(nanos, self, "datetime")
        try:
            return _EPOCH + dt.timedelta(seconds=seconds, microseconds=micros)
        except OverflowError as error:
            raise _not_in_python(self, "is outside the years 1 to 9999 of Python's datetime") from error

    def __str__(self) -> str:
        seconds, nanos = self.moment
        days, second = divmod(seconds, _DAY_SECONDS)
        minute, second = divmod(second, 60)
        return f"{_iso_date(*civil_date(days))}T{_iso_time(*divmod(minute, 60), second, nanos)}Z"


@lasting
@attrs.frozen(order=True)
class Instant(Moment):
    """A `java.time.Instant`: a point in time, to the nanosecond.

    Attributes:
        seconds: Seconds since 1970-01-01T00:00Z.
        nanos: Nanoseconds of the second, 0 to 999,999,999.
    """

    java: ClassVar[str] = "java.time.Instant"

    seconds: int
    nanos: int = 0

    def __attrs_post_init__(self) -> None:
        check_range(self.seconds, FIRST_SECOND, LAST_SECOND, "second of an Instant")
        check_range(self.nanos, 0, SECOND_NANOS - 1, "number of nanoseconds in a second")

    parts = _parts("seconds", "nanos")

    @property
    def moment(self) -> tuple[int, int]:
        return self.seconds, self.nanos

    @classmethod
    def at(cls, seconds: int, nanos: int) -> Self:
        return cls(seconds, nanos)

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """Return the instant of a number of milliseconds since 1970-01-01T00:00Z."""
        return Instant(epoch_milli // 1000, epoch_milli % 1000 * 1_000_000)

    def to_epoch_milli(self) -> int:
        """Return the milliseconds since 1970-01-01T00:00Z, rounded down."""
        return self.seconds * 1000 + self.nanos // 1_000_000


@lasting
@attrs.frozen(order=True)
class LocalDate(TemporalValue):
    """A `java.time.LocalDate`: a day, in no time zone; in Python a date."""

    java: ClassVar[str] = "java.time.LocalDate"

    year: int
    month: int
    day: int

    def __attrs_post_init__(self) -> None:
        _check_date(self.year, self.month, self.day)

    parts = _parts("year", "month", "day")

    @classmethod
    def from_python(cls, value: Any) -> Self:
        if isinstance(value, dt.datetime):
            raise ValueNotConvertible(
                f"{shown(value)} is a datetime, but a date is declared", advice="pass value.date()"
            )
        if not isinstance(value, dt.date):
            raise ValueNotConvertible(f"{shown(value)} is neither a date nor {one(cls.__name__)}")
        return cls(value.year, value.month, value.day)

    def to_python(self) -> dt.date:
        _check_python_year(self.year, self, "date")
        return dt.date(self.year, self.month, self.day)

    def __str__(self) -> str:
        return _iso_date(*self.parts)


@lasting
@attrs.frozen(order=True)
class LocalTime(TemporalValue):
    """A `java.time.LocalTime`: a time of day, in no time zone; in Python a time without one."""

    java: ClassVar[str] = "java.time.LocalTime"

    hour: int
    minute: int
    second: int = 0
    nanos: int = 0

    def __attrs_post_init__(self) -> None:
        _check_clock(self.hour, self.minute, self.second, self.nanos)

    parts = _parts("hour", "minute", "second", "nanos")

    @classmethod
    def from_python(cls, value: Any) -> Self:
        if not isinstance(value, dt.time):
            raise ValueNotConvertible(f"{shown(value)} is neither a time nor {one(cls.__name__)}")
        if value.tzinfo is not None:
            raise ValueNotConvertible(
                f"{shown(value)} has a time zone, but a time without one is declared",
                advice="pass value.replace(tzinfo=None), if the zone is known otherwise",
            )
        return cls(value.hour, value.minute, value.second, _nanos_of(value))

    def to_python(self) -> dt.time:
        return dt.time(self.hour, self.minute, self.second, _micros(self.nanos, self, "time"))

    def __str__(self) -> str:
        return _iso_time(*self.parts)


@lasting
@attrs.frozen(order=True)
class LocalDateTime(TemporalValue):
    """A `java.time.LocalDateTime`: a day and a time, in no time zone; in Python a datetime without one."""

    java: ClassVar[str] = "java.time.LocalDateTime"

    year: int
    month: int
    day: int
    hour: int = 0
    minute: int = 0
    second: int = 0
    nanos: int = 0

    def __attrs_post_init__(self) -> None:
        _check_date(self.year, self.month, self.day)
        _check_clock(self.hour, self.minute, self.second, self.nanos)

    parts = _parts("year", "month", "day", "hour", "minute", "second", "nanos")

    @classmethod
    def from_python(cls, value: Any) -> Self:
        if not isinstance(value, dt.datetime) or _is_not_a_time(value):
            raise ValueNotConvertible(f"{shown(value)} is neither a datetime nor {one(cls.__name__)}")
        if value.tzinfo is not None:
            raise ValueNotConvertible(
                f"{shown(value)} has a time zone, but a datetime without one is declared ({cls.java})",
                advice="declare the type AwareDatetime, which is Flink's Instant; or pass value.replace(tzinfo=None)",
            )
        return cls(value.year, value.month, value.day, value.hour, value.minute, value.second, _nanos_of(value))

    def to_python(self) -> dt.datetime:
        _check_python_year(self.year, self, "datetime")
        micros = _micros(self.nanos, self, "datetime")
        return dt.datetime(self.year, self.month, self.day, self.hour, self.minute, self.second, micros)  # noqa: DTZ001

    def __str__(self) -> str:
        return f"{_iso_date(*self.parts[:3])}T{_iso_time(*self.parts[3:])}"


_LONG_NULL = -(2**63)
"""Flink writes this number for null, so it is not a valid number of milliseconds."""


@attrs.frozen(order=True)
class _Millis(TemporalValue):
    """What is stored as milliseconds since 1970-01-01T00:00Z; not -2^63, which means null in Flink's bytes."""

    millis: int

    def __attrs_post_init__(self) -> None:
        check_range(self.millis, _LONG_NULL + 1, 2**63 - 1, f"number of milliseconds in a {self.java}")

    @property
    def parts(self) -> tuple[int, ...]:
        return (self.millis,)


@lasting
@attrs.frozen(order=True)
class JavaDate(_Millis, Moment):
    """A `java.util.Date`: a point in time, to the millisecond.

    Attributes:
        millis: Milliseconds since 1970-01-01T00:00Z; not -2^63, which means null in Flink's bytes.
    """

    java: ClassVar[str] = "java.util.Date"

    @property
    def moment(self) -> tuple[int, int]:
        seconds, millis = divmod(self.millis, 1000)
        return seconds, millis * 1_000_000

    @classmethod
    def at(cls, seconds: int, nanos: int) -> Self:
        millis, rest = divmod(nanos, 1_000_000)
        if rest:
            raise ValueNotConvertible(
                f"{shown(str(Instant(seconds, nanos)))} is finer than the milliseconds of a {cls.java}",
                advice="round it first, or declare a type that is fine enough: AwareDatetime, which is Flink's Instant",
            )
        return cls(seconds * 1000 + millis)


@attrs.frozen(order=True)
class _InZoneOfJvm(_Millis):
    """A day or a time of day that is stored as a point in time in milliseconds; its time zone is not stored."""

    @classmethod
    def from_python(cls, value: Any) -> Self:
        raise ValueNotConvertible(
            f"{shown(value)} is not a {cls.__name__}",
            advice=f"a {cls.java} is a moment that stands for a day or a time in the zone of the JVM: compute that "
            f"moment, and pass stateshift.{cls.__name__}(milliseconds)",
        )

    def to_python(self) -> Self:
        """Return the value itself: its day or time depends on the zone of the JVM."""
        return self

    def __str__(self) -> str:
        return str(JavaDate(self.millis))


@lasting
@attrs.frozen(order=True)
class SqlDate(_InZoneOfJvm):
    """A `java.sql.Date`: the time of a midnight, in a time zone that is not stored (that of the JVM).

    Attributes:
        millis: Milliseconds since 1970-01-01T00:00Z.
    """

    java: ClassVar[str] = "java.sql.Date"


@lasting
@attrs.frozen(order=True)
class SqlTime(_InZoneOfJvm):
    """A `java.sql.Time`: a time on 1970-01-01, in a time zone that is not stored (that of the JVM).

    Attributes:
        millis: Milliseconds since 1970-01-01T00:00Z.
    """

    java: ClassVar[str] = "java.sql.Time"


@lasting
@attrs.frozen(order=True)
class SqlTimestamp(Moment):
    """A `java.sql.Timestamp`: a point in time, to the nanosecond, which Java holds in two overlapping numbers.

    Attributes:
        millis: Milliseconds since 1970-01-01T00:00Z, those of the second included.
        nanos: Nanoseconds of the second, 0 to 999,999,999; their milliseconds are those of `millis`.
    """

    java: ClassVar[str] = "java.sql.Timestamp"

    millis: int
    nanos: int

    def __attrs_post_init__(self) -> None:
        check_range(self.millis, _LONG_NULL + 1, 2**63 - 1, f"number of milliseconds in a {self.java}")
        check_range(self.nanos, 0, SECOND_NANOS - 1, "number of nanoseconds in a second")
        if self.millis % 1000 != self.nanos // 1_000_000:
            raise ValueNotConvertible(
                f"{shown(self.millis)} milliseconds and {shown(self.nanos)} nanoseconds of the second do not agree",
                advice="use SqlTimestamp.at(seconds, nanos)",
            )

    parts = _parts("millis", "nanos")

    @property
    def moment(self) -> tuple[int, int]:
        return self.millis // 1000, self.nanos

    @classmethod
    def at(cls, seconds: int, nanos: int) -> Self:
        return cls(seconds * 1000 + nanos // 1_000_000, nanos)
