"""How far a run or a look is: a bar on a terminal, now and then a line in a log. Both on stderr."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .output import print_notice, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..spark.watching import Progress

_LOG_EVERY_S = 30.0


@contextmanager
def watched() -> Iterator[Callable[[Progress], None]]:
    """Give the function to call with each progress, until the `with` block ends."""
    if sys.stderr.isatty():
        with _bar() as show:
            yield show
    else:
        yield _logger()


def _logger() -> Callable[[Progress], None]:
    """Nothing of a short run, a line every half minute of a long one."""
    last = time.monotonic()

    def show(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= _LOG_EVERY_S:
            last = time.monotonic()
            print_notice(f"{progress.phase}: {progress.done:,} of {progress.total:,} done")

    return show


def _name_logger(what: str) -> Callable[[str], None]:
    """Nothing of a short look, a line every half minute of a long one."""
    last = time.monotonic()

    def show(name: str) -> None:
        nonlocal last
        if time.monotonic() - last >= _LOG_EVERY_S:
            last = time.monotonic()
            print_notice(f"{what} {name}")

    return show


@contextmanager
def _bar() -> Iterator[Callable[[Progress], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Bars(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("reading", total=None)

        def show(progress: Progress) -> None:
            bars.update(task, description=progress.phase, completed=progress.done, total=progress.total)

        yield show


@contextmanager
def spinning(what: str) -> Iterator[Callable[[str], None]]:
    """Show what is looked at: always on a terminal, now and then in a log. Give the function that names it."""
    if not sys.stderr.isatty():
        yield _name_logger(what)
        return
    from rich.console import Console

    with Console(stderr=True).status(what) as status:
        yield lambda name: status.update(f"{what} {printable(name)}")
