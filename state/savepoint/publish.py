"""How a new savepoint comes to be: names, inline or file, and `_metadata` last.

A folder without `_metadata` is no savepoint to anyone, so everything before that rename may fail and be repeated.
"""

from __future__ import annotations

import datetime as dt
import enum
import hashlib
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import StateShiftError, TargetExists
from .claim import CLAIM_NAME, claimed, forget_dead
from .handles import InlineHandle, RelativeFileHandle
from .lineage import LINEAGE, FileDigest, Lineage
from .metadata import METADATA, SavepointMetadata, read_metadata, write_metadata

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from .claim import Claim
    from .files import Folder
    from .handles import StreamHandle

INLINE_BYTES = 20 << 10
"""Streams of up to this size are kept inside `_metadata`, as Flink does by default (format notes 2)."""

_OURS = re.compile(
    r"([0-9a-f]{32}-[a-z-]+-[0-9]+|_stateshift\.json|_serializers\.json|_metadata)(\.done)?(\.attempt-.+)?"
)
"""Names that a run gives; what a dead run left behind has only these."""

_OF_RUNS = re.compile(r".+(\.done|\.attempt-.+)")
"""Of these, the names of files that are no part of a savepoint."""

_UNKNOWN = (
    "Whether the target has a _metadata cannot be told, since its store does not answer; without one, "
    "nothing was published."
)


def stream_name(operator_id: str, part: str, subtask: int) -> str:
    """Give the name of a stream's file: derived, so that a repeated run gives the same (rule RUN-5).

    Args:
        operator_id: 32 hexadecimal digits.
        part: keyed, operator, raw-keyed, raw-operator or coordinator; rows, of those on their way into keyed state.
        subtask: From 0.
    """
    return f"{operator_id}-{part}-{subtask}"


class IfTargetExists(enum.StrEnum):
    """What a run does where its target is not empty.

    FAIL: refuse a savepoint or foreign files; what a dead run has left is cleared, and done again. RESUME: keep what a
    dead run of the same source, plan and division has finished, be it everything. REPLACE: remove the savepoint that is
    there, first.
    """

    FAIL = "fail"
    RESUME = "resume"
    REPLACE = "replace"


def prepare_target(folder: Folder, if_exists: IfTargetExists = IfTargetExists.FAIL, claim: Claim | None = None) -> None:
    """Make the folder, and clear what is in the way.

    Args:
        folder: The target.
        if_exists: What is in the way.
        claim: Of the run that is to write there; without one, none may be at work.

    Raises:
        TargetExists: As `check_target`; or another run is at work there.
    """
    check_target(folder, if_exists)
    if claim is None:
        forget_dead(folder)
    if if_exists is IfTargetExists.REPLACE:
        _remove_savepoint(folder)
    if if_exists is not IfTargetExists.RESUME:
        clear_target(folder)
    folder.create()


@contextmanager
def all_or_nothing(target: Folder, nothing: str, if_exists: IfTargetExists = IfTargetExists.FAIL) -> Iterator[Claim]:
    """Claim and make a target; if the `with` block fails, remove what was made, and say that nothing was published.

    A run that may be resumed keeps what is finished.

    Args:
        target: The folder.
        nothing: What an error says that was written, where there is no `_metadata`.
        if_exists: What is in the way.

    Raises:
        TargetExists: As `prepare_target`.
    """
    with claimed(target) as claim:
        prepare_target(target, if_exists, claim)
        try:
            yield claim
        except BaseException as error:
            written = _what_was_written(target, nothing)
            if written is None:
                written = f"Everything was written: {target} is complete."
            elif if_exists is IfTargetExists.RESUME:
                written = f"{written} What is finished is kept, to be resumed."
            else:
                _clear_after_failure(claim)
            _tell(error, written)
            raise


def _tell(error: BaseException, written: str) -> None:
    """Let an error that ended a run say what was written."""
    if isinstance(error, StateShiftError):
        error.written = written
    elif isinstance(error, KeyboardInterrupt):
        error.add_note(written)


def _what_was_written(target: Folder, nothing: str) -> str | None:
    """Say of a run that failed what its target is; None where it was published all the same."""
    try:
        return None if target.exists(METADATA) else nothing
    except StateShiftError:
        return _UNKNOWN


def _clear_after_failure(claim: Claim) -> None:
    """Remove what a run has written that fails; nothing where another run has taken the target over."""
    with suppress(StateShiftError):  # the failure that led here is the one to tell
        if claim.is_held():
            clear_target(claim.folder)


def clear_target(folder: Folder) -> None:
    """Remove what a run has written, and nothing else; `_metadata` first, so that there never is half a savepoint."""
    if folder.exists():
        ours = filter(_OURS.fullmatch, folder.names())  # claims are their owners' own
        for name in sorted(ours, key=lambda name: (name != METADATA, name)):
            folder.delete(name)


def clear_attempts(folder: Folder, keep: Container[str] = ()) -> None:
    """Remove what attempts have written that failed or were killed, but for the files that a run goes on with."""
    for name in folder.names():
        if ".attempt-" in name and name not in keep:
            folder.delete(name)


def held_bytes(folder: Folder, if_exists: IfTargetExists = IfTargetExists.FAIL) -> int:
    """Bytes in a target that a run clears first, or goes on with: they are no loss to its room."""
    if not folder.exists():
        return 0
    names = folder.names()
    known = _files_of(folder) if if_exists is IfTargetExists.REPLACE and METADATA in names else set()
    return sum(folder.size(name) for name in names if _OURS.fullmatch(name) or name in known)


def clean(folder: Folder) -> tuple[str, ...]:
    """Remove what a run that died has left in its target; give the names.

    A run may have died between publishing and clearing up: beside a savepoint, what only runs look at is removed.

    Raises:
        TargetExists: There is nothing but a savepoint, or there are files of somebody else, or a run is at work there;
            nothing is removed.
    """
    names = folder.names() if folder.exists() else ()
    if METADATA not in names:
        check_target(folder)
        forget_dead(folder)
        clear_target(folder)
        return names
    beside = [name for name in names if _OF_RUNS.fullmatch(name) and _OURS.fullmatch(name)]
    if not beside and not any(map(CLAIM_NAME.fullmatch, names)):
        raise TargetExists(
            f"there is a savepoint in {folder.place}, and nothing that a run has left beside it",
            advice="if nobody needs the savepoint, delete its folder; that is not done here",
            written="Nothing was removed.",
        )
    dead = forget_dead(folder)
    for name in beside:
        folder.delete(name)
    return tuple(sorted([*beside, *dead]))


def _remove_savepoint(folder: Folder) -> None:
    """Remove a savepoint, `_metadata` first: its own files and no others."""
    if folder.exists(METADATA):
        names = _files_of(folder)
        folder.delete(METADATA)
        for name in names:
            folder.delete(name)


def _files_of(folder: Folder) -> set[str]:
    """The files beside `_metadata` that it names."""
    return {stream.path for stream in _streams_of(folder) if isinstance(stream, RelativeFileHandle)}


def _streams_of(folder: Folder) -> Iterator[StreamHandle]:
    for operator in read_metadata(folder.read(METADATA)).operators:
        for subtask in operator.subtasks:
            handles = (subtask.managed_keyed, subtask.raw_keyed, subtask.managed_operator, subtask.raw_operator)
            yield from (handle.stream for handle in handles if handle is not None)


def stream_bytes(folder: Folder, names: Container[str]) -> int:
    """Bytes of the streams of these names, as `stream_name` gives them, in the savepoint that is there."""
    return sum(
        stream.size
        for stream in _streams_of(folder)
        if (isinstance(stream, InlineHandle) and stream.name in names)
        or (isinstance(stream, RelativeFileHandle) and stream.path in names)
    )


def check_target(folder: Folder, if_exists: IfTargetExists = IfTargetExists.FAIL) -> None:
    """Refuse a target that is taken; nothing is changed.

    Raises:
        TargetExists: There is a savepoint (unless it is to be replaced), or there are files of somebody else.
        CorruptSavepoint: The savepoint to be replaced cannot be read, so its files are not known.
    """
    if not folder.exists():
        return
    names = folder.names()
    nothing = "Nothing was written."
    is_replaced = if_exists is IfTargetExists.REPLACE and METADATA in names
    if METADATA in names and not is_replaced:
        raise TargetExists(
            f"there is a savepoint in {folder.place} already",
            advice="choose a new folder; a migration can replace it (--target-exists replace)",
            written=nothing,
        )
    known = _files_of(folder) if is_replaced else set()
    ours = (_OURS, CLAIM_NAME)
    foreign = [name for name in names if name not in known and not any(mine.fullmatch(name) for mine in ours)]
    if foreign:
        raise TargetExists(
            f"{folder.place} is not empty: {foreign[0]!r} is in it", advice="choose a new folder", written=nothing
        )


def store_stream(folder: Folder, name: str, data: bytes) -> tuple[StreamHandle, dict[str, FileDigest]]:
    """Keep a stream inside `_metadata` where it is small, else write it; give its handle and the file's digest."""
    if len(data) <= INLINE_BYTES:
        return InlineHandle(name, data), {}
    folder.write(name, data)
    return RelativeFileHandle(name, len(data)), {name: FileDigest.of(data)}


def publish(folder: Folder, metadata: SavepointMetadata, lineage: Lineage) -> Lineage:
    """Write the lineage, then `_metadata` under its name: from then on there is a savepoint.

    Args:
        folder: Where all files of the savepoint already are.
        metadata: What they are.
        lineage: With the digests of those files; that of `_metadata` is added.
    """
    data = write_metadata(metadata)
    complete = attrs.evolve(lineage, files={**lineage.files, METADATA: FileDigest.of(data)})
    folder.write(LINEAGE, complete.to_json())
    folder.write(METADATA, data)
    return complete


def now() -> str:
    """The time in UTC, as lineages tell it."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def source_facts(place: str, metadata: bytes) -> dict[str, Any]:
    """Name a source savepoint so that it can be known again."""
    return {"place": place, "metadata_sha256": hashlib.sha256(metadata).hexdigest()}
