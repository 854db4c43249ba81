"""What is registered for enums."""

from __future__ import annotations

from ..families import Family

FAMILY = Family(
    __package__,
    snapshots=(".serializers",),
    rewrites=".rewrites:REWRITES",
    json_forms=".json_forms:JSON_FORMS",
    sources=".sources:SOURCES",
)
