"""Bars of text, and shares."""

from __future__ import annotations

from ..output import is_terminal, line_width

BAR_WIDTH = 24
_EIGHTHS = " ▏▎▍▌▋▊▉"
_WHOLE, _PLAIN = "█", "#"
_LITTLE = 0.01
_NARROW, _SHORT = 100, 10


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


def fitting_bar(size: int, largest: int) -> str:
    """Return a bar that leaves room for what is beside it on a narrow terminal."""
    return bar(size, largest, _SHORT if line_width() < _NARROW else BAR_WIDTH)
