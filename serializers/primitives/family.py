"""What is registered for numbers, booleans, strings and chars."""

from __future__ import annotations

from ..families import Family

FAMILY = Family(
    __package__,
    snapshots=(".big_numbers", ".numeric", ".text"),
    rewrites=".rewrites:REWRITES",
    columns=".columns:COLUMNS",
    strategies=".strategies:STRATEGIES",
    hints=".hints:HINTS",
    json_forms=".json_forms:JSON_FORMS",
    sources=".sources:SOURCES",
)
