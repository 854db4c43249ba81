"""What is registered for enums."""

from __future__ import annotations

from ..families import Family

FAMILY = Family(
    __package__,
    snapshots=(".serializers",),
    rewrites=".rewrites:REWRITES",
    columns=".columns:COLUMNS",
    strategies=".strategies:STRATEGIES",
    classes=".hints:serializer_of_class",
    json_forms=".json_forms:JSON_FORMS",
    sources=".sources:SOURCES",
)
