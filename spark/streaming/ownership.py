"""Ties a state directory to one checkpoint: each names the other, and neither goes on with another one.

owned(folder, checkpoint)           what both say: the state directory, or None for a new query; or the refusal
settled(directory, folder, …)       when nothing else is refused: both name the other as it is now
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import DeclarationError, UntrustedPlace
from ...state.directory.directory import STREAM_FILE, StateDirectory
from ...state.formats.flink.roots import stored_place
from ...state.formats.spark.commit_log import CheckpointNote, last_planned, read_note, write_note
from ...state.key_groups import check_parallelism

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from ...state.storage.files import Folder
    from .job import StreamJob


def owned(folder: Folder, checkpoint: Folder) -> StateDirectory | None:
    """Return the state directory that a checkpoint names, with its present place; None: the query is new.

    Args:
        folder: The folder of the state.
        checkpoint: The checkpoint.

    Raises:
        DeclarationError: They do not belong to each other.
    """
    place, note = checkpoint.place, read_note(checkpoint)
    if not folder.exists(STREAM_FILE):
        if note is not None or last_planned(checkpoint) is not None:
            where = f"; its state was in {note.state_dir}" if note is not None else ""
            raise DeclarationError.before_writing(
                f"the checkpoint {place} has batches, but there is no state in {folder}{where}",
                advice="pass the state directory that belongs to the checkpoint, or a new checkpoint",
            )
        return None
    directory = StateDirectory.open(folder)
    if note is None and directory.last_epoch is None:  # the first start ended before it wrote the note
        return attrs.evolve(directory, checkpoint=place)
    if note is None or note.id != directory.id:
        has = "has the state of another query" if note is not None else "has no state of a query like this"
        raise DeclarationError.before_writing(
            f"the state in {folder} belongs to the checkpoint {directory.checkpoint}, and {place} {has}",
            advice="pass that checkpoint; or start from a savepoint of it, with a new state directory",
        )
    if note.state_dir != folder.place and _has_id(note.state_dir, directory.id, (folder, checkpoint)):
        raise DeclarationError.before_writing(
            f"the state in {folder} is a copy of that in {note.state_dir}, to which {place} belongs",
            advice="pass that one; or start a new query from a savepoint, in another state directory",
        )
    if note.checkpoint != place and _has_note(note.checkpoint, (checkpoint, folder)):
        raise DeclarationError.before_writing(
            f"the checkpoint {place} is a copy of {note.checkpoint}, which the state in {folder} is of",
            advice="two queries cannot share state: start one from a savepoint, in another state directory",
        )
    return attrs.evolve(directory, checkpoint=place)


def require_key_groups(directory: StateDirectory | None, job: StreamJob, wanted: int) -> int:
    """Return the number of key groups of a query.

    Args:
        directory: Its state directory; None: it is new.
        job: The job.
        wanted: The number of a query that begins.

    Raises:
        DeclarationError: The state has another number than the job asks for, or fewer than there are slots.
    """
    if directory is None or directory.last_epoch is None:  # nothing is stored yet
        check_parallelism(job.slots or 1, wanted)
        return wanted
    check_parallelism(job.slots or 1, directory.max_parallelism)
    if job.max_parallelism not in {None, directory.max_parallelism}:
        raise DeclarationError.before_writing(
            f"the state has {directory.max_parallelism} key groups, and the job {job.max_parallelism}",
            advice=f"pass max_parallelism={directory.max_parallelism}",
        )
    return directory.max_parallelism


def settled(directory: StateDirectory | None, folder: Folder, checkpoint: Folder, key_groups: int) -> StateDirectory:
    """Return the state directory of a starting query, after it and the checkpoint have recorded each other's place.

    Args:
        directory: As `owned` returned it; None: it is created.
        folder: The folder of the state.
        checkpoint: The checkpoint.
        key_groups: The number of key groups.
    """
    if directory is None:
        directory = StateDirectory.create(folder, checkpoint.place, key_groups)
    else:
        directory = attrs.evolve(directory, max_parallelism=key_groups)
    note = CheckpointNote(directory.id, folder.place, checkpoint.place)
    if read_note(checkpoint) != note or StateDirectory.open(folder) != directory:
        directory.write_facts()
        write_note(checkpoint, note)
    return directory


def _has_id(place: str, directory_id: str, typed: tuple[Folder, Folder]) -> bool:
    """Whether a state directory still lies at its stored place; a place in another store is not contacted."""
    with suppress(UntrustedPlace):
        folder = stored_place(place, *typed)
        return folder.exists(STREAM_FILE) and StateDirectory.open(folder).id == directory_id
    return False


def _has_note(place: str, typed: tuple[Folder, Folder]) -> bool:
    """Whether the checkpoint of a query still lies at its stored place; a place in another store is not contacted."""
    with suppress(UntrustedPlace):
        return read_note(stored_place(place, *typed)) is not None
    return False


_RELEASES: dict[str, tuple[StreamingQuery, threading.Thread]] = {}
"""The last query of this process on each state directory, and the thread that releases the directory after it."""


def await_release(place: str) -> None:
    """Wait until the last query of this process on a state directory has released it, if that query has ended."""
    if place in _RELEASES:
        query, release = _RELEASES[place]
        with suppress(Exception):  # Java is gone, and the query with it
            if query.isActive:
                return
        release.join()


def release_at_end(place: str, query: StreamingQuery, claims: ExitStack) -> None:
    """Release a state directory when its query has ended, however it did."""
    release = threading.Thread(target=_released, args=(query, claims), daemon=True)
    release.start()
    _RELEASES[place] = query, release


def _released(query: StreamingQuery, claims: ExitStack) -> None:
    with claims, suppress(Exception):  # the caller of the query learns how it ended
        query.awaitTermination()
