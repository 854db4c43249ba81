"""The compatibility test harness: the contracts of serializers and upgrades, as test classes to inherit.

The names are loaded on first use, because pytest imports this package in every run, for its plugin.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .contract import SerializerContract
    from .migrating import assert_migrates
    from .serializers import V1, V2, NeedsFallback, NeedsReconfig, Refuses, Unrestorable
    from .upgrade import UpgradeCase

__all__ = [
    "V1",
    "V2",
    "NeedsFallback",
    "NeedsReconfig",
    "Refuses",
    "SerializerContract",
    "Unrestorable",
    "UpgradeCase",
    "assert_migrates",
]

_PLACES = {
    "SerializerContract": ".contract",
    "UpgradeCase": ".upgrade",
    "assert_migrates": ".migrating",
} | dict.fromkeys(["V1", "V2", "NeedsFallback", "NeedsReconfig", "Refuses", "Unrestorable"], ".serializers")


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name], __package__), name)
