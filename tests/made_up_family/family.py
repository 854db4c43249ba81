"""What is registered for money."""

from __future__ import annotations

from stateshift import Family

FAMILY = Family(
    __package__,
    snapshots=(".money",),
    rewrites=".rewrites:REWRITES",
    columns=".columns:COLUMNS",
    json_forms=".json_forms:JSON_FORMS",
    strategies=".strategies:STRATEGIES",
    hints=".hints:HINTS",
)
