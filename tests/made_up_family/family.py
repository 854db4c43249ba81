"""What is registered for money."""

from __future__ import annotations

from stateshift import Family

FAMILY = Family(
    __package__,
    snapshots=(".money",),
    rewrites=".rewrites:REWRITES",
    strategies=".strategies:STRATEGIES",
    hints=".hints:HINTS",
)
