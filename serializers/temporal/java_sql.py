"""Dates and times of `java.util` and `java.sql`: their bytes in Flink, and their snapshots.

    Date, SqlDate, SqlTime  i64 milliseconds since 1970 UTC                     null: -2^63
    SqlTimestamp            i64 milliseconds, i32 nanoseconds of the second     null: -2^63 and i32 0

Flink writes the null of a SqlTimestamp in twelve bytes and reads it back in eight, which corrupts whatever follows.
That null is read here, and never written. The rules are in `java_time`. Source: format notes 6.1 and 7.
"""

from __future__ import annotations

from .. import rewrite
from ..errors import ValueNotConvertible
from ..scalars import snapshot_of
from .java_time import (
    A_MOMENT,
    DATE,
    DATETIME,
    LONG_NULL,
    TIME,
    YEARS,
    YEARS_AND_MICROS,
    Meaning,
    TemporalSerializer,
    TemporalSnapshot,
    Time,
)
from .sql_values import JavaDate, SqlDate, SqlTime, SqlTimestamp

_IN_ZONE_OF_JVM = "stored as a moment in the time zone of its JVM"
_MILLIS = rewrite.Sequence((rewrite.Ranged(8, LONG_NULL + 1, -LONG_NULL - 1),))


class DateSerializer(TemporalSerializer):
    """Flink's Date, which is `java.util.Date`: the serializer for `JavaDate` (exact)."""

    row = Time(
        "java.util.Date", "Date", "java.util.Date", ">q", "JavaDate", null=(LONG_NULL,), stays=_MILLIS,
        value_class=JavaDate, meaning=Meaning(DATETIME, A_MOMENT, 1000), python_holds=YEARS,
    )  # fmt: skip


class SqlDateSerializer(TemporalSerializer):
    """Flink's SqlDate: the serializer for `SqlDate`; always exact, because Python has no type for it."""

    row = Time(
        "java.sql.Date", "SqlDate", "java.sql.Date", ">q", "SqlDate", null=(LONG_NULL,), stays=_MILLIS,
        value_class=SqlDate, meaning=Meaning(DATE, _IN_ZONE_OF_JVM, 0),
    )  # fmt: skip


class SqlTimeSerializer(TemporalSerializer):
    """Flink's SqlTime: the serializer for `SqlTime`; always exact, because Python has no type for it."""

    row = Time(
        "java.sql.Time", "SqlTime", "java.sql.Time", ">q", "SqlTime", null=(LONG_NULL,), stays=_MILLIS,
        value_class=SqlTime, meaning=Meaning(TIME, _IN_ZONE_OF_JVM, 1000),
    )  # fmt: skip


class SqlTimestampSerializer(TemporalSerializer):
    """Flink's SqlTimestamp: the serializer for `SqlTimestamp` (exact)."""

    row = Time(
        "java.sql.Timestamp", "SqlTimestamp", "java.sql.Timestamp", ">qi", "SqlTimestamp", null=(LONG_NULL, 0),
        stays=None, value_class=SqlTimestamp, meaning=Meaning(DATETIME, A_MOMENT, 1_000_000_000),
        python_holds=YEARS_AND_MICROS,
    )  # fmt: skip

    def _null_bytes(self) -> bytes:
        raise ValueNotConvertible(
            "a null cannot be written as java.sql.Timestamp: Flink reads it back wrongly, and all that follows it",
            advice="declare the type optional (… | None), which has a null flag of its own",
        )


@snapshot_of(DateSerializer)
class DateSerializerSnapshot(TemporalSnapshot):
    """Snapshot of `DateSerializer`."""


@snapshot_of(SqlDateSerializer)
class SqlDateSerializerSnapshot(TemporalSnapshot):
    """Snapshot of `SqlDateSerializer`."""


@snapshot_of(SqlTimeSerializer)
class SqlTimeSerializerSnapshot(TemporalSnapshot):
    """Snapshot of `SqlTimeSerializer`."""


@snapshot_of(SqlTimestampSerializer)
class SqlTimestampSerializerSnapshot(TemporalSnapshot):
    """Snapshot of `SqlTimestampSerializer`."""
