"""Texts that may be longer than memory: lines are sorted, and pieces held back, in temporary files.

Texts are ASCII, as `json_text` makes them. About `HELD_BYTES` of them are in memory.
"""

from __future__ import annotations

import errno
import heapq
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, TYPE_CHECKING, Self

from ...serializers.errors import NoSpaceLeft, StorageFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HELD_BYTES = 16 << 20
PIECE_BYTES = 1 << 16
_LINE_BYTES = 72
"""What a line takes in memory beside its characters."""
_MOST_FILES = 64
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


class SortedLines:
    """Sorts lines. Used in a `with` block, at whose end its temporary files are gone."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._files: list[IO[str]] = []
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def add(self, line: str) -> None:
        """Add a line, which ends with a line break; raises as `held`."""
        self._lines.append(line)
        self._size += len(line) + _LINE_BYTES
        if self._size > HELD_BYTES:
            self._spill()

    def __iter__(self) -> Iterator[str]:
        """Yield the lines, sorted."""
        self._lines.sort()
        for file in self._files:
            file.seek(0)
        return heapq.merge(*self._files, self._lines) if self._files else iter(self._lines)

    def _spill(self) -> None:
        """Write the lines to a file; where there are too many to be open, with those of all files before."""
        is_full = len(self._files) == _MOST_FILES
        with _file_errors():
            file = self._open.enter_context(_temporary())
            file.writelines(self if is_full else sorted(self._lines))
            file.flush()
            if is_full:
                for merged in self._files:
                    merged.close()
        self._files = [file] if is_full else [*self._files, file]
        self._lines, self._size = [], 0


def held(pieces: Iterable[str]) -> Iterator[str]:
    """Yield a text, of which nothing is yielded until all its pieces are made: those may end in an error.

    Raises:
        NoSpaceLeft: The disk of temporary files is full.
        StorageFailed: A temporary file cannot be written for another reason.
    """
    first, size, rest = list[str](), 0, iter(pieces)
    for piece in rest:
        first.append(piece)
        size += len(piece)
        if size > HELD_BYTES:
            break
    else:
        yield from first
        return
    with ExitStack() as stack:
        with _file_errors():
            file = stack.enter_context(_temporary())
            for piece in rest:
                file.write(piece)
            file.seek(0)
        yield from first
        first.clear()
        while text := file.read(PIECE_BYTES):
            yield text


@contextmanager
def _temporary() -> Iterator[IO[str]]:
    file = tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n", prefix="stateshift-")  # noqa: SIM115 - below
    try:
        yield file
    finally:
        with suppress(OSError):  # of a full disk, which was reported when it was written to
            file.close()


@contextmanager
def _file_errors() -> Iterator[None]:
    """Turn errors of the operating system about temporary files into errors of stateshift."""
    try:
        yield
    except OSError as error:
        if isinstance(error, StorageFailed):  # of the savepoint, while the next piece was read from it
            raise
        kind = NoSpaceLeft if error.errno in _NO_SPACE else StorageFailed
        place = tempfile.gettempdir()
        raise kind(
            f"a value is too long to keep in memory, and a temporary file in {place} cannot be written: "
            f"{error.strerror or error}",
            advice="free space there, or set the environment variable TMPDIR to another folder",
        ) from error
