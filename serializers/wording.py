"""How texts for people put a count, so that every command puts it alike."""

from __future__ import annotations


def many(count: int, what: str, plural: str = "") -> str:
    """Give `1 state`, `2 states`, `9,996 entries`; `plural` where an s does not make it."""
    return f"{count:,} {what if count == 1 else plural or what + 's'}"
