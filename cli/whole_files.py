"""Output files of commands: they are written completely or not at all, without losing other files.

A file is replaced if it is empty or an earlier output of the same command, otherwise only with `--force`. A file that
belongs to a savepoint is never written to, however its name is spelled.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import stat
import tempfile
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeVar, cast

import attrs
import click

from ..serializers.errors import NoSpaceLeft, StateShiftError, StorageFailed, TargetExists
from .output import OutputClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

F = TypeVar("F", bound="Callable[..., Any]")

_STDOUT = {"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}
_HEAD_BYTES = 200
_MOST_LINKS = 40  # the same limit as in Linux
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


class TextStream(Protocol):
    """A stream for text."""

    def write(self, text: str, /) -> object: ...


def _nothing(_: Path) -> bool:
    return False


@attrs.frozen
class OutputFile:
    """The output file of a command.

    Attributes:
        path: The path of the file.
        is_earlier: Tells whether an existing file was written by the same command.
        force: Whether to replace any other file, too.
        option: The option that names it.
    """

    path: Path
    is_earlier: Callable[[Path], bool] = attrs.field(default=_nothing, kw_only=True)
    force: bool = attrs.field(default=False, kw_only=True)
    option: str = attrs.field(default="-o", kw_only=True)

    def __str__(self) -> str:
        return str(self.path)

    def check(self) -> None:
        """Check that writing the file does not destroy other data.

        Raises:
            TargetExists: The name is inside a savepoint, or it is that of something other than a file, or of a file
                that the command has not written.
        """
        folder = _state_folder(self.path)
        if folder is not None:
            raise TargetExists(
                f"{self.path} lies in {folder}, which holds state: only a migration writes there",
                advice=f"choose a name outside of it with {self.option}"
                + ("; --force does not override this" if self.option == "-o" else ""),
            )
        mode = _mode(self.path)
        if not mode or _is_stream(mode):
            return
        if not stat.S_ISREG(mode):
            raise TargetExists(f"{self.path} is not a file", advice=f"give another name with {self.option}")
        if not self.force and not self._is_free():
            raise TargetExists(
                f"{self.path} already exists, and is not an earlier output of this command",
                advice=f"give another name with {self.option}, or "
                + ("--force to replace it" if self.option == "-o" else "remove it first"),
            )

    def _is_free(self) -> bool:
        try:
            return self.path.stat().st_size == 0 or self.is_earlier(self.path)
        except OSError:
            return False

    def opened(self) -> AbstractContextManager[TextStream]:
        """Open the file for text, as UTF-8; as `opened_binary`."""
        return self._opened("w", "utf-8")

    def opened_binary(self) -> AbstractContextManager[BinaryIO]:
        """Open the file, which takes its name when it is complete; a pipe or device is written to directly.

        Raises:
            TargetExists: As in `check`.
            UsageError: A file of that name cannot exist.
            NoSpaceLeft: The disk is full; an existing file stays as it was.
            StorageFailed: The text cannot be written for another reason; an existing file stays as it was.
        """
        return self._opened("wb", None)

    @contextmanager
    def _opened(self, mode: str, encoding: str | None) -> Iterator[Any]:
        self.check()
        if _is_stream(_mode(self.path)):
            with _file_errors(self.path), self.path.open(mode, encoding=encoding) as stream:
                yield stream
            return
        place = Path(os.path.realpath(self.path))  # a link stays a link
        if place.is_symlink():
            raise click.UsageError(f"{self.path} cannot be written: its links form a loop")
        try:
            number, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
        except OSError as error:
            raise click.UsageError(f"{self.path} cannot be written: {error.strerror}") from error
        attempt = Path(name)
        try:
            with _file_errors(self.path):
                with os.fdopen(number, mode, encoding=encoding) as stream:
                    yield stream
                attempt.chmod(_permissions(place))
                self.check()  # checked again, since writing takes a while
                attempt.replace(place)
        finally:
            attempt.unlink(missing_ok=True)


def output_option(
    is_earlier: Callable[[Path], bool] = _nothing, *, default: Path | None = None, as_json: bool = False
) -> Callable[[F], F]:
    """Add `-o FILE` and `--force`; the command receives `file`, an `OutputFile`, or None for stdout.

    Args:
        is_earlier: Tells whether an existing file was written by this command.
        default: The file if `-o` is not given; None for stdout.
        as_json: Whether the file has the output of `--json`; `-o -` then means that option.
    """

    def add(function: F) -> F:
        @click.option(
            "-o",
            "--output",
            "file",
            type=click.Path(dir_okay=False, path_type=Path),
            default=default,
            show_default=default is not None,
            metavar="FILE",
            help="Write to this file, completely or not at all"
            + ("; - for stdout." if default else ", instead of stdout."),
        )
        @click.option("--force", is_flag=True, help="With -o: replace a file that this command did not write.")
        @functools.wraps(function)
        def with_file(*args: Any, file: Path | None, force: bool, **rest: Any) -> Any:
            if str(file) in _STDOUT:
                file = None
                rest["with_json"] |= as_json
            output = None if file is None else OutputFile(file, is_earlier=is_earlier, force=force)
            if output is not None:
                output.check()
            return function(*args, file=output, **rest)

        return cast("F", with_file)

    return add


def html_option(function: F) -> F:
    """Add `--html FILE`; the command receives `html`, the file for a report to look at, or None.

    An earlier report of the same command gives way, as with `-o`; another file does not.
    """

    @click.option(
        "--html",
        "html",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Also write a report to look at: one HTML file, which needs nothing else.",
    )
    @functools.wraps(function)
    def with_html(*args: Any, html: Path | None, **rest: Any) -> Any:
        if html is None:
            return function(*args, html=None, **rest)
        if str(html) in _STDOUT:
            raise click.UsageError("--html writes a file, beside what is printed: give it a name")
        output = OutputFile(html, is_earlier=_is_report_of(html_maker()), option="--html")
        output.check()
        return function(*args, html=output, **rest)

    return cast("F", with_html)


def html_maker() -> str:
    """Return the running command as its reports name it."""
    return f"stateshift {click.get_current_context().info_name}"


def _is_report_of(maker: str) -> Callable[[Path], bool]:
    head = f'<meta name="generator" content="{maker}">'.encode()

    def is_earlier(file: Path) -> bool:
        with file.open("rb") as stream:
            return head in stream.read(_HEAD_BYTES)

    return is_earlier


def says_format(file: Path, form: str, version: int) -> bool:
    """Whether a file is a document of a format, in this or another version."""
    from ..compat.json_files import MOST_BYTES, is_document

    return file.stat().st_size <= MOST_BYTES and is_document(file.read_bytes(), form, version)


def _mode(file: Path) -> int:
    """Return the type and permissions of the file with a name; 0 if there is none."""
    try:
        return file.stat().st_mode
    except OSError:
        return 0


def _is_stream(mode: int) -> bool:
    """Whether text is passed on rather than stored in a file: by a pipe, a terminal, /dev/null."""
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _permissions(file: Path) -> int:
    """Return the permissions of the file to replace, or the default ones for a new file."""
    now = os.umask(0)
    os.umask(now)
    return stat.S_IMODE(_mode(file)) or 0o666 & ~now


@contextmanager
def _file_errors(file: Path) -> Iterator[None]:
    """Turn errors of the operating system while writing a file into errors of stateshift."""
    try:
        yield
    except StateShiftError:
        raise
    except BrokenPipeError as error:
        raise OutputClosedError from error
    except OSError as error:
        kind = NoSpaceLeft if error.errno in _NO_SPACE else StorageFailed
        raise kind(f"{file} cannot be written: {error.strerror or error}") from error


def _state_folder(file: Path) -> Path | None:
    """Return the folder of state that a path, or the target of a link, leads through; None if there is none."""
    for _ in range(_MOST_LINKS):
        place = _without_dots(file)
        folders = (*place.parents, *Path(os.path.realpath(place)).parents)
        found = next(filter(_holds_state, folders), None)
        if found is not None:
            return found
        if not place.is_symlink():
            break
        file = place.parent / place.readlink()
    return None


def _without_dots(file: Path) -> Path:
    """Return an absolute path without `..`, in which links are kept."""
    place = Path(file.absolute().anchor)
    for part in file.absolute().parts[1:]:
        place = Path(os.path.realpath(place)).parent if part == ".." else place / part
    return place


def _holds_state(folder: Path) -> bool:
    """Whether a folder belongs to a savepoint, to a run that writes one, or is shared by checkpoints."""
    from ..state.directory.directory import STREAM_FILE
    from ..state.formats.flink.metadata import METADATA
    from ..state.migration.journal import SUFFIX
    from ..state.publication.lineage import LINEAGE
    from ..state.publication.target_lock import CLAIM_NAME

    if folder.name in {"shared", "taskowned"} and any(map(_mode, folder.parent.glob(f"chk-*/{METADATA}"))):
        return True
    try:
        names = [found.name for found in folder.iterdir()]
    except OSError:
        return False
    journal = re.compile(r"[0-9a-f]{12,}.*" + re.escape(SUFFIX))
    return any(
        name in {METADATA, LINEAGE, STREAM_FILE} or CLAIM_NAME.fullmatch(name) or journal.fullmatch(name)
        for name in names
    )
