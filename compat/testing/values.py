"""Modification of values under test."""

from __future__ import annotations

from typing import Any

import attrs


def disturb(value: Any) -> bool:
    """Empty every list, dict, set and bytearray within a value, and return whether there was any that had items."""
    parts: list[Any] = []
    if isinstance(value, dict):
        parts = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        parts = list(value)
    elif attrs.has(type(value)):
        parts = [getattr(value, field.name, None) for field in attrs.fields(type(value))]
    elif hasattr(value, "__dict__"):
        parts = list(vars(value).values())
    changed = sum(disturb(part) for part in parts) > 0
    if isinstance(value, list | dict | set | bytearray) and value:
        value.clear()
        return True
    return changed
