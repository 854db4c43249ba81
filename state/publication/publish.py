"""Publication of a new savepoint: names of files, inline streams, and `_metadata` last.

A folder without `_metadata` is not a savepoint, so everything before its rename may fail and be repeated. If a
savepoint is replaced, the files of the new one are beside those of the old one until that rename exchanges the two.
"""

from __future__ import annotations

import datetime as dt
import enum
import hashlib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import StateShiftError, StorageFailed, TargetExists
from ...serializers.ways_out import Option, WayOut
from ...serializers.wording import shell_word
from ..formats.flink.handles import AbsoluteFileHandle, InlineHandle, RelativeFileHandle
from ..formats.flink.metadata import METADATA, SavepointMetadata, read_metadata, write_metadata
from ..formats.flink.roots import uri_of
from .lineage import LINEAGE, NEXT_LINEAGE, FileDigest, Lineage
from .runs import (
    Contents,
    announce,
    clear,
    clear_late,
    complete_replacement,
    files_there,
    has_claim_or_list,
    has_finished,
    stream_of,
    write_replaced,
)
from .target_lock import Claim, claimed

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterator

    from ..formats.flink.handles import StreamHandle
    from ..storage.files import Folder
    from .source_guard import Read

INLINE_BYTES = 20 << 10
"""Streams of up to this size are stored inside `_metadata`, as Flink does by default (format notes 2)."""

_UNKNOWN = (
    "It is unknown whether the new savepoint was published, since its store does not answer; if its _metadata is "
    "there, it is complete."
)


def stream_name(operator_id: str, part: str, subtask: int) -> str:
    """Return the name of a stream's file, which is the same in a repeated run (rule RUN-5).

    Args:
        operator_id: The operator's id in 32 hexadecimal digits.
        part: keyed, operator, raw-keyed, raw-operator or coordinator; rows for rows that become keyed state.
        subtask: The index of the subtask, from 0.
    """
    return f"{operator_id}-{part}-{subtask}"


def part_name(stream: str, part: str) -> str:
    """Return the name of a file of a stream's database: `ID-keyed-manifest-0` of `ID-keyed-0`."""
    head, _, subtask = stream.rpartition("-")
    return f"{head}-{part}-{subtask}"


def table_name(stream: str, number: int) -> str:
    """Return the name of a file with entries of a stream's database."""
    return f"{part_name(stream, 'table')}-{number:06d}"


_REPLACE = WayOut.telling("replace it:", Option.TARGET_EXISTS, "replace")


class IfTargetExists(enum.StrEnum):
    """The action of a run if its target is not empty.

    FAIL: refuse a savepoint or foreign files; files of a dead run are removed, and its work is repeated. RESUME: keep
    the finished work of a dead run with the same source, plan and tasks, even if it is all of it. REPLACE: exchange the
    existing savepoint for the new one, once that is complete.
    """

    FAIL = "fail"
    RESUME = "resume"
    REPLACE = "replace"


@attrs.frozen
class Destination:
    """The target of a run, and the options for it.

    Attributes:
        folder: The target folder.
        names: The names of the files that the run may write (`runs.names_of`).
        reads: The places that the run reads, and must not write to.
        if_exists: The action if the target is not empty.
        nothing: The text on what was written, for errors before publication.
    """

    folder: Folder
    names: Collection[str] = ()
    reads: tuple[Read, ...] = ()
    if_exists: IfTargetExists = IfTargetExists.FAIL
    nothing: str = "Nothing was published: the target has no _metadata."


def prepare_target(claim: Claim, names: Collection[str], if_exists: IfTargetExists = IfTargetExists.FAIL) -> Claim:
    """Remove the files of dead runs, and write the list of the files that this run may write; return the claim with it.

    Args:
        claim: The run's claim of the target.
        names: The names of the files that the run may write.
        if_exists: The action if the target is not empty.

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
    """Claim and create a target; if the `with` block fails, remove the new files, and add the outcome to the error.

    A run that may be resumed keeps its finished work.

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
    """Return the state of a failed run's target in words, and whether the savepoint was published nevertheless.

    Args:
        destination: The target of the run.
        before: The digest of the `_metadata` that existed before the run.
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
            nothing = f"Nothing was published: {destination.folder} still holds its previous savepoint."
    if destination.if_exists is IfTargetExists.RESUME and has_finished(destination.folder):
        nothing += " Finished work is kept, to be resumed."
    return nothing, False


def leave(claim: Claim, *, keeps: bool = False) -> None:
    """Remove all files of runs in a target, except its savepoint.

    Args:
        claim: The claim of the run that ends. If another run has taken it over, only files that this run wrote since
            are removed.
        keeps: Whether the run may be resumed.
    """
    with suppress(StateShiftError):  # the original error is reported; the lists stay, and the next run reads them
        if not claim.is_held():
            clear_late(claim)
        elif not keeps:
            clear(claim)
            claim.folder.delete(claim.list_name)


def give_name(folder: Folder, attempt: str, name: str) -> None:
    """Rename a finished file to its name in the savepoint, unless the target was lost to another run.

    Raises:
        MigrationFailed: The target was lost.
    """
    if folder.run:
        Claim(folder, has_list=True).require()
    folder.rename(attempt, name)


def _digest(folder: Folder) -> FileDigest | None:
    return FileDigest.of(folder.read(METADATA)) if folder.exists(METADATA) else None


def _tell(error: BaseException, written: str) -> None:
    """Add what was written to the error that ended a run."""
    if isinstance(error, StateShiftError):
        error.written = written
    elif isinstance(error, KeyboardInterrupt):
        error.add_note(written)


def held_bytes(folder: Folder) -> int:
    """Return the bytes in a target that a run will remove or reuse, and that count as free space for it.

    A savepoint that is replaced is not included: both need space until the new one is complete.
    """
    if not folder.exists():
        return 0
    return sum(folder.size(name) for name in Contents.of(folder).listed)


def clean(folder: Folder) -> tuple[str, ...]:
    """Remove the files that a dead run has left in its target; return their names.

    A run may have died between publication and cleanup: then the internal files of runs beside a savepoint are removed,
    and the files of a savepoint that it had replaced.

    Raises:
        TargetExists: There is only a savepoint, or there are foreign files, or a run is writing there; nothing is
            removed.
    """
    _refuse_file(folder, "name the folder in which a run was writing")
    if not folder.exists():
        return ()
    found = Contents.of(folder)
    if not found.savepoint:
        found.refuse_foreign(folder, advice="only files of runs are removed: delete the others yourself")
    elif not found.listed and not found.lists:
        found.refuse_earlier(folder)
        raise TargetExists(
            f"there is a savepoint in {folder.place}, and no run has left files next to it",
            advice="if the savepoint is no longer needed, delete its folder yourself",
            written="Nothing was removed.",
        )
    before = set(folder.names())
    with claimed(folder) as claim:
        removed = clear(attrs.evolve(claim, taken=tuple((run, True) for run, _ in claim.taken)))
        gone = before - set(folder.names())
        renamed = set(filter(NEXT_LINEAGE.fullmatch, gone)) - set(removed)
        return tuple(sorted(gone - renamed))


def stream_bytes(folder: Folder, names: Container[str]) -> int:
    """Return the bytes of the streams with these names in the savepoint in `folder`, with those of their databases."""
    streams = read_metadata(folder.read(METADATA)).streams
    return sum(stream.size for stream in streams if stream_of(_name_in(folder, stream)) in names)


def _name_in(folder: Folder, stream: StreamHandle) -> str:
    """Return the name of a stream in the savepoint in `folder`; "" of one that lies elsewhere."""
    if isinstance(stream, InlineHandle):
        return stream.name
    if isinstance(stream, AbsoluteFileHandle):
        return stream.uri.removeprefix(f"{uri_of(folder)}/")
    return stream.path if isinstance(stream, RelativeFileHandle) else ""


def check_target(folder: Folder, if_exists: IfTargetExists | None = None) -> None:
    """Refuse a target that is taken; nothing is changed.

    Args:
        folder: The target.
        if_exists: The action if it is not empty; None: the caller has no other than to refuse it.

    Raises:
        TargetExists: There is a savepoint (unless it is to be replaced), or there are foreign files, or it is a file.
        CorruptSavepoint: The existing savepoint cannot be read, so its files are not known.
    """
    _refuse_file(folder, "choose a folder that is empty or does not exist")
    if not folder.exists():
        return
    if if_exists is not IfTargetExists.REPLACE and folder.exists(METADATA):
        ways: list[str | WayOut] = ["choose a new folder"]
        if if_exists is not None:
            ways.append(_REPLACE)
        if has_claim_or_list(folder.names()):
            command = f"stateshift clean {shell_word(folder.place)}"
            ways.append(WayOut("if no run is in progress there, remove what one has left:", command=command))
        raise TargetExists.before_writing(f"there is a savepoint in {folder.place} already", advice=tuple(ways))
    Contents.of(folder).refuse_foreign(folder)


def _refuse_file(folder: Folder, advice: str) -> None:
    if folder.is_file():
        raise TargetExists.before_writing(f"the target {folder.place} is a file", advice=advice)


def publish(folder: Folder, metadata: SavepointMetadata, lineage: Lineage) -> Lineage:
    """Write the lineage, then `_metadata`, which makes the folder a savepoint; return the lineage as written.

    If there is another savepoint, the write of `_metadata` exchanges the two; then the old one's files are removed.
    The sizes of all files are compared before it, and it is read back.

    Args:
        folder: The folder with all other files of the savepoint.
        metadata: The content of `_metadata`.
        lineage: The lineage with the digests of those files; that of `_metadata` is added.

    Raises:
        TargetExists: There is another savepoint, and no claim of the folder.
        StorageFailed: A file cannot be written, or the store does not have all of them as they were written.
    """
    data = write_metadata(metadata)
    complete = attrs.evolve(lineage, files={**lineage.files, METADATA: FileDigest.of(data)})
    replaced = files_there(folder)
    if replaced and not folder.run:  # only a run that has claimed the target was asked whether it may be replaced
        check_target(folder)
    if replaced:
        write_replaced(folder, data, replaced - {METADATA, LINEAGE})
    folder.write_last(f"_stateshift-{folder.run}.json" if replaced else LINEAGE, complete.to_json())
    folder.require_sizes({name: one.size for name, one in lineage.files.items()})
    folder.sync()  # makes the names of all files durable before `_metadata`, which refers to them
    try:
        folder.write_last(METADATA, data)
    except StorageFailed:
        if not replaced:
            with suppress(StateShiftError):  # the original failure is the one to report
                folder.delete(METADATA)  # what the store has of it is no savepoint
        raise
    folder.sync()
    complete_replacement(folder)
    return complete


def now() -> str:
    """Return the current time in UTC, in the format of lineages."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def source_facts(place: str, metadata: bytes) -> dict[str, Any]:
    """Return the facts that identify a source savepoint: its place and the digest of its metadata."""
    return {"place": place, "metadata_sha256": hashlib.sha256(metadata).hexdigest()}
