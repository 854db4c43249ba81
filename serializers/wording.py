"""How texts for people put a count, an article or a guess, so that all put it alike."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def many(count: int, what: str, plural: str = "") -> str:
    """Give `1 state`, `2 states`, `9,996 entries`; `plural` where an s does not make it."""
    return f"{count:,} {what if count == 1 else plural or what + 's'}"


def one(what: str) -> str:
    """Give a word with its article: `a long`, `an int`."""
    return f"an {what}" if what[:1].lower() in tuple("aeiou") else f"a {what}"


def meant(name: str, names: Iterable[str]) -> str:
    """Give `; did you mean 'account'?` for a name that is not among those that there are, or nothing."""
    close = difflib.get_close_matches(name, list(names), 1)
    return f"; did you mean {close[0]!r}?" if close else ""
