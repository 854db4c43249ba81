"""Dates and times: the snapshots of Flink's eight types. Their values are not read by this release.

Source: format notes 6.1.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from .numeric import BASE
from .registry import register_snapshot
from .unread import PlainUnreadSnapshot


@register_snapshot
@attrs.define
class DateSerializerSnapshot(PlainUnreadSnapshot):
    """Snapshot of Flink's java.util.Date: milliseconds."""

    snapshot_id: ClassVar[str] = BASE + "DateSerializer$DateSerializerSnapshot"
    kind: ClassVar[str] = "temporal"
    words: ClassVar[str] = "java.util.Date"


@register_snapshot
@attrs.define
class SqlDateSerializerSnapshot(PlainUnreadSnapshot):
    """Snapshot of Flink's java.sql.Date: milliseconds."""

    snapshot_id: ClassVar[str] = BASE + "SqlDateSerializer$SqlDateSerializerSnapshot"
    kind: ClassVar[str] = "temporal"
    words: ClassVar[str] = "java.sql.Date"


@register_snapshot
@attrs.define
class SqlTimeSerializerSnapshot(PlainUnreadSnapshot):
    """Snapshot of Flink's java.sql.Time: milliseconds."""

    snapshot_id: ClassVar[str] = BASE + "SqlTimeSerializer$SqlTimeSerializerSnapshot"
    kind: ClassVar[str] = "temporal"
    words: ClassVar[str] = "java.sql.Time"


@register_snapshot
@attrs.define
class SqlTimestampSerializerSnapshot(PlainUnreadSnapshot):
    """Snapshot of Flink's java.sql.Timestamp: milliseconds, and nanoseconds of the second."""

    snapshot_id: ClassVar[str] = BASE + "SqlTimestampSerializer$SqlTimestampSerializerSnapshot"
    kind: ClassVar[str] = "temporal"
    words: ClassVar[str] = "java.sql.Timestamp"


@register_snapshot
@attrs.define
class LocalDateSerializerSnapshot(PlainUnreadSnapshot):
    """Snapshot of Flink's LocalDate: what a Python date is."""

    snapshot_id: ClassVar[str] = BASE + "LocalDateSerializer$LocalDateSerializerSnapshot"
    kind: ClassVar[str] = "temporal"
    words: ClassVar[str] = "date"


@register_snapshot
@attrs.define
class LocalTimeSerializerSnapshot(PlainUnreadSnapshot):
    """Snapshot of Flink's LocalTime: what a naive Python time is, in nanoseconds."""

    snapshot_id: ClassVar[str] = BASE + "LocalTimeSerializer$LocalTimeSerializerSnapshot"
    kind: ClassVar[str] = "temporal"
    words: ClassVar[str] = "time"


@register_snapshot
@attrs.define
class LocalDateTimeSerializerSnapshot(PlainUnreadSnapshot):
    """Snapshot of Flink's LocalDateTime: what a naive Python datetime is, in nanoseconds."""

    snapshot_id: ClassVar[str] = BASE + "LocalDateTimeSerializer$LocalDateTimeSerializerSnapshot"
    kind: ClassVar[str] = "temporal"
    words: ClassVar[str] = "datetime"


@register_snapshot
@attrs.define
class InstantSerializerSnapshot(PlainUnreadSnapshot):
    """Snapshot of Flink's Instant: what a zone-aware Python datetime is, in nanoseconds."""

    snapshot_id: ClassVar[str] = BASE + "InstantSerializer$InstantSerializerSnapshot"
    kind: ClassVar[str] = "temporal"
    words: ClassVar[str] = "instant"
