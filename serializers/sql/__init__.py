"""Flink SQL: rows, arrays, maps, decimals, time stamps and texts, as its operators store them."""

from ..families import family_of

FAMILY = family_of(
    __package__,
    "columns json_forms strategies",
    rewrites=".rewrites:REWRITES",
    snapshots=(".serializers", ".containers"),
)
