"""Bars of text."""

from __future__ import annotations

from ..output import is_terminal

BAR_WIDTH = 24
_EIGHTHS = " ▏▎▍▌▋▊▉"
_WHOLE, _PLAIN = "█", "#"


def bar(size: int, largest: int, width: int = BAR_WIDTH) -> str:
    """Return a bar for a size, in eighths of a character on a terminal; it is never empty unless the size is 0."""
    eighths = -(-size * width * 8 // largest) if largest else 0
    if is_terminal(_WHOLE + _EIGHTHS):
        return _WHOLE * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
    return _PLAIN * -(-eighths // 8)
