"""A savepoint of a streaming query, written from its state directory while the query runs or stands still."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compat.edits import Edits
from ...compat.lazy_tables import state_in
from ...compat.plan import SavepointFormatType
from ...serializers.errors import DeclarationError
from ...state.directory.committed_state import committed_batch
from ...state.directory.directory import StateDirectory
from ...state.directory.holds import held
from ...state.formats.flink.roots import folder_at
from ...state.migration.options import MigrationOptions
from ...state.savepoint.reader import Savepoint
from ..migrate import migrate

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from ...state.formats.flink.roots import AllowedRoot
    from ...state.migration.report import MigrationReport
    from ...state.progress import Progress


def take_savepoint(
    state_dir: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    session: SparkSession | None = None,
    master: str | None = None,
    py_files: Iterable[str | Path] = (),
    announce: Callable[[MigrationReport], None] | None = None,
    progress: Callable[[Progress], None] | None = None,
    allow_roots: Iterable[AllowedRoot] = (),
    drop: tuple[str, ...] = (),
) -> MigrationReport:
    """Write the state of a streaming query after its last committed batch as a canonical savepoint, which Flink reads.

    All operators are cut at that batch; its source offsets stand in the savepoint's `_stateshift.json`. The query may
    run meanwhile: the files are held against deletion.

    Args:
        state_dir: The state directory of the query.
        target: A folder that is empty or does not exist.
        session: The Spark session to use; by default little state needs none. As in `migrate`, like all that follow.
        master: The master of Spark.
        py_files: Further files for Spark's workers.
        announce: A function that is called once before anything is written.
        progress: A function that is called regularly with the progress so far.
        allow_roots: Further folders that may contain files of the state, such as those of a savepoint it began with.
        drop: States to leave out, as in `Edits`.

    Raises:
        SavepointNotFound: There is no state directory, or its query has no committed batch; or only Spark knows which
            of two attempts was committed.
        DeclarationError: Some slots have not run since the last change of the query; or state is migrated lazily.
        StateShiftError: As in `migrate`.
    """
    roots = tuple(allow_roots)
    directory = StateDirectory.open(folder_at(state_dir, roots))
    names = [state.name for one in Savepoint.open(state_dir, allow_roots=roots).operators for state in one.states]
    if lazy := sorted({state_in(name) for name in names if state_in(name) != name}):
        raise DeclarationError.before_writing(
            f"the lazy migration of {', '.join(map(repr, lazy))} is not over, and Flink reads one form of a state only",
            advice="`stateshift inspect` says how much is left; when nothing is, start the query once more. Or start it"
            ' with on_incompatible="migrate", which finishes the migration',
        )
    with held(directory.folder, committed_batch(directory)):
        return migrate(
            state_dir,
            target,
            options=MigrationOptions(edits=Edits(drop=drop), format=SavepointFormatType.CANONICAL),
            session=session,
            master=master,
            py_files=py_files,
            announce=announce,
            progress=progress,
            allow_roots=roots,
        )
