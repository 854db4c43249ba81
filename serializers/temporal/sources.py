"""What `init` writes for dates and times: a type hint each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .java_sql import (
    DateSerializerSnapshot,
    SqlDateSerializerSnapshot,
    SqlTimeSerializerSnapshot,
    SqlTimestampSerializerSnapshot,
)
from .java_time import (
    InstantSerializerSnapshot,
    LocalDateSerializerSnapshot,
    LocalDateTimeSerializerSnapshot,
    LocalTimeSerializerSnapshot,
)

if TYPE_CHECKING:
    from ..type_source import SourceTable

SOURCES: SourceTable = {
    DateSerializerSnapshot: "JavaDate",
    SqlDateSerializerSnapshot: "SqlDate",
    SqlTimeSerializerSnapshot: "SqlTime",
    SqlTimestampSerializerSnapshot: "SqlTimestamp",
    InstantSerializerSnapshot: "Instant",
    LocalDateSerializerSnapshot: "LocalDate",
    LocalTimeSerializerSnapshot: "LocalTime",
    LocalDateTimeSerializerSnapshot: "LocalDateTime",
}
