"""Dates and times of `java.util` and `java.sql`: their bytes in Flink, and their snapshots.

    Date, SqlDate, SqlTime  i64 milliseconds since 1970 UTC                     null: -2^63
    SqlTimestamp            i64 milliseconds, i32 nanoseconds of the second     null: -2^63 and i32 0

Flink writes the null of a SqlTimestamp in twelve bytes and reads it back in eight, which corrupts whatever follows.
That null is read here, and never written. The rules are in `java_time`. Source: format notes 6.1 and 7.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, ClassVar

from ..errors import ValueNotConvertible
from ..primitives.numeric import BASE
from ..registry import register_snapshot
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
)
from .sql_values import JavaDate, SqlDate, SqlTime, SqlTimestamp

if TYPE_CHECKING:
    from .values import TemporalValue

_IN_ZONE_OF_JVM = "stored as a moment in the time zone of its JVM"


class DateSerializer(TemporalSerializer):
    """Flink's Date, which is `java.util.Date`: the serializer for `JavaDate` (exact)."""

    form: ClassVar[struct.Struct] = struct.Struct(">q")
    null: ClassVar[tuple[int, ...]] = (LONG_NULL,)
    value_class: ClassVar[type[TemporalValue]] = JavaDate
    python_holds: ClassVar[str] = YEARS

    def snapshot_configuration(self) -> TemporalSnapshot:
        return DateSerializerSnapshot()


class SqlDateSerializer(TemporalSerializer):
    """Flink's SqlDate: the serializer for `SqlDate`; always exact, because Python has no type for it."""

    form: ClassVar[struct.Struct] = struct.Struct(">q")
    null: ClassVar[tuple[int, ...]] = (LONG_NULL,)
    value_class: ClassVar[type[TemporalValue]] = SqlDate
    python_holds: ClassVar[str] = ""

    def snapshot_configuration(self) -> TemporalSnapshot:
        return SqlDateSerializerSnapshot()


class SqlTimeSerializer(TemporalSerializer):
    """Flink's SqlTime: the serializer for `SqlTime`; always exact, because Python has no type for it."""

    form: ClassVar[struct.Struct] = struct.Struct(">q")
    null: ClassVar[tuple[int, ...]] = (LONG_NULL,)
    value_class: ClassVar[type[TemporalValue]] = SqlTime
    python_holds: ClassVar[str] = ""

    def snapshot_configuration(self) -> TemporalSnapshot:
        return SqlTimeSerializerSnapshot()


class SqlTimestampSerializer(TemporalSerializer):
    """Flink's SqlTimestamp: the serializer for `SqlTimestamp` (exact)."""

    form: ClassVar[struct.Struct] = struct.Struct(">qi")
    null: ClassVar[tuple[int, ...]] = (LONG_NULL, 0)
    value_class: ClassVar[type[TemporalValue]] = SqlTimestamp
    python_holds: ClassVar[str] = YEARS_AND_MICROS

    def _null_bytes(self) -> bytes:
        raise ValueNotConvertible(
            "a null cannot be written as java.sql.Timestamp: Flink reads it back wrongly, and all that follows it",
            advice="declare the type optional (… | None), which has a null flag of its own",
        )

    def snapshot_configuration(self) -> TemporalSnapshot:
        return SqlTimestampSerializerSnapshot()


@register_snapshot
class DateSerializerSnapshot(TemporalSnapshot):
    """Snapshot of `DateSerializer`."""

    snapshot_id: ClassVar[str] = BASE + "DateSerializer$DateSerializerSnapshot"
    java_class: ClassVar[str] = "java.util.Date"
    words: ClassVar[str] = "java.util.Date"
    meaning: ClassVar[Meaning] = Meaning(DATETIME, A_MOMENT, 1000)
    serializer: ClassVar[type[TemporalSerializer]] = DateSerializer


@register_snapshot
class SqlDateSerializerSnapshot(TemporalSnapshot):
    """Snapshot of `SqlDateSerializer`."""

    snapshot_id: ClassVar[str] = BASE + "SqlDateSerializer$SqlDateSerializerSnapshot"
    java_class: ClassVar[str] = "java.sql.Date"
    words: ClassVar[str] = "java.sql.Date"
    meaning: ClassVar[Meaning] = Meaning(DATE, _IN_ZONE_OF_JVM, 0)
    serializer: ClassVar[type[TemporalSerializer]] = SqlDateSerializer


@register_snapshot
class SqlTimeSerializerSnapshot(TemporalSnapshot):
    """Snapshot of `SqlTimeSerializer`."""

    snapshot_id: ClassVar[str] = BASE + "SqlTimeSerializer$SqlTimeSerializerSnapshot"
    java_class: ClassVar[str] = "java.sql.Time"
    words: ClassVar[str] = "java.sql.Time"
    meaning: ClassVar[Meaning] = Meaning(TIME, _IN_ZONE_OF_JVM, 1000)
    serializer: ClassVar[type[TemporalSerializer]] = SqlTimeSerializer


@register_snapshot
class SqlTimestampSerializerSnapshot(TemporalSnapshot):
    """Snapshot of `SqlTimestampSerializer`."""

    snapshot_id: ClassVar[str] = BASE + "SqlTimestampSerializer$SqlTimestampSerializerSnapshot"
    java_class: ClassVar[str] = "java.sql.Timestamp"
    words: ClassVar[str] = "java.sql.Timestamp"
    meaning: ClassVar[Meaning] = Meaning(DATETIME, A_MOMENT, 1_000_000_000)
    serializer: ClassVar[type[TemporalSerializer]] = SqlTimestampSerializer
