"""Reports to look at, as files: what is said of how they were made, and that they are written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from .. import __version__
from .output import print_notice
from .whole_files import html_maker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from markupsafe import Markup

    from .whole_files import OutputFile


def write_page(file: OutputFile, title: str, pieces: Iterable[Markup]) -> None:
    """Write a page, completely or not at all, and say so on stderr.

    Args:
        file: The file.
        title: The title of its window.
        pieces: What it shows.
    """
    from ..compat.pages.rendering import page, piece

    maker, now = html_maker(), datetime.now(UTC)
    made = piece("made", f"{maker}, version {__version__}, {now:%Y-%m-%d %H:%M} UTC")
    text = page(title, [*pieces, made], made_by=maker)
    with file.opened() as stream:
        stream.write(text)
    print_notice(f"written: {file}")
