"""Bars of text, and shares."""

from __future__ import annotations

from ..output import is_terminal

BAR_WIDTH = 24
_EIGHTHS = " ▏▎▍▌▋▊▉"
_WHOLE, _PLAIN = "█", "#"
_LITTLE = 0.01


def percent(part: int, whole: int) -> str:
    """Return the share of a part in the whole; what is not quite nothing, or not quite all, is told as that."""
    if not whole:
        return "-"
    share = part / whole
    return "<1%" if 0 < share < _LITTLE else ">99%" if 1 - _LITTLE < share < 1 else f"{share:.0%}"


def bar(size: int, largest: int, width: int = BAR_WIDTH) -> str:
    """Return a bar for a size, in eighths of a character on a terminal; it is never empty unless the size is 0."""
    eighths = -(-size * width * 8 // largest) if largest else 0
    if is_terminal(_WHOLE + _EIGHTHS):
        return _WHOLE * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
    return _PLAIN * -(-eighths // 8)
