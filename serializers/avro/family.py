"""What is registered for values in Avro's encoding."""

from __future__ import annotations

from ..families import Family

FAMILY = Family(
    __package__,
    snapshots=(".serializers",),
    rewrites=".rewrites:REWRITES",
    json_forms=".json_forms:JSON_FORMS",
)
