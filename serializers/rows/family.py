"""What is registered for rows."""

from __future__ import annotations

from ..families import Family

FAMILY = Family(
    __package__,
    snapshots=(".serializers",),
    rewrites=".rewrites:REWRITES",
    columns=".columns:COLUMNS",
    strategies=".strategies:STRATEGIES",
    hints=".hints:HINTS",
    json_forms=".json_forms:JSON_FORMS",
    sources=".sources:SOURCES",
    nulls=".sources:NULLS",
)
