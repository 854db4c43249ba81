"""Files that a command leaves: written whole, or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

F = TypeVar("F", bound="Callable[..., Any]")


class TextStream(Protocol):
    """Where text goes."""

    def write(self, text: str, /) -> object: ...


def output_option(function: F) -> F:
    """`-o FILE`, for commands that else print to stdout; the command gets `file`."""
    return click.option(
        "-o",
        "--output",
        "file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write to this file, whole or not at all, instead of stdout.",
    )(function)


@contextmanager
def whole_file(file: Path) -> Iterator[TextStream]:
    """Open a file that takes its name when it is complete."""
    try:
        number, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    except OSError as error:
        raise click.UsageError(f"{file} cannot be written: {error.strerror}") from error
    attempt = Path(name)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as stream:
            yield stream
        attempt.chmod(0o666 & ~_umask())
        attempt.replace(file)
    finally:
        attempt.unlink(missing_ok=True)


def _umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now
