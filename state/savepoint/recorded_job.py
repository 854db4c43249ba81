"""The job that wrote a savepoint, recorded beside it: from then on its bytes of PyFlink have types."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import attrs

from ...compat.gate.recording import digest
from ...serializers.errors import DeclarationError, TargetExists, ValueNotConvertible, located
from ...serializers.pyflink.contents import has_content
from ...serializers.ways_out import WayOut
from ..formats.flink.roots import folder_at
from ..publication.lineage import TYPES
from ..publication.recorded_types import read_recorded_types, write_recorded_types
from ..publication.stored_savepoint import read_stored_savepoint
from .pyflink_source import MOST_ENTRIES
from .reader import Savepoint

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from ...compat.description import JobDescription
    from ..formats.flink.roots import AllowedRoot
    from .states import SavepointState


@attrs.frozen
class RecordedJob:
    """What was recorded.

    Attributes:
        file: The file.
        states: The states whose content is known now, as operator and name.
    """

    file: str
    states: tuple[tuple[str, str], ...]


def record_job(
    place: str | os.PathLike[str],
    job: JobDescription,
    *,
    replaces: bool = False,
    allow_roots: Iterable[AllowedRoot] = (),
) -> RecordedJob:
    """Record beside a savepoint what the job that wrote it says of its types.

    The first entries of each state are read by them.

    Args:
        place: The savepoint.
        job: The job that wrote it, as it was then.
        replaces: Whether other types may have been recorded before.
        allow_roots: As of `Savepoint.open`.

    Raises:
        DeclarationError: It is another job, or an entry is of another type.
        TargetExists: Other types are recorded.
    """
    folder = folder_at(str(place), allow_roots)
    with located(savepoint=folder.place):
        savepoint = Savepoint.of(read_stored_savepoint(folder))
        told = savepoint.told_by(job)
        states = sorted(
            (operator.title, state.name)
            for operator in told.operators
            for state in operator.states
            if has_content(state.description.value.snapshot) and _is_read(state)
        )
        if not states:
            raise DeclarationError.before_writing(
                f"{job.origin} says nothing of the savepoint that this does not say itself",
                advice="record the types of bytes of PyFlink, which are nowhere else",
            )
        of_savepoint = savepoint.metadata_sha256
        if folder.exists(TYPES) and not replaces:
            if digest(read_recorded_types(folder, of_savepoint)) != digest(job):
                raise TargetExists(
                    f"other types are recorded in {TYPES}",
                    advice=WayOut(
                        "if they are wrong, replace them:", command="stateshift record JOB SAVEPOINT --force"
                    ),
                )
        else:
            write_recorded_types(folder, job, of_savepoint)
    return RecordedJob(str(folder.folder(TYPES)), tuple(states))


def _is_read(state: SavepointState) -> bool:
    """Read the first entries of a state; an error names the entry that is of another type."""
    entries = state.read_entries() if state.kind.is_keyed else (one for each in state.each_element() for one in each)
    try:
        for _ in islice(entries, MOST_ENTRIES):
            pass
    except ValueNotConvertible as error:
        told = DeclarationError.before_writing(
            f"the job is not the one that wrote the state: {error.what}", advice=error.advice
        )
        told.where.update(error.where)
        raise told from error
    return True
