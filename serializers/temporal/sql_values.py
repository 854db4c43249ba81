"""The exact values of `java.util.Date` and of the classes of `java.sql`, in milliseconds since 1970 and finer.

A Date and a Timestamp are points in time. A `java.sql.Date` means a day and a `java.sql.Time` a time of day, but both
are stored as a point in time in the time zone of the JVM. That zone is not stored, and without it the day or time is
unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ..errors import ValueNotConvertible, shown
from ..stored_names import lasting
from .values import SECOND_NANOS, Instant, Moment, TemporalValue, check_range

if TYPE_CHECKING:
    from typing import Self

_LONG_NULL = -(2**63)
"""Flink writes this number for null, so it is not a valid number of milliseconds."""


@lasting
@attrs.frozen(order=True)
class JavaDate(Moment):
    """A `java.util.Date`: a point in time, to the millisecond.

    Attributes:
        millis: Milliseconds since 1970-01-01T00:00Z; not -2^63, which means null in Flink's bytes.
    """

    java: ClassVar[str] = "java.util.Date"

    millis: int

    def __attrs_post_init__(self) -> None:
        check_range(self.millis, _LONG_NULL + 1, 2**63 - 1, f"number of milliseconds in a {self.java}")

    @property
    def parts(self) -> tuple[int, ...]:
        return (self.millis,)

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
class _InZoneOfJvm(TemporalValue):
    """A day or a time of day that is stored as a point in time in milliseconds; its time zone is not stored."""

    millis: int

    def __attrs_post_init__(self) -> None:
        check_range(self.millis, _LONG_NULL + 1, 2**63 - 1, f"number of milliseconds in a {self.java}")

    @property
    def parts(self) -> tuple[int, ...]:
        return (self.millis,)

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

    @property
    def parts(self) -> tuple[int, ...]:
        return self.millis, self.nanos

    @property
    def moment(self) -> tuple[int, int]:
        return self.millis // 1000, self.nanos

    @classmethod
    def at(cls, seconds: int, nanos: int) -> Self:
        return cls(seconds * 1000 + nanos // 1_000_000, nanos)
