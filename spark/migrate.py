"""Migration of a savepoint: each entry is read with the old serializer and written with the new one.

State is migrated in this process if that takes no longer than the start of Spark; larger state is migrated by a Spark
job. Spark only schedules. Each task owns a key-group range of one operator, reads its byte ranges and writes its own
file; no entry passes through the JVM, unless keys are rewritten. The driver publishes by writing
`_metadata` last. A run that dies leaves the source untouched and no `_metadata` in the target; running again finishes
it. Source: DESIGN, section 4; rules, section 11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..state.migration.migration import DEFAULTS, migrate_savepoint
from ..state.publication.publish import IfTargetExists
from ..state.savepoint.reader import Savepoint
from .runner import SparkRunner

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from ..compat.description import JobDescription
    from ..state.formats.flink.roots import AllowedRoot
    from ..state.job import Job
    from ..state.migration.options import MigrationOptions
    from ..state.migration.plan_file import PlanFile
    from ..state.migration.report import MigrationReport
    from ..state.progress import Progress


def migrate(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    job: Job | JobDescription | None = None,
    options: MigrationOptions = DEFAULTS,
    *,
    session: SparkSession | None = None,
    master: str | None = None,
    py_files: Iterable[str | Path] = (),
    dry_run: bool = False,
    expected: PlanFile | None = None,
    target_exists: IfTargetExists = IfTargetExists.FAIL,
    announce: Callable[[MigrationReport], None] | None = None,
    progress: Callable[[Progress], None] | None = None,
    allow_roots: Iterable[AllowedRoot] = (),
) -> MigrationReport:
    """Write a new savepoint in `target`, with the state of `source` under the types of `job`.

    Args:
        source: A savepoint; it is only read (rule RUN-1).
        target: A folder that is empty or does not exist. Leftovers of a dead run are removed.
        job: The new types. Its modules are sent to the workers by value. None: the types stay, and something else
            changes, such as the parallelism.
        options: Changes other than new types.
        session: The Spark session to use. It may belong to Spark Connect, unless keys are rewritten.
        master: The master of Spark, used by a session that already runs in this process, else by one that ends with the
            call.
        py_files: Further `.py`, `.zip`, `.egg` or `.whl` files for Spark's workers. Without session, master and
            py_files, work that this process finishes before Spark would, including its start, is done here, without
            Spark; for other work the master is `local[*,4]`, which tries a failed task up to four times on all cores.
        dry_run: Check, plan, and convert one entry of each state, but write nothing (rule READ-5).
        expected: A plan made before; if the run would differ from it, it is refused. Without a job, or options, those
            of the plan are used.
        target_exists: What to do if the target is not empty; see `IfTargetExists`.
        announce: A function that is called once before anything is written, with the planned work and its expected
            time.
        progress: A function that is called regularly with the progress so far.
        allow_roots: Further folders that may contain files of the source, or of a plan's probe; as in `Savepoint.open`.

    Returns:
        A report of what was done, or would be.

    Raises:
        IncompatibleState: The check refuses; the error lists every state and finding.
        PlanChanged: The run would differ from `expected`; the error lists every difference.
        StateNotFound, DeclarationError: An edit names something that does not exist, or a name that is taken; or an
            operator cannot have so many subtasks.
        TargetExists: The target is not empty, or another run is writing to it.
        ValueNotConvertible: A value does not fit its new type; the error has operator, state, key, path and rule.
        UntrustedPlace: Files of the source are in other folders; the error lists all folders to allow.
        CorruptSavepoint: The source is damaged.
        NoSpaceLeft: The target has too little space, or was filled up during the run.
        MigrationFailed: The written data differs from the data that was read, or the engine failed.
    """
    savepoint = Savepoint.open(source, allow_roots=allow_roots)
    return migrate_savepoint(
        savepoint,
        target,
        job,
        options,
        spark=SparkRunner(session, master, tuple(py_files)),
        dry_run=dry_run,
        expected=expected,
        target_exists=target_exists,
        announce=announce,
        progress=progress,
    )
