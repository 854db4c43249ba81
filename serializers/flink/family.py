"""What is registered for types that only Flink's metadata names."""

from __future__ import annotations

from ..families import Family

FAMILY = Family(
    __package__,
    snapshots=(".avro", ".kryo", ".timers", ".void", ".windows"),
    columns=".columns:COLUMNS",
    strategies=".strategies:STRATEGIES",
    hints=".hints:HINTS",
    json_forms=".json_forms:JSON_FORMS",
    sources=".sources:SOURCES",
)
