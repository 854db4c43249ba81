"""Long lines as several short ones: words move to the next line, and a command goes on there as a shell reads it.

What cannot be divided, such as a path, stays whole, so that a line may be longer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_WAYS, _OR = "ways out: ", "; or "
_COMMAND = re.compile(r"(?:^ *|: |; first | then )(?=(?:stateshift [a-z]|flink run ))")
_WORDS = re.compile(r"\S+")
_WORD = re.compile(r"(?:\$'(?:[^'\\]|\\.)*'|'[^']*'|\"[^\"]*\"|[^\s'\"])+")

Piece = tuple[str, int, int, str]
"""A line: what stands before a part of the text, where that begins and ends, and what stands behind it."""


def folded(text: str, width: int) -> list[Piece]:
    """Return a line as lines of at most so many columns, if it can be divided; each way out gets its own."""
    if len(text) <= width:
        return [("", 0, len(text), "")]
    indent = len(text) - len(text.lstrip(" "))
    if not text.startswith(_WAYS, indent):
        return list(_part(text, 0, len(text), "", indent + 2, width))
    pieces: list[Piece] = []
    start, lead = 0, ""
    while start < len(text):
        end = text.find(_OR, start)
        end = len(text) if end < 0 else end
        pieces += _part(text, start, end, lead, indent + 4, width)
        start, lead = end + len(_OR), f"{' ' * (indent + 2)}or "
    return pieces


def folded_text(text: str, width: int) -> list[str]:
    """Return a line as lines of at most so many columns, if it can be divided."""
    return [f"{lead}{text[start:end]}{tail}" for lead, start, end, tail in folded(text, width)]


def _part(text: str, start: int, end: int, lead: str, hang: int, width: int) -> Iterator[Piece]:
    """Yield the lines of a part of a text.

    Args:
        text: The text.
        start: Where the part begins.
        end: Where it ends.
        lead: What stands before it in its first line.
        hang: The indentation of its other lines.
        width: The length of a line.
    """
    if len(lead) + end - start <= width:
        yield lead, start, end, ""
        return
    found = _COMMAND.search(text, start, end)
    if found is None:
        yield from _lines(text, start, end, lead, hang, width, breaks=_spaces(text, start, end), tail="")
        return
    command = found.end()
    if len(lead) + command - start > width // 2:
        yield from _part(text, start, command - 1, lead, hang, width)
        start, lead = command, " " * hang
    if len(lead) + end - start <= width:
        yield lead, start, end, ""
    else:
        breaks = _between_options(text, command, end)
        yield from _lines(text, start, end, lead, hang + 2, width - 2, breaks=breaks, tail=" \\")


def _lines(
    text: str, start: int, end: int, lead: str, hang: int, width: int, *, breaks: list[int], tail: str
) -> Iterator[Piece]:
    while len(lead) + end - start > width + (len(tail) if tail else 0):
        room = start + width - len(lead)
        left = [at for at in breaks if at > start]
        fitting = [at for at in left if at <= room]
        if not left:
            break
        at = fitting[-1] if fitting else left[0]
        yield lead, start, at, tail
        start, lead = at + 1, " " * hang
        while start < end and text[start] == " ":
            start += 1
    yield lead, start, end, ""


def _spaces(text: str, start: int, end: int) -> list[int]:
    """Return the spaces of a sentence at which it may go on in the next line; an option keeps its value."""
    words = list(_WORDS.finditer(text, start, end))
    return [one.end() for one in words if one.end() < end and not one[0].startswith("--")]


def _between_options(text: str, start: int, end: int) -> list[int]:
    """Return the spaces of a command at which a shell lets it go on in the next line; an option keeps its value."""
    words = list(_WORD.finditer(text, start, end))
    return [one.end() for one in words[1:] if one.end() < end and not one[0].startswith("--")]
