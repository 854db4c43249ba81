"""A migration from its preparation to its publication, whatever runs its tasks.

The source is only read. Each task writes its own file; `_metadata` is written last. A run that dies leaves the source
untouched and no `_metadata` in the target; running again finishes it. Source: DESIGN, section 4; rules, section 11.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from ...serializers.errors import located
from ..formats.flink.database_files import databases_released
from ..formats.flink.missing_files import require_files
from ..formats.flink.unchanged import SourceFiles
from ..progress import Progress, Stopwatch
from ..publication.publish import (
    Destination,
    IfTargetExists,
    all_or_nothing,
    check_target,
    held_bytes,
    leave,
    stream_bytes,
)
from ..publication.runs import clear_unfinished, files_there, final_name, free_generation, names_of
from ..publication.source_guard import Read, refuse_by_place
from ..publication.target_lock import claimed
from ..runner import InProcess, Runner
from ..storage.files import Folder
from .engine import Engine
from .estimate import estimate
from .journal import SUFFIX
from .options import MigrationOptions
from .planning import planned_as, prepare_as_planned
from .report import MigrationReport
from .run import name_of, publish_result, try_out
from .run_task import works_of
from .scan import failures_counted

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from ...compat.description import JobDescription
    from ..job import Job
    from ..publication.lineage import Lineage
    from ..publication.target_lock import Claim
    from ..savepoint.reader import Savepoint
    from .estimate import Estimate
    from .journal import Journal, Redone
    from .plan_file import PlanFile
    from .preparation import Preparation
    from .tasks import TaskResult

NOTHING_PUBLISHED = "Nothing was published: the target has no _metadata. Nothing was written to the source."
DEFAULTS = MigrationOptions()


class TaskRunner(Runner, AbstractContextManager[Any], Protocol):
    """Runs works elsewhere than in this process; as a context it is open until what they do is published."""

    @property
    def cores(self) -> int:
        """The number of tasks that it would run at a time, as far as that is known before it is started."""

    @property
    def is_asked(self) -> bool:
        """Whether it is to be used however little there is to do."""


def migrate_savepoint(
    savepoint: Savepoint,
    target: str | os.PathLike[str],
    job: Job | JobDescription | None = None,
    options: MigrationOptions = DEFAULTS,
    *,
    spark: TaskRunner | None = None,
    dry_run: bool = False,
    expected: PlanFile | None = None,
    target_exists: IfTargetExists = IfTargetExists.FAIL,
    announce: Callable[[MigrationReport], None] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> MigrationReport:
    """Write a new savepoint in `target`, with the state of `savepoint` under the types of `job`.

    Args:
        savepoint: The source.
        target: A folder, as in `stateshift.spark.migrate`, like all other arguments.
        job: The new types, or None.
        options: Changes other than new types.
        spark: Runs the tasks where it is asked for, or finishes sooner than this process; None: this process does.
        dry_run: Whether nothing is written.
        expected: A plan made before.
        target_exists: What to do if the target is not empty.
        announce: Called once before anything is written.
        progress: Called regularly with the progress so far.

    Raises:
        StateShiftError: As in `stateshift.spark.migrate`.
    """
    started = time.monotonic()
    stopwatch = Stopwatch(progress or (lambda _: None))
    stopwatch(Progress("planning", 0, 1))
    folder = Folder.at(target)
    is_resumed = target_exists is IfTargetExists.RESUME
    begun = folder if is_resumed else None
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
            tidied = _tidied(prepared, published, journal, started, dry_run=dry_run)
            return attrs.evolve(tidied, plan_file=planned_as(prepared, options, expected)) if dry_run else tidied
    check_target(folder, target_exists)
    held = held_bytes(folder)
    source_folder, cores = prepared.savepoint.folder, 0 if spark is None else spark.cores
    is_asked = spark is not None and spark.is_asked
    needed = estimate(prepared.tasks, source_folder, folder, cores, held_bytes=held, with_spark=is_asked)
    needed = attrs.evolve(needed, replaced_bytes=sum(map(folder.size, files_there(folder))))
    report = attrs.evolve(_planned(prepared, folder), estimate=needed)
    needed.require_space(folder)
    if dry_run:
        with failures_counted(prepared.savepoint, prepared.plan):
            tried = try_out(prepared.savepoint, prepared.plan)
        planned = planned_as(prepared, options, expected)
        return attrs.evolve(report, tried=tried, plan_file=planned, seconds=time.monotonic() - started)
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
        nullcontext() if spark is None else spark,
    ):
        results, resumed, redone, lineage = _run(
            prepared,
            attrs.evolve(journal, folder=claim.folder),
            claim,
            files,
            generation,
            needed,
            spark=spark,
            tell=stopwatch,
        )
        phases = stopwatch.stopped()
    is_slow = needed.lacks_numba if needed.engine is Engine.PROCESS else any(result.lacks_numba for result in results)
    foreign = sum(result.foreign for result in results)
    report = attrs.evolve(report, resumed=resumed, redone=redone, lacks_numba=is_slow, foreign_entries=foreign)
    size = sum(result.stored.size for result in results)
    return report.finished(lineage, size, time.monotonic() - started, phases)


def _run(
    prepared: Preparation,
    journal: Journal,
    claim: Claim,
    source: SourceFiles,
    generation: str,
    needed: Estimate,
    *,
    spark: TaskRunner | None,
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
    runner = InProcess() if needed.engine is Engine.PROCESS or spark is None else spark
    results += runner.run(works_of(left, savepoint.folder, journal), tell)
    tell(Progress("publishing", 0, 1))
    claim.require()
    source.require_unchanged()
    lineage = publish_result(savepoint, prepared.plan, prepared.tasks, results, folder, generation=generation)
    return results, len(finished), redone, lineage


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


def _files_of(results: Iterable[TaskResult], generation: str) -> set[str]:
    """Return the names of the files of finished tasks, and of their notes."""
    files = [file for result in results for file in result.files]
    notes = {result.stored.name + SUFFIX for result in results}
    return notes | {file.attempt or final_name(file.name, generation) for file in files}
