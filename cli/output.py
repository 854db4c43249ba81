"""Where a command speaks: its answer on stdout, progress and notices on stderr.

A terminal gets colours and tables (rich, imported only then), a pipe gets plain lines, `--json` one document.
What comes out of a savepoint may hold control characters; on its way to a person they are escaped.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

_KEPT = {"\n", "\t"}
_LEAST_WIDTH = 80

Span = tuple[str, str]
"""Text, and how rich shows it: "bold", "dim", "red"; "" for plain."""
Line = list[Span]


class OutputClosedError(Exception):
    """Whoever read our output went away, as `head` does."""


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        # Python flushes stdout once more at exit; into nothing, then.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputClosedError from error


def prepare_streams() -> None:
    """Let no character that the terminal's encoding lacks end a command."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def close_output() -> None:
    """Flush stdout while a closed pipe can still be told from a defect."""
    with _writing():
        sys.stdout.flush()


def printable(text: str) -> str:
    """Escape what a terminal would act on."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _KEPT else c.encode("unicode_escape").decode() for c in text)


def is_terminal() -> bool:
    """Whether a person looks at stdout."""
    return sys.stdout.isatty()


def write_text(text: str) -> None:
    """Write to stdout as it is: data for a program."""
    with _writing():
        sys.stdout.write(text)


def print_json(data: object) -> None:
    """Print the one document of `--json`."""
    write_text(json.dumps(data, indent=2) + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Print plain lines."""
    with _writing():
        for line in lines:
            sys.stdout.write(printable(line).rstrip() + "\n")


def print_rich(renderables: Iterable[RenderableType]) -> None:
    """Print for a terminal."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=False)
    with _writing():
        for renderable in renderables:
            console.print(_Escaped(renderable))


def text_width() -> int:
    """How many characters a line may have: as wide as the terminal is, else 80."""
    return max(shutil.get_terminal_size().columns, _LEAST_WIDTH) if is_terminal() else _LEAST_WIDTH


def print_styled(lines: Iterable[Line]) -> None:
    """Print lines: coloured for a terminal, plain for a pipe."""
    if not is_terminal():
        print_lines("".join(text for text, _ in line) for line in lines)
        return
    print_rich(map(_indented, lines))


def _indented(line: Line) -> RenderableType:
    """Keep the indentation also of what goes on in the next line."""
    from rich.padding import Padding
    from rich.text import Text

    text = Text.assemble(*line)
    indent = len(text.plain) - len(text.plain.lstrip(" "))
    return Padding(text[indent:], (0, 0, 0, indent)) if indent else text


def print_notice(text: str) -> None:
    """Say something that is not the answer; it goes to stderr."""
    sys.stdout.flush()
    sys.stderr.write(printable(text) + "\n")
    sys.stderr.flush()


class _Escaped:
    """What rich would print, with control characters that come from data escaped."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment

        for segment in console.render(self._renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


@attrs.frozen
class Column:
    """A column of a table.

    Attributes:
        title: In lower case.
        is_number: Whether it is aligned to the right.
    """

    title: str
    is_number: bool = False


def table_lines(columns: Sequence[Column], rows: Sequence[Sequence[str]], indent: int = 0) -> list[str]:
    """Give a table as aligned plain lines, with a line of titles."""
    every = [[column.title for column in columns], *rows]
    widths = [max(len(row[index]) for row in every) for index in range(len(columns))]
    lines = []
    for row in every:
        cells = [
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for column, cell, width in zip(columns, row, widths, strict=True)
        ]
        lines.append((" " * indent + "  ".join(cells)).rstrip())
    return lines


def styled_table(columns: Sequence[Column], rows: Sequence[Line], indent: int = 0) -> list[Line]:
    """Give a table as aligned lines, with a line of titles; each row is a line with one span for each column."""
    titles: Line = [(column.title, "dim") for column in columns]
    widths = [max(len(row[index][0]) for row in (titles, *rows)) for index in range(len(columns))]
    lines = []
    for row in (titles, *rows):
        line: Line = [(" " * indent, "")]
        for column, (text, style), width in zip(columns, row, widths, strict=True):
            line += [(text.rjust(width) if column.is_number else text.ljust(width), style), ("  ", "")]
        lines.append(line[:-1])
    return lines


def size_text(size_bytes: int) -> str:
    """Give a size as a person reads it."""
    size, unit = float(size_bytes), "B"
    for bigger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, bigger
    return f"{size_bytes} B" if unit == "B" else f"{size:.1f} {unit}"
