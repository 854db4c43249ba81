"""How texts for people put a count or an article, so that all put it alike."""

from __future__ import annotations


def many(count: int, what: str, plural: str = "") -> str:
    """Give `1 state`, `2 states`, `9,996 entries`; `plural` where an s does not make it."""
    return f"{count:,} {what if count == 1 else plural or what + 's'}"


def one(what: str) -> str:
    """Give a word with its article: `a long`, `an int`."""
    return f"an {what}" if what[:1].lower() in tuple("aeiou") else f"a {what}"
