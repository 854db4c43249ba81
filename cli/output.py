"""Output of commands: the result on stdout, progress and notices on stderr.

A terminal gets colours and tables (rich is imported only then), a pipe gets plain lines, `--json` one document. The
output may come from a savepoint, and contain any characters. So commands pass lines, cells and documents to this
module, the only one that escapes them (`serializers/wording.py`) and formats them for a terminal or rich.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from typing import TYPE_CHECKING, TextIO
from unicodedata import bidirectional

import attrs

from ..serializers.errors import StateShiftError
from ..serializers.wording import encodable_json, json_text, log_line, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.console import RenderableType
    from rich.text import Text

_LEAST_WIDTH, _PIPED_WIDTH = 80, 100
_NAME_WIDTH, _LEAST_TEXT = 48, 40
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


def is_terminal(letters: str = "") -> bool:
    """Whether stdout is a terminal, whose encoding has some letters."""
    stream = _stdout()
    try:
        letters.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return stream.isatty()


def write_text(text: str) -> None:
    """Write text to stdout as it is: data for a program, already escaped for its format."""
    with writing():
        _stdout().write(text)


def write_json(text: str) -> None:
    """Write JSON to stdout, or a piece of it; characters missing in its encoding are escaped as JSON does."""
    write_text(encodable_json(text, sys.stdout.encoding or "utf-8"))


def print_json(data: object, *, as_line: bool = False) -> None:
    """Print the JSON document of `--json`, or one of those that come a line each."""
    write_json(json_text(data, indent=None if as_line else 2) + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Print plain text; what a line contains cannot break it, and a long one is printed as several short ones."""
    width = line_width()
    _write_lines(short for line in lines for short in folded_text(one_line(line), width))


def _write_lines(lines: Iterable[str]) -> None:
    with writing():
        for line in lines:
            _stdout().write(log_line(line).rstrip() + "\n")


def print_notice(*lines: str) -> None:
    """Print lines that are not part of the result to stderr, as in `print_lines`."""
    width = _width_of(sys.stderr)
    print_trace(short for line in lines for short in folded_text(one_line(line), width))


def print_trace(lines: Iterable[str]) -> None:
    """Print lines to stderr that stay as they are, such as those of a traceback; what is in them cannot break one."""
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
        is_text: Whether it contains sentences, which go on below if it is the last column.
    """

    title: str
    is_number: bool = False
    is_name: bool = False
    is_text: bool = False

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

    @classmethod
    def of(cls, columns: Sequence[Column], rows: Iterable[Iterable[str]], indent: int = 2) -> Table:
        """Return a table of plain texts."""
        return cls(columns, [[[(cell, "")] for cell in row] for row in rows], indent)


@attrs.frozen
class Row:
    """A line of cells, such as one of `styled_table`, which is not divided as text is.

    Attributes:
        cells: The cells, padded.
    """

    cells: Line


Block = Line | Row | Table


def print_styled(blocks: Iterable[Block]) -> None:
    """Print lines, rows and tables, coloured on a terminal, plain in a pipe. What is in them cannot break a line.

    A long line is printed as several short ones, of which a command can be copied.
    """
    width = line_width()
    if not is_terminal():
        _write_lines(line for block in blocks for line in _plain_lines(block, width))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=_stdout(), highlight=False)
    with writing():
        for block in blocks:
            if isinstance(block, Table):
                console.print(_rich_table(block))
            elif isinstance(block, Row):
                console.print(_indented(block.cells))
            else:
                text = _text(block)
                for lead, start, end, tail in folded(text.plain, width):
                    console.print(Text.assemble(lead, text[start:end], tail), soft_wrap=True)


def line_width() -> int:
    """Return the maximum length of a line of a report: the width of the terminal, else 100."""
    return _width_of(_stdout())


def _width_of(stream: TextIO) -> int:
    return max(shutil.get_terminal_size().columns, _LEAST_WIDTH) if stream.isatty() else _PIPED_WIDTH


def _plain_lines(block: Block, width: int) -> list[str]:
    if isinstance(block, Table):
        return list(_table_lines(block, width))
    if isinstance(block, Row):
        return ["".join(text for text, _ in block.cells)]
    return folded_text(one_line("".join(text for text, _ in block)), width)


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


def _rich_table(table: Table) -> RenderableType:
    from rich.padding import Padding
    from rich.table import Table as Shown
    from rich.text import Text

    has_titles = any(column.title for column in table.columns)
    shown = Shown(box=None, padding=(0, 2, 0, 0), header_style="dim", show_header=has_titles)
    for column in table.columns:
        shown.add_column(column.title, justify="right" if column.is_number else "left", overflow="fold")
    for row in table.rows:
        cells = zip(table.columns, row, strict=True)
        shown.add_row(*(Text("\n").join(_cell_text(column, *span) for span in cell) for column, cell in cells))
    return Padding(shown, (0, 0, 0, table.indent))


@contextlib.contextmanager
def status_line(what: str) -> Iterator[Callable[[str], None]]:
    """Show a status line on stderr, if it is a terminal; yield the function that changes it."""
    from rich.console import Console

    with Console(stderr=True).status(_text([(what, "")])) as status:
        yield lambda words: status.update(_text([(words, "")]))


def _table_lines(table: Table, width: int) -> Iterator[str]:
    """Yield a table as aligned plain lines, with a title line if a column has a title; a last text goes on below."""
    cells: list[Line] = [[("  ".join(text for text, _ in cell), "") for cell in row] for row in table.rows]
    titles, *rows = styled_table(table.columns, cells, table.indent)
    for row in [titles, *rows] if any(column.title for column in table.columns) else rows:
        ahead, last = "".join(text for text, _ in row.cells[:-1]), row.cells[-1][0].rstrip()
        room = width - len(ahead)
        if not table.columns[-1].is_text or len(last) <= room:
            yield f"{ahead}{last}".rstrip()
        elif room < _LEAST_TEXT:
            yield ahead.rstrip()
            yield from folded_text(" " * (table.indent + 4) + last, width)
        else:
            first, *others = folded_text(last, room)
            yield f"{ahead}{first}"
            yield from (" " * len(ahead) + one for one in others)


def styled_table(columns: Sequence[Column], rows: Sequence[Line], indent: int = 0) -> list[Row]:
    """Return a table as aligned rows, with a title row; each row is a line with one span per column."""
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
        lines.append(Row(line[:-1]))
    return lines


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
