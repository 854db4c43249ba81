"""Exit statuses, one per outcome, and the output of errors, as a block on stderr or a JSON document."""

from __future__ import annotations

import enum
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..serializers.errors import (
    CompatibilityCheckError,
    CorruptFile,
    CorruptSavepoint,
    IncompatibleState,
    LibraryNotFound,
    MigrationFailed,
    NoSpaceLeft,
    OldReaderUnavailable,
    PlanChanged,
    SavepointNotFound,
    SnapshotVersionError,
    StateShiftError,
    StorageFailed,
    UnknownSnapshot,
    UnsupportedFormat,
    UntrustedPlace,
    ValueNotConvertible,
    advice_text,
    cause_text,
    error_text,
    values_are_redacted,
    what_text,
)
from ..serializers.ways_out import on_command_line
from .output import print_json, print_notice, print_trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import click


class Status(enum.IntEnum):
    """The exit statuses; 141 and 130 are those of the shell."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    UNREADABLE = 3
    MIGRATE_FIRST = 4
    DRIFT = 5
    FAILED = 6
    INCOMPLETE = 7
    PARTIAL = 8
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141


# A class that is not listed has the status of its nearest base class.
_STATUSES: Mapping[type[BaseException], Status] = {
    StateShiftError: Status.USAGE,  # what was asked for cannot be, or something is missing: pyspark, Java
    UntrustedPlace: Status.USAGE,
    CorruptFile: Status.UNREADABLE,
    CorruptSavepoint: Status.UNREADABLE,
    OldReaderUnavailable: Status.UNREADABLE,
    SavepointNotFound: Status.UNREADABLE,
    SnapshotVersionError: Status.UNREADABLE,
    StorageFailed: Status.UNREADABLE,
    UnknownSnapshot: Status.UNREADABLE,
    UnsupportedFormat: Status.UNREADABLE,
    IncompatibleState: Status.REFUSED,
    PlanChanged: Status.REFUSED,
    CompatibilityCheckError: Status.FAILED,
    MigrationFailed: Status.FAILED,
    NoSpaceLeft: Status.FAILED,
    ValueNotConvertible: Status.FAILED,
}
_NOTHING_WRITTEN = "Nothing was written."
_OWN_FACTS = {"what", "advice", "written", "where"}


def status_of(error: StateShiftError) -> Status:
    """Return the exit status of an error."""
    return next(_STATUSES[base] for base in type(error).__mro__ if base in _STATUSES)


def error_lines(error: StateShiftError) -> list[str]:
    """Return an error as one block: what, where, what to do, whether anything was written."""
    name = "Error" if type(error) is StateShiftError else type(error).__name__
    return f"{name}: {error_text(error, on_command_line)}".split("\n")


def error_data(error: StateShiftError) -> dict[str, Any]:
    """Return an error as plain data: the content of the block, and attributes of its class (`snapshot_id`, …)."""
    is_ours = type(error).__module__ == StateShiftError.__module__
    shown = vars(error) if is_ours or not values_are_redacted() else {}  # a user's class may store values
    facts = {name: _plain(value) for name, value in shown.items() if name not in _OWN_FACTS and name[0] != "_"}
    return {
        "type": type(error).__name__,
        "what": what_text(error, on_command_line),
        "where": {name: _plain(value) for name, value in error.where.items()},
        "advice": advice_text(error, on_command_line),
        "written": error.written,
        "exit_status": int(status_of(error)),
    } | facts


def _plain(value: object) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else str(value)


@contextmanager
def libraries_needed(extra: str) -> Iterator[None]:
    """Turn a failing import in the `with` block into an error that says what to install: this extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise LibraryNotFound(
            f"entries are decoded with a library that is not installed: {error.name}",
            advice=f"pip install 'stateshift[{extra}]'",
        ) from error


def print_error(error: StateShiftError, *, with_json: bool, only_reads: bool) -> None:
    """Print an error, on stderr for people, or on stdout for programs; if the command writes, say what was written."""
    if error.written in {"", _NOTHING_WRITTEN}:
        error.written = "" if only_reads else _NOTHING_WRITTEN
    if with_json:
        print_json({"error": error_data(error)})
    else:
        print_notice(*error_lines(error))


def print_usage_error(error: click.ClickException, *, with_json: bool) -> None:
    """Print an error in the arguments, on stderr for people, or on stdout for programs."""
    if with_json:
        what = {"type": "UsageError", "what": error.format_message(), "exit_status": int(Status.USAGE)}
        print_json({"error": what})
    else:
        context = getattr(error, "ctx", None)
        if context is not None:
            print_notice(*context.get_usage().split("\n"), f"Try '{context.command_path} --help' for help.", "")
        print_notice(f"Error: {error.format_message()}")


def _trace(error: BaseException) -> Iterator[str]:
    """Yield a traceback; with redacted values, the messages of exceptions are left out, as they may contain values."""
    if not values_are_redacted():
        yield from traceback.format_exception(error)
        return
    behind = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if behind is not None:
        yield from _trace(behind)
        yield "\nwhich led to:\n\n"
    yield from ("Traceback (most recent call last):\n", *traceback.format_tb(error.__traceback__))
    yield f"{type(error).__qualname__}: <redacted>\n"


def print_defect(error: Exception, *, with_json: bool) -> None:
    """Print an unexpected error with its traceback, and in addition as JSON for programs."""
    print_trace("".join(_trace(error)).rstrip().split("\n"))
    what = cause_text(error)
    if with_json:
        print_json({"error": {"type": "Defect", "what": what, "exit_status": int(Status.FAILED)}})
    print_notice(
        "this is a defect of stateshift, not of your savepoint or job: please report the lines above",
        "  the savepoint was not changed",
    )
