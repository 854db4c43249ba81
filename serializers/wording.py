"""Wording of counts, articles and suggestions, so that all messages word them alike."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def many(count: int, what: str, plural: str = "") -> str:
    """Return `1 state`, `2 states`, `9,996 entries`; `plural` is for words whose plural is not formed with an s."""
    return f"{count:,} {what if count == 1 else plural or what + 's'}"


def one(what: str) -> str:
    """Return a word with its article: `a long`, `an int`."""
    return f"an {what}" if what[:1].lower() in tuple("aeiou") else f"a {what}"


def meant(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean 'account'?` with the closest of `names`, or "" if none is close."""
    close = difflib.get_close_matches(name, list(names), 1)
    return f"; did you mean {close[0]!r}?" if close else ""
