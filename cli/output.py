"""Output of commands: the result on stdout, progress and notices on stderr.

A terminal gets colours and tables (rich is imported only then), a pipe gets plain lines, `--json` one document. The
output may come from a savepoint, and contain any characters. So commands pass lines, cells and documents to this
module, the only one that escapes them (`serializers/escaping.py`) and formats them for a terminal or rich.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from typing import TYPE_CHECKING, TextIO
from unicodedata import bidirectional

import attrs

from ..serializers.errors import StateShiftError
from ..serializers.escaping import encodable_json, json_text, log_line, one_line
from .folding import folded, folded_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.console import RenderableType
    from rich.text import Text

_LEAST_WIDTH, _PIPED_WIDTH = 80, 100
_NAME_WIDTH = 48
_ISOLATE, _END_ISOLATE = "\u2068", "\u2069"

Span = tuple[str, str]
"""Text, and how rich shows it: "bold", "dim", "red"; "" for plain."""
Line = list[Span]


class OutputClosedError(Exception):
    """Stdout takes no more: its reader has closed it, as `head` does, or its disk is full.

    Attributes:
        reason: Why it cannot be written; "": it was closed, which is no failure.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


_answers: list[TextIO] = []
"""Stdout as it was before `answering`, for all threads."""


@contextlib.contextmanager
def answering() -> Iterator[None]:
    """Within the `with` block, stdout takes what commands pass to this module alone.

    What else prints, such as a converter of a user, prints to stderr.
    """
    _answers.append(_stdout())
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _answers.pop()


def _stdout() -> TextIO:
    return _answers[-1] if _answers else sys.stdout


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Turn failures of stdout in a `with` block into `OutputClosedError`."""
    try:
        yield
    except OSError as error:
        if isinstance(error, StateShiftError):
            raise
        # Python flushes stdout again at exit, then into nothing.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), _stdout().fileno())
        is_closed = isinstance(error, BrokenPipeError)
        raise OutputClosedError("" if is_closed else error.strerror or str(error)) from error


def prepare_streams() -> None:
    """Make characters missing in the terminal's encoding print as escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def close_output() -> None:
    """Flush stdout while a closed pipe can still be distinguished from a defect."""
    with writing():
        _stdout().flush()


def is_terminal() -> bool:
    """Whether stdout is a terminal."""
    return _stdout().isatty()


def write_text(text: str) -> None:
    """Write text to stdout as it is: data for a program, already escaped for its format."""
    with writing():
        _stdout().write(text)


def write_json(text: str) -> None:
    """Write JSON to stdout, or a piece of it; characters missing in its encoding are escaped as JSON does."""
    write_text(encodable_json(text, sys.stdout.encoding or "utf-8"))


def print_json(data: object) -> None:
    """Print the JSON document of `--json`."""
    write_json(json_text(data, indent=2) + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Print plain lines; each stays one line, whatever it contains."""
    with writing():
        for line in lines:
            _stdout().write(log_line(line).rstrip() + "\n")


def print_notice(*lines: str) -> None:
    """Print lines that are not part of the result to stderr; each stays one line, as in `print_lines`."""
    with writing():
        _stdout().flush()
    with contextlib.suppress(OSError):  # there is nowhere else to say it; the exit status does
        sys.stderr.write("".join(f"{log_line(line)}\n" for line in lines))
        sys.stderr.flush()


def text_width() -> int:
    """Return the maximum length of a line: the width of the terminal, else 80."""
    return max(shutil.get_terminal_size().columns, _LEAST_WIDTH) if is_terminal() else _LEAST_WIDTH


@attrs.frozen
class Column:
    """A column of a table.

    Attributes:
        title: The title in lower case.
        is_number: Whether it is aligned to the right.
        is_name: Whether it contains names; long names are shortened in the middle, while `--json` has them in full.
    """

    title: str
    is_number: bool = False
    is_name: bool = False

    def cell(self, text: str) -> str:
        """Return the text of a cell as one line, whatever it contains."""
        text = one_line(text)
        if not self.is_name or len(text) <= _NAME_WIDTH:
            return text
        half = _NAME_WIDTH // 2
        return f"{text[:half]}…{text[half + 1 - _NAME_WIDTH :]}"


@attrs.frozen
class Table:
    """A table that a terminal wraps to its width.

    Attributes:
        columns: The columns; if none has a title, the title line is left out.
        rows: Rows of cells; the spans of a cell are shown one below the other.
        indent: The indentation in spaces.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Line]]
    indent: int = 0


def print_styled(blocks: Iterable[Line | Table]) -> None:
    """Print lines and tables, coloured on a terminal, plain in a pipe. Their content cannot break a line or a cell."""
    if not is_terminal():
        print_lines(line for block in blocks for line in _plain_lines(block))
        return
    from rich.console import Console

    console = Console(file=_stdout(), highlight=False, soft_wrap=False)
    with writing():
        for block in blocks:
            console.print(_folded(block) if isinstance(block, Table) else _indented(block))


def print_folded(lines: Iterable[Line]) -> None:
    """Print lines as `print_styled`, a long one as several short ones, of which a command can be copied."""
    width = line_width()
    if not is_terminal():
        print_lines(one for line in lines for one in folded_text("".join(text for text, _ in line), width))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=_stdout(), highlight=False)
    with writing():
        for text in map(_text, lines):
            for lead, start, end, tail in folded(text.plain, width):
                console.print(Text.assemble(lead, text[start:end], tail), soft_wrap=True)


def line_width() -> int:
    """Return the maximum length of a line of a report: the width of the terminal, else 100."""
    return max(shutil.get_terminal_size().columns, _LEAST_WIDTH) if is_terminal() else _PIPED_WIDTH


def _plain_lines(block: Line | Table) -> list[str]:
    if not isinstance(block, Table):
        return ["".join(text for text, _ in block)]
    cells = [["  ".join(text for text, _ in cell) for cell in row] for row in block.rows]
    return table_lines(block.columns, cells, block.indent)


def _text(line: Line) -> Text:
    """Return a line for rich; this is the only function that creates text for a terminal."""
    from rich.text import Text

    return Text.assemble(*((one_line(text), style) for text, style in line))


def _cell_text(column: Column, text: str, style: str) -> Text:
    """Return a cell for rich; right-to-left text in it does not reorder the cells around it."""
    from rich.text import Text

    text = column.cell(text)
    if any(bidirectional(letter) in {"R", "AL"} for letter in text):
        text = f"{_ISOLATE}{text}{_END_ISOLATE}"
    return Text(text, style)


def _indented(line: Line) -> RenderableType:
    """Keep the indentation also for wrapped lines."""
    from rich.padding import Padding

    text = _text(line)
    indent = len(text.plain) - len(text.plain.lstrip(" "))
    return Padding(text[indent:], (0, 0, 0, indent)) if indent else text


def _folded(table: Table) -> RenderableType:
    from rich.padding import Padding
    from rich.table import Table as Folded
    from rich.text import Text

    has_titles = any(column.title for column in table.columns)
    folded = Folded(box=None, padding=(0, 2, 0, 0), header_style="dim", show_header=has_titles)
    for column in table.columns:
        folded.add_column(column.title, justify="right" if column.is_number else "left", overflow="fold")
    for row in table.rows:
        cells = zip(table.columns, row, strict=True)
        folded.add_row(*(Text("\n").join(_cell_text(column, *span) for span in cell) for column, cell in cells))
    return Padding(folded, (0, 0, 0, table.indent))


@contextlib.contextmanager
def status_line(what: str) -> Iterator[Callable[[str], None]]:
    """Show a status line on stderr, if it is a terminal; yield the function that changes it."""
    from rich.console import Console

    with Console(stderr=True).status(_text([(what, "")])) as status:
        yield lambda words: status.update(_text([(words, "")]))


def table_lines(columns: Sequence[Column], rows: Sequence[Sequence[str]], indent: int = 0) -> list[str]:
    """Return a table as aligned plain lines, with a title line."""
    titles = [column.title for column in columns]
    every = [[column.cell(text) for column, text in zip(columns, row, strict=True)] for row in (titles, *rows)]
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
    """Return a table as aligned lines, with a title line; each row is a line with one span per column."""
    titles: Line = [(column.title, "dim") for column in columns]
    every = [
        [(column.cell(text), style) for column, (text, style) in zip(columns, row, strict=True)]
        for row in (titles, *rows)
    ]
    widths = [max(len(row[index][0]) for row in every) for index in range(len(columns))]
    lines = []
    for row in every:
        line: Line = [(" " * indent, "")]
        for column, (text, style), width in zip(columns, row, widths, strict=True):
            line += [(text.rjust(width) if column.is_number else text.ljust(width), style), ("  ", "")]
        lines.append(line[:-1])
    return lines
