"""Progress of a run or inspection on stderr: a bar on a terminal, or lines in a log now and then."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..serializers.wording import many
from ..state.progress import ProgressMeter, count_bytes, report_progress, size_text
from .output import is_terminal, print_notice, status_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..state.progress import Progress

_LOG_EVERY_S = 10.0
_AT_ONCE = "starting Spark"
"""The phase that is told at once: it takes seconds, in which nothing else is."""


@contextmanager
def show_progress() -> Iterator[Callable[[Progress], None]]:
    """Yield the function to pass as `progress=…` to long work, which then shows a bar, or lines in a log, on stderr."""
    if sys.stderr.isatty():
        with _bar() as show, report_progress.heard_by(show):
            yield show
    else:
        show = _logger()
        with report_progress.heard_by(show):
            yield show


@contextmanager
def reading(phase: str, parts: int, size_bytes: int = 0, *, to_stdout: bool) -> Iterator[Callable[[], None]]:
    """Show how far the reading of some parts is, as `show_progress`; yield the function to call after each part.

    Args:
        phase: The name of the phase.
        parts: The number of the parts.
        size_bytes: About how many bytes they have; 0: it is not known.
        to_stdout: Whether what is read is printed; then a terminal shows that it goes on.
    """
    if to_stdout and is_terminal():
        yield lambda: None
        return
    with show_progress() as show:
        meter = ProgressMeter(show, phase, parts, size_bytes)
        with count_bytes.heard_by(meter.take):
            yield meter.add


def _now_and_then() -> Callable[[], bool]:
    """Return a check whether a log line is due: never in a short run, every ten seconds in a long one."""
    last = time.monotonic()

    def is_due() -> bool:
        nonlocal last
        if time.monotonic() - last < _LOG_EVERY_S:
            return False
        last = time.monotonic()
        return True

    return is_due


def _logger() -> Callable[[Progress], None]:
    is_due = _now_and_then()
    told = ""

    def show(progress: Progress) -> None:
        nonlocal told
        if progress.phase == _AT_ONCE != told or (progress.phase != _AT_ONCE and is_due()):
            told = progress.phase
            print_notice(f"{progress.phase}{_how_far(progress)}")

    return show


def _how_far(progress: Progress) -> str:
    """Return what stands behind the name of a phase; one of one says nothing."""
    counted = f": {progress.done:,} of {progress.total:,} done" if progress.total > 1 else " …"
    return ", ".join(filter(None, (counted, details(progress))))


def details(progress: Progress) -> str:
    """Return what is known of entries, bytes, rate and remaining time, in words; "" if nothing is."""
    if not progress.bytes_total or not progress.bytes_done:
        return ""
    parts = [many(progress.entries, "entry", "entries")] if progress.entries else []
    parts.append(f"{size_text(progress.bytes_done)} of {size_text(progress.bytes_total)}")
    if progress.seconds_left:
        left_s = round(progress.seconds_left)
        parts.append(f"{size_text(round(progress.bytes_per_s))}/s")
        parts.append(f"{left_s // 60}:{left_s % 60:02} left")
    return ", ".join(parts)


def _name_logger(what: str) -> Callable[[str], None]:
    is_due = _now_and_then()

    def show(name: str) -> None:
        if is_due():
            print_notice(f"{what} {name}")

    return show


@contextmanager
def _bar() -> Iterator[Callable[[Progress], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
    with Bars(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("reading …", total=None)

        def show(progress: Progress) -> None:
            """Show how far it is, in bytes where they are known: there may be one stream alone."""
            done, total = progress.done, progress.total if progress.total > 1 else None
            if progress.bytes_total:
                done, total = progress.bytes_done, progress.bytes_total
            told = f"{progress.phase}{_how_far(progress)}"
            bars.update(task, description=told, completed=done, total=total)

        yield show


@contextmanager
def spinning(what: str) -> Iterator[Callable[[str], None]]:
    """Show the current item, on a terminal or as lines in a log now and then; yield the function that names it."""
    if not sys.stderr.isatty():
        with report_progress.heard_by(_logger()):
            yield _name_logger(what)
        return
    with status_line(what) as show, report_progress.heard_by(lambda done: show(f"{done.phase}: {details(done)}")):
        yield lambda name: show(f"{what} {name}")
