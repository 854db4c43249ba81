"""What is registered for dates, times and instants."""

from __future__ import annotations

from ..families import Family

FAMILY = Family(
    __package__,
    snapshots=(".java_sql", ".java_time"),
    rewrites=".rewrites:REWRITES",
    columns=".columns:COLUMNS",
    strategies=".strategies:STRATEGIES",
    hints=".hints:HINTS",
    json_forms=".json_forms:JSON_FORMS",
    sources=".sources:SOURCES",
)
