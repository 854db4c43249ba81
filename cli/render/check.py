"""Formatting of a check's report for the terminal: of a savepoint, and of a query of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compat import explain
from ...serializers.compatibility import Decision
from ..output import line_width
from .markdown import Head

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...compat.report import CheckReport
    from ..output import Line


def report_lines(report: CheckReport, *, everything: bool = False, is_short: bool = False) -> Iterator[Line]:
    """Yield a report as lines, which the terminal folds.

    Args:
        report: The report; findings on a query are worded as its author writes it.
        everything: Whether to list all states.
        is_short: Whether to tell it in about ten lines.
    """
    if report.is_of_query:
        from ...compat.queries.wording import for_people

        report = for_people(report)
    for block in explain.summary(report) if is_short else explain.blocks(report, everything=everything):
        if isinstance(block, explain.Words):
            yield [(" " * block.indent, ""), *((str(text), style) for text, style in block.pieces)]
        else:
            yield from explain.difference_lines(block, line_width())


def head_of(report: CheckReport, steps: tuple[str, ...]) -> Head:
    """Return what a report says as a whole, for Markdown, with what to do next."""
    title, *about = ("".join(str(text) for text, _ in words.pieces) for words in explain.head(report))
    return Head(title, tuple(about), steps=steps)


def next_lines(report: CheckReport, *, is_short: bool = False) -> Iterator[Line]:
    """Yield what to do next about a query that Spark cannot start as it is."""
    if report.condition and report.decision is Decision.START and not report.known_from:
        yield [("--was MODULE:FUNCTION, which builds the old query, makes it certain; so does a recording", "bold")]
    if report.next_command:
        yield [(f"next: {report.next_command}", "")]
    elif report.next_asks:
        more = "; without --summary it is listed" if is_short else ":"
        yield [(f"a migration asks for more than the ways out have{more}", "")]
        yield from ([(line, "")] for line in (() if is_short else report.next_asks))
