"""Long lines as several short ones: words move to the next line, and a command goes on there as a shell reads it.

What cannot be divided, such as a path, stays whole, so that a line may be longer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_WAYS, _OR = ("ways out: ", "what to do: "), "; or "
_COMMAND = re.compile(r"(?:^ *|: |; first | then )(?=(?:stateshift [a-z]|flink run ))")
_WORDS = re.compile(r"\S+")
_BETWEEN_COLUMNS = re.compile(r"(?<=\S) {2,}(?=\S)")
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
    hang = indent + (4 if _OR in text else 2)
    while start < len(text):
        end = text.find(_OR, start)
        end = len(text) if end < 0 else end
        pieces += _part(text, start, end, lead, hang, width)
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
        return
    words, behind = _words_of(text, command, end)
    breaks = [one.end() for one in words[1:] if one.end() < behind and not one[0].startswith("-")]
    yield from _lines(text, start, behind, lead, hang + 2, width - 2, breaks=breaks, tail=" \\")
    if behind < end:
        yield from _part(text, behind + 1, end, " " * hang, hang, width)


def _lines(
    text: str, start: int, end: int, lead: str, hang: int, width: int, *, breaks: list[int], tail: str
) -> Iterator[Piece]:
    while len(lead) + end - start > width + (len(tail) if tail else 0):
        room = start + width - len(lead)
        left = [at for at in breaks if at > start]
        fitting = [at for at in left if at <= room]
        if not left:
            break
        if tail or (at := _between_columns(text, start, end, room, width - hang)) is None:
            at = fitting[-1] if fitting else left[0]
        yield lead, start, at, tail
        start, lead = at + 1, " " * hang
        while start < end and text[start] == " ":
            start += 1
    yield lead, start, end, ""


def _between_columns(text: str, start: int, end: int, room: int, width: int) -> int | None:
    """Return where the columns of a line are divided best: where both parts fit, else as late as possible."""
    found = [one.start() for one in _BETWEEN_COLUMNS.finditer(text, start, end) if one.start() <= room]
    both = [at for at in found if end - at - 2 <= width]
    if both:
        return min(both, key=lambda at: max(at - start, end - at))
    return found[-1] if found else None


def _spaces(text: str, start: int, end: int) -> list[int]:
    """Return the spaces of a sentence at which it may go on in the next line; an option keeps its value."""
    words = list(_WORDS.finditer(text, start, end))
    return [one.end() for one in words if one.end() < end and not one[0].startswith("-")]


def _words_of(text: str, start: int, end: int) -> tuple[list[re.Match[str]], int]:
    """Return the words of a command, and where it ends: at a semicolon, which stands in no word that is not quoted."""
    words = []
    for word in _WORD.finditer(text, start, end):
        words.append(word)
        if word[0].endswith(";"):
            return words, word.end()
    return words, end
