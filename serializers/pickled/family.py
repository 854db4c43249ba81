"""What is registered for pickled values."""

from __future__ import annotations

from ..families import ANY, Family

FAMILY = Family(
    __package__,
    snapshots=(".serializers",),
    rules={("pickle", ANY): ".moves:from_pickle", (ANY, "pickle"): ".moves:to_pickle"},
    columns=".columns:COLUMNS",
    json_forms=".json_forms:JSON_FORMS",
)
