"""How a new savepoint comes to be: names, inline or file, and `_metadata` last.

A folder without `_metadata` is no savepoint to anyone, so everything before that rename may fail and be repeated. Where
a savepoint is replaced, the files of the new one lie beside those of the old one until that rename exchanges the two.
"""

from __future__ import annotations

import datetime as dt
import enum
import hashlib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import StateShiftError, TargetExists
from ..savepoint.handles import InlineHandle, RelativeFileHandle
from ..savepoint.metadata import METADATA, SavepointMetadata, read_metadata, write_metadata
from .lineage import LINEAGE, NEXT_LINEAGE, FileDigest, Lineage
from .runs import (
    Contents,
    announce,
    clear,
    clear_late,
    complete_replacement,
    files_there,
    has_finished,
    write_replaced,
)
from .target_lock import Claim, claimed

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterator

    from ..savepoint.handles import StreamHandle
    from .files import Folder
    from .source_guard import Read

INLINE_BYTES = 20 << 10
"""Streams of up to this size are kept inside `_metadata`, as Flink does by default (format notes 2)."""

_UNKNOWN = (
    "Whether the new savepoint was published cannot be told, since its store does not answer; "
    "if its _metadata is there, it is complete."
)
_NOTHING_WRITTEN = "Nothing was written."


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
    dead run of the same source, plan and division has finished, be it everything. REPLACE: exchange the savepoint that
    is there for the new one, once that is complete.
    """

    FAIL = "fail"
    RESUME = "resume"
    REPLACE = "replace"


@attrs.frozen
class Destination:
    """Where a run writes, and what it was asked about that.

    Attributes:
        folder: The place.
        names: What it may write (`runs.names_of`).
        reads: What the run reads, and must not write to.
        if_exists: What is in the way.
        nothing: What an error says that was written, where nothing was published.
    """

    folder: Folder
    names: Collection[str] = ()
    reads: tuple[Read, ...] = ()
    if_exists: IfTargetExists = IfTargetExists.FAIL
    nothing: str = "Nothing was published: the target has no _metadata."


def prepare_target(claim: Claim, names: Collection[str], if_exists: IfTargetExists = IfTargetExists.FAIL) -> Claim:
    """Clear what dead runs have left, and list what this one may write; gives the claim, with its list.

    Args:
        claim: Of the run, on the target.
        names: What it may write.
        if_exists: What is in the way.

    Raises:
        TargetExists: As `check_target`.
    """
    check_target(claim.folder, if_exists)
    listed = announce(claim, names)
    if if_exists is not IfTargetExists.RESUME:
        clear(listed)
    return listed


@contextmanager
def all_or_nothing(destination: Destination) -> Iterator[Claim]:
    """Claim and make a target; if the `with` block fails, remove what was made, and say that nothing was published.

    A run that may be resumed keeps what is finished.

    Raises:
        TargetExists: As `claim.lay` and `prepare_target`.
    """
    check_target(destination.folder, destination.if_exists)
    with claimed(destination.folder, destination.reads) as bare:
        before = _digest(bare.folder)
        claim = prepare_target(bare, destination.names, destination.if_exists)
        try:
            yield claim
        except BaseException as error:
            written, is_published = what_was_written(destination, before)
            leave(claim, keeps=destination.if_exists is IfTargetExists.RESUME and not is_published)
            _tell(error, written)
            raise
        leave(claim)


def what_was_written(destination: Destination, before: FileDigest | None) -> tuple[str, bool]:
    """Say of a run that failed what its target is now, and whether it was published all the same.

    Args:
        destination: Where it wrote.
        before: Of the `_metadata` that was there before the run.
    """
    try:
        found = _digest(destination.folder)
    except StateShiftError:
        nothing = _UNKNOWN
    else:
        if found not in {None, before}:
            return f"Everything was written: {destination.folder} is complete.", True
        nothing = destination.nothing
        if before is not None:
            nothing = f"Nothing was published: {destination.folder} holds the savepoint that it held."
    if destination.if_exists is IfTargetExists.RESUME and has_finished(destination.folder):
        nothing += " What is finished is kept, to be resumed."
    return nothing, False


def leave(claim: Claim, *, keeps: bool = False) -> None:
    """Remove all that runs have left in a target, but for its savepoint.

    Args:
        claim: Of the run that ends. Where it was taken over, only what this run wrote since is removed.
        keeps: Whether the run may be resumed.
    """
    with suppress(StateShiftError):  # what led here is to be told; the lists stay, and the next run looks at them
        if not claim.is_held():
            clear_late(claim)
        elif not keeps:
            clear(claim)
            claim.folder.delete(claim.list_name)


def give_name(folder: Folder, attempt: str, name: str) -> None:
    """Give a finished file its name in the savepoint, unless the target was lost to another run.

    Raises:
        MigrationFailed: It was.
    """
    if folder.run:
        Claim(folder, has_list=True).require()
    folder.rename(attempt, name)


def _digest(folder: Folder) -> FileDigest | None:
    return FileDigest.of(folder.read(METADATA)) if folder.exists(METADATA) else None


def _tell(error: BaseException, written: str) -> None:
    """Let an error that ended a run say what was written."""
    if isinstance(error, StateShiftError):
        error.written = written
    elif isinstance(error, KeyboardInterrupt):
        error.add_note(written)


def held_bytes(folder: Folder) -> int:
    """Bytes in a target that a run clears first, or goes on with: they are no loss to its room.

    A savepoint that is replaced is not among them: until the new one is complete there is room for both.
    """
    if not folder.exists():
        return 0
    return sum(folder.size(name) for name in Contents.of(folder).listed)


def clean(folder: Folder) -> tuple[str, ...]:
    """Remove what a run that died has left in its target; give the names.

    A run may have died between publishing and clearing up: beside a savepoint, what only runs look at is removed, and
    files of a savepoint that it had replaced.

    Raises:
        TargetExists: There is nothing but a savepoint, or there are files of somebody else, or a run is at work there;
            nothing is removed.
    """
    if not folder.exists():
        return ()
    found = Contents.of(folder)
    if not found.savepoint:
        found.refuse_foreign(folder)
    elif not found.listed and not found.lists:
        found.refuse_earlier(folder)
        raise TargetExists(
            f"there is a savepoint in {folder.place}, and nothing that a run has left beside it",
            advice="if nobody needs the savepoint, delete its folder; that is not done here",
            written="Nothing was removed.",
        )
    before = set(folder.names())
    with claimed(folder) as claim:
        removed = clear(attrs.evolve(claim, taken=tuple((run, True) for run, _ in claim.taken)))
        gone = before - set(folder.names())
        renamed = set(filter(NEXT_LINEAGE.fullmatch, gone)) - set(removed)
        return tuple(sorted(gone - renamed))


def stream_bytes(folder: Folder, names: Container[str]) -> int:
    """Bytes of the streams of these names in the savepoint that is there."""
    streams = read_metadata(folder.read(METADATA)).streams
    return sum(
        stream.size
        for stream in streams
        if (isinstance(stream, InlineHandle) and stream.name in names)
        or (isinstance(stream, RelativeFileHandle) and stream.path in names)
    )


def check_target(folder: Folder, if_exists: IfTargetExists = IfTargetExists.FAIL) -> None:
    """Refuse a target that is taken; nothing is changed.

    Raises:
        TargetExists: There is a savepoint (unless it is to be replaced), or there are files of somebody else.
        CorruptSavepoint: The savepoint that is there cannot be read, so its files are not known.
    """
    if not folder.exists():
        return
    if if_exists is not IfTargetExists.REPLACE and folder.exists(METADATA):
        raise TargetExists(
            f"there is a savepoint in {folder.place} already",
            advice="choose a new folder; a migration can replace it (--target-exists replace)",
            written=_NOTHING_WRITTEN,
        )
    Contents.of(folder).refuse_foreign(folder)


def store_stream(folder: Folder, name: str, data: bytes) -> tuple[StreamHandle, dict[str, FileDigest]]:
    """Keep a stream inside `_metadata` where it is small, else write it; give its handle and the file's digest."""
    if len(data) <= INLINE_BYTES:
        return InlineHandle(name, data), {}
    folder.write(name, data)
    return RelativeFileHandle(name, len(data)), {name: FileDigest.of(data)}


def publish(folder: Folder, metadata: SavepointMetadata, lineage: Lineage) -> Lineage:
    """Write the lineage, then `_metadata` under its name: from then on there is a savepoint.

    Where another savepoint is there, that one write exchanges the two; then the files of the other one are removed.

    Args:
        folder: Where all files of the savepoint already are.
        metadata: What they are.
        lineage: With the digests of those files; that of `_metadata` is added.
    """
    data = write_metadata(metadata)
    complete = attrs.evolve(lineage, files={**lineage.files, METADATA: FileDigest.of(data)})
    replaced = files_there(folder)
    if replaced:
        write_replaced(folder, data, replaced - {METADATA, LINEAGE})
    folder.write(f"_stateshift-{folder.run}.json" if replaced else LINEAGE, complete.to_json())
    folder.sync()  # the names of all files before that of `_metadata`, which names them
    folder.write(METADATA, data)
    folder.sync()
    complete_replacement(folder)
    return complete


def now() -> str:
    """The time in UTC, as lineages tell it."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def source_facts(place: str, metadata: bytes) -> dict[str, Any]:
    """Name a source savepoint so that it can be known again."""
    return {"place": place, "metadata_sha256": hashlib.sha256(metadata).hexdigest()}
