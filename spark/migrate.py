"""Migration of a savepoint: each entry is read with the old serializer and written with the new one.

State is migrated in this process if that takes no longer than the start of Spark; larger state is migrated by a Spark
job. Spark only schedules. Each task owns a key-group range of one operator, reads its byte ranges and writes its own
file; no entry passes through the JVM, unless keys are rewritten (`repartition`). The driver publishes by writing
`_metadata` last. A run that dies leaves the source untouched and no `_metadata` in the target; running again finishes
it. Source: DESIGN, section 4; rules, section 11.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import attrs

from ..compat.repartition import Repartition
from ..serializers.errors import located
from ..state.formats.flink.database_files import databases_released
from ..state.formats.flink.missing_files import require_files
from ..state.formats.flink.unchanged import SourceFiles
from ..state.migration.engine import Engine
from ..state.migration.estimate import estimate
from ..state.migration.in_process import carry_out_here
from ..state.migration.journal import SUFFIX
from ..state.migration.options import MigrationOptions
from ..state.migration.planning import prepare_as_planned
from ..state.migration.progress import Stopwatch
from ..state.migration.rekey_task import RekeyTask
from ..state.migration.report import MigrationReport
from ..state.migration.run import name_of, publish_result, try_out
from ..state.migration.scan import failures_counted
from ..state.progress import Progress
from ..state.publication.publish import (
    Destination,
    IfTargetExists,
    all_or_nothing,
    check_target,
    held_bytes,
    leave,
    stream_bytes,
)
from ..state.publication.runs import clear_unfinished, files_there, final_name, free_generation, names_of
from ..state.publication.source_guard import Read, refuse_by_place
from ..state.publication.target_lock import claimed
from ..state.savepoint.reader import Savepoint
from ..state.storage.files import Folder
from ..state.transcode.choice import ExecutorName
from . import daemon
from .connect import is_connect
from .interrupts import interrupts_kept
from .migration_tasks import carry_out
from .sessions import DEFAULT_MASTER, JAVA_SCHEDULES, own_driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import SparkSession

    from ..compat.description import JobDescription
    from ..state.formats.flink.roots import AllowedRoot
    from ..state.job import Job
    from ..state.migration.estimate import Estimate
    from ..state.migration.journal import Journal, Redone
    from ..state.migration.plan_file import PlanFile
    from ..state.migration.preparation import Preparation
    from ..state.migration.tasks import Task, TaskResult
    from ..state.publication.lineage import Lineage
    from ..state.publication.target_lock import Claim
    from .sessions import Driver

NOTHING_PUBLISHED = "Nothing was published: the target has no _metadata. Nothing was written to the source."
DEFAULTS = MigrationOptions()


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
    started = time.monotonic()
    stopwatch = Stopwatch(progress or (lambda _: None))
    stopwatch(Progress("planning", 0, 1))
    folder = Folder.at(target)
    is_resumed = target_exists is IfTargetExists.RESUME
    savepoint, begun = Savepoint.open(source, allow_roots=allow_roots), folder if is_resumed else None
    files = SourceFiles.of(savepoint.folder, savepoint.metadata)
    reads = (Read.of(savepoint.folder, savepoint.metadata),)
    refuse_by_place(folder, reads)
    with files.watched():
        with located(savepoint=savepoint.place):
            require_files(savepoint.metadata.streams, savepoint.folder, files.version_of)
        prepared = prepare_as_planned(savepoint, job, options, expected, resumed=begun)
    journal = prepared.journal(folder)
    if is_resumed:
        published = journal.published(prepared.savepoint, prepared.plan)
        if published is not None:
            return _tidied(prepared, published, journal, started, dry_run=dry_run)
    check_target(folder, target_exists)
    held = held_bytes(folder)
    cores, py_files = _cores(session, master or DEFAULT_MASTER), tuple(py_files)
    with_spark = session is not None or master is not None or bool(py_files)
    source_folder = prepared.savepoint.folder
    needed = estimate(prepared.tasks, source_folder, folder, cores, held_bytes=held, with_spark=with_spark)
    needed = attrs.evolve(needed, replaced_bytes=sum(map(folder.size, files_there(folder))))
    report = attrs.evolve(_planned(prepared, folder), estimate=needed)
    needed.require_space(folder)
    if dry_run:
        with failures_counted(prepared.savepoint, prepared.plan):
            tried = try_out(prepared.savepoint, prepared.plan)
        return attrs.evolve(report, tried=tried, seconds=time.monotonic() - started)
    if announce is not None:
        announce(report)
    generation = journal.generation
    if target_exists is IfTargetExists.REPLACE:
        generation = free_generation(generation, files_there(folder))
    operator_ids = [operator.operator_id.hex() for operator in savepoint.metadata.operators]
    where = Destination(folder, names_of(operator_ids, generation), reads, target_exists, NOTHING_PUBLISHED)
    with (
        failures_counted(prepared.savepoint, prepared.plan),
        databases_released(savepoint.metadata, savepoint.folder),
        all_or_nothing(where) as claim,
        files.watched(),
        ExitStack() as until_published,
    ):
        results, resumed, redone, lineage = _run(
            prepared,
            attrs.evolve(journal, folder=claim.folder),
            claim,
            files,
            generation,
            needed,
            session=lambda: session or until_published.enter_context(_own_driver(master, needed, prepared.tasks)),
            py_files=py_files,
            tell=stopwatch,
        )
        phases = stopwatch.stopped()
    is_slow = needed.lacks_numba if needed.engine is Engine.PROCESS else any(result.lacks_numba for result in results)
    foreign = sum(result.foreign for result in results)
    report = attrs.evolve(report, resumed=resumed, redone=redone, lacks_numba=is_slow, foreign_entries=foreign)
    size = sum(result.stored.size for result in results)
    return report.finished(lineage, size, time.monotonic() - started, phases)


def repartition(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    job: Job | JobDescription | None = None,
    *,
    max_parallelism: int | Mapping[str, int] | None = None,
    merge: Mapping[str, Callable[[Any, Any], Any]] | None = None,
    options: MigrationOptions = DEFAULTS,
    session: SparkSession | None = None,
    master: str | None = None,
    py_files: Iterable[str | Path] = (),
    dry_run: bool = False,
    target_exists: IfTargetExists = IfTargetExists.FAIL,
    progress: Callable[[Progress], None] | None = None,
    allow_roots: Iterable[AllowedRoot] = (),
) -> MigrationReport:
    """Migrate a savepoint, allowing keys to be rewritten: call `migrate` with a `Repartition` among its options.

    Args:
        source: A savepoint; it is only read.
        target: A folder that is empty or does not exist.
        job: The new types, including those of keys. None: the types stay, and only the number of key groups changes.
        max_parallelism: The new number of key groups; see `Repartition`.
        merge: The merge functions for the values of two keys that become the same key; see `Repartition`.
        options: Other options; a `Repartition` among them is replaced.
        session: As in `migrate`, like all that follow; it must not belong to Spark Connect.
        master: The master of Spark.
        py_files: Further files for Spark's workers.
        dry_run: Whether to write nothing.
        target_exists: What to do if the target is not empty.
        progress: A function that is called regularly with the progress so far.
        allow_roots: Further folders that may contain files of the source.

    Raises:
        StateShiftError: As in `migrate`.
    """
    wanted = Repartition(max_parallelism=max_parallelism, merge=merge or {})
    return migrate(
        source,
        target,
        job,
        attrs.evolve(options, repartition=wanted),
        session=session,
        master=master,
        py_files=py_files,
        dry_run=dry_run,
        target_exists=target_exists,
        progress=progress,
        allow_roots=allow_roots,
    )


def _run(
    prepared: Preparation,
    journal: Journal,
    claim: Claim,
    source: SourceFiles,
    generation: str,
    needed: Estimate,
    *,
    session: Callable[[], Driver],
    py_files: tuple[str | Path, ...],
    tell: Callable[[Progress], None],
) -> tuple[list[TaskResult], int, tuple[Redone, ...], Lineage]:
    """Run the remaining tasks, and publish.

    Returns:
        The results, the number of tasks finished before, those that were finished and are run again, and the lineage.
    """
    savepoint, folder = prepared.savepoint, journal.folder
    if journal.is_begun():
        tell(Progress("checking", 0, 1))
    finished, redone = journal.take_up()
    clear_unfinished(claim, _files_of(finished.values(), generation))
    left = [task for task in prepared.tasks if name_of(task) not in finished]
    results = list(finished.values())
    if needed.engine is Engine.PROCESS:
        results += carry_out_here(left, savepoint.folder, journal, needed.executor, tell)
    else:
        with interrupts_kept():
            results += _on_spark(left, savepoint.folder, journal, session=session, py_files=py_files, tell=tell)
    tell(Progress("publishing", 0, 1))
    claim.require()
    source.require_unchanged()
    lineage = publish_result(savepoint, prepared.plan, prepared.tasks, results, folder, generation=generation)
    return results, len(finished), redone, lineage


def _on_spark(
    tasks: list[Task],
    source: Folder,
    journal: Journal,
    *,
    session: Callable[[], Driver],
    py_files: tuple[str | Path, ...],
    tell: Callable[[Progress], None],
) -> list[TaskResult]:
    """Run tasks on Spark: those that rewrite keys with a shuffle, all others one by one."""
    rekeyed = [task for task in tasks if isinstance(task, RekeyTask)]
    others = [task for task in tasks if not isinstance(task, RekeyTask)]
    results: list[TaskResult] = []
    if others:
        results += carry_out(others, source, journal, session=session, py_files=py_files, progress=tell)
    if rekeyed:
        from .repartition import write_rekeyed

        results += write_rekeyed(rekeyed, source, journal, session=session, py_files=py_files, progress=tell)
    return results


def _planned(prepared: Preparation, target: Folder) -> MigrationReport:
    return MigrationReport.planned(prepared.savepoint, prepared.plan, target.place, prepared.tasks)


def _tidied(
    prepared: Preparation, lineage: Lineage, journal: Journal, started: float, *, dry_run: bool
) -> MigrationReport:
    """Finish a run that died between publishing and cleanup: all of its streams were finished before."""
    names = prepared.stream_names
    report = attrs.evolve(_planned(prepared, journal.folder), resumed=len(names))
    if dry_run:
        return report
    with claimed(journal.folder) as claim:
        leave(claim)
    streams = {*names, *(final_name(name, journal.generation) for name in names)}
    return report.finished(lineage, stream_bytes(journal.folder, streams), time.monotonic() - started, {})


def _own_driver(master: str | None, needed: Estimate, tasks: Iterable[Task]) -> AbstractContextManager[Driver]:
    """Start Spark for a run; if machine code does the work, it is loaded before workers are forked."""
    shuffles = any(isinstance(task, RekeyTask) for task in tasks)
    forked = daemon.SETTINGS if needed.executor is ExecutorName.NUMBA else {}
    return own_driver(master or DEFAULT_MASTER, forked | ({} if shuffles else JAVA_SCHEDULES))


def _cores(session: SparkSession | None, master: str) -> int:
    """Return the number of tasks that run at a time; for a cluster not yet contacted, the number of local cores."""
    if session is not None and not is_connect(session):
        return int(session.sparkContext.defaultParallelism)
    given = re.match(r"local\[(\d+)", master)
    return int(given[1]) if given else 1 if master == "local" else os.cpu_count() or 1


def _files_of(results: Iterable[TaskResult], generation: str) -> set[str]:
    """Return the names of the files of finished tasks, and of their notes."""
    files = [file for result in results for file in result.files]
    notes = {result.stored.name + SUFFIX for result in results}
    return notes | {file.attempt or final_name(file.name, generation) for file in files}
