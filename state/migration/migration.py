"""A migration from its preparation to its publication, whatever runs its tasks.

The source is only read. Each task writes its own file; `_metadata` is written last. A run that dies leaves the source
untouched and no `_metadata` in the target; running again finishes it. Source: DESIGN, section 4; rules, section 11.
"""

from __future__ import annotations

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
from .failing_values import failures_counted
from .journal import SUFFIX
from .options import MigrationOptions
from .preparation import prepare
from .report import MigrationReport
from .run import name_of, publish_result, try_out
from .run_task import works_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from ...compat.description import JobDescription
    from ..job import Job
    from ..publication.lineage import Lineage
    from ..publication.target_lock import Claim
    from ..savepoint.reader import Savepoint
    from .estimate import Estimate
    from .journal import Journal
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
    brought_up: Callable[[Preparation], Preparation] = lambda prepared: prepared,
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
        brought_up: Returns the preparation with tasks that were done in part while the job ran.

    Raises:
        StateShiftError: As in `stateshift.spark.migrate`.
    """
    stopwatch = Stopwatch(progress or (lambda _: None))
    stopwatch(Progress("planning", 0, 1))
    folder, reads = Folder.at(target), (Read.of(savepoint.folder, savepoint.metadata),)
    refuse_by_place(folder, reads)
    files = SourceFiles.of(savepoint.folder, savepoint.metadata)
    resumed = folder if target_exists is IfTargetExists.RESUME else None
    with files.watched():
        with located(savepoint=savepoint.place):
            require_files(savepoint.metadata.streams, savepoint.folder, files.version_of)
        prepared = brought_up(_prepared(savepoint, job, options, expected, resumed))
    migration = _Migration(savepoint, prepared, files, prepared.journal(folder), spark, stopwatch)
    published = None if resumed is None else migration.journal.published(prepared.savepoint, prepared.plan)
    if published is not None:
        report = attrs.evolve(migration.planned(), resumed=len(prepared.stream_names))
        if not dry_run:
            return migration.tidied(report, published)
    else:
        check_target(folder, target_exists)
        needed = migration.estimated()
        report = attrs.evolve(migration.planned(), estimate=needed)
        needed.require_space(folder)
        if not dry_run:
            if announce is not None:
                announce(report)
            return migration.carried_out(report, needed, reads, target_exists)
        with failures_counted(prepared.savepoint, prepared.plan):
            report = attrs.evolve(report, tried=try_out(prepared.savepoint, prepared.plan))
    plan_file = expected or _planned(prepared, options)
    return attrs.evolve(report, plan_file=plan_file, read_files=prepared.files_to_read, seconds=stopwatch.seconds)


def _prepared(
    savepoint: Savepoint,
    job: Job | JobDescription | None,
    options: MigrationOptions,
    expected: PlanFile | None,
    resumed: Folder | None,
) -> Preparation:
    if expected is None:
        return prepare(savepoint, job, options, resumed=resumed)
    from .planning import prepare_as_planned

    return prepare_as_planned(savepoint, job, options, expected, resumed=resumed)


def _planned(prepared: Preparation, options: MigrationOptions) -> PlanFile:
    """Return the plan of the arguments, for people."""
    from .plan_file import NewTypes
    from .planning import plan_of

    return plan_of(prepared, options, NewTypes(stay=True))


@attrs.frozen
class _Migration:
    """A migration that is prepared.

    Attributes:
        source: The source, as it was opened.
        prepared: What is to be done.
        files: The files of the source, which must not change.
        journal: The journal in the target.
        spark: Runs tasks; None: this process does.
        tell: Called with the progress.
    """

    source: Savepoint
    prepared: Preparation
    files: SourceFiles
    journal: Journal
    spark: TaskRunner | None
    tell: Stopwatch

    def planned(self) -> MigrationReport:
        """Return the report of what is to be done."""
        savepoint, plan, tasks = self.prepared.savepoint, self.prepared.plan, self.prepared.tasks
        return MigrationReport.planned(savepoint, plan, self.journal.folder.place, tasks)

    def estimated(self) -> Estimate:
        """Return the estimate of time and space."""
        folder, spark = self.journal.folder, self.spark
        cores, is_asked = (0, False) if spark is None else (spark.cores, spark.is_asked)
        source, held = self.prepared.savepoint.folder, held_bytes(folder)
        needed = estimate(self.prepared.tasks, source, folder, cores, held_bytes=held, with_spark=is_asked)
        return attrs.evolve(needed, replaced_bytes=sum(map(folder.size, files_there(folder))))

    def tidied(self, report: MigrationReport, lineage: Lineage) -> MigrationReport:
        """Finish a run that died between publishing and cleanup: all of its streams were finished before."""
        folder, names = self.journal.folder, self.prepared.stream_names
        with claimed(folder) as claim:
            leave(claim)
        streams = {*names, *(final_name(name, self.journal.generation) for name in names)}
        return report.finished(lineage, stream_bytes(folder, streams), self.tell.seconds, {})

    def carried_out(
        self, report: MigrationReport, needed: Estimate, reads: tuple[Read, ...], target_exists: IfTargetExists
    ) -> MigrationReport:
        """Run the tasks that are left, and publish."""
        folder, generation, metadata = self.journal.folder, self.journal.generation, self.source.metadata
        if target_exists is IfTargetExists.REPLACE:
            generation = free_generation(generation, files_there(folder))
        names = names_of((operator.operator_id.hex() for operator in metadata.operators), generation)
        with (
            failures_counted(self.prepared.savepoint, self.prepared.plan),
            databases_released(metadata, self.source.folder),
            all_or_nothing(Destination(folder, names, reads, target_exists, NOTHING_PUBLISHED)) as claim,
            self.files.watched(),
            nullcontext() if self.spark is None else self.spark,
        ):
            runner = InProcess() if needed.engine is Engine.PROCESS or self.spark is None else self.spark
            results, report, lineage = self._run(report, runner, claim, generation)
            phases = self.tell.stopped()
        by_workers = any(result.lacks_numba for result in results)
        is_slow = needed.lacks_numba if needed.engine is Engine.PROCESS else by_workers
        foreign = sum(result.foreign for result in results)
        report = attrs.evolve(report, lacks_numba=is_slow, foreign_entries=foreign)
        return report.finished(lineage, sum(result.size_bytes for result in results), self.tell.seconds, phases)

    def _run(
        self, report: MigrationReport, runner: Runner, claim: Claim, generation: str
    ) -> tuple[list[TaskResult], MigrationReport, Lineage]:
        prepared, journal = self.prepared, attrs.evolve(self.journal, folder=claim.folder)
        if journal.is_begun():
            self.tell(Progress("checking", 0, 1))
        finished, redone = journal.take_up()
        clear_unfinished(claim, _files_of(finished.values(), generation))
        left = [task for task in prepared.tasks if name_of(task) not in finished]
        works = works_of(left, prepared.savepoint.folder, journal)
        results = [*finished.values(), *runner.run(works, self.tell)]
        self.tell(Progress("publishing", 0, 1))
        claim.require()
        self.files.require_unchanged()
        done = prepared.savepoint, prepared.plan, prepared.tasks, results
        lineage = publish_result(*done, claim.folder, generation=generation)
        return results, attrs.evolve(report, resumed=len(finished), redone=redone), lineage


def _files_of(results: Iterable[TaskResult], generation: str) -> set[str]:
    """Return the names of the files of finished tasks, and of their notes."""
    files = [file for result in results for file in result.files]
    notes = {result.stored.name + SUFFIX for result in results}
    return notes | {file.attempt or final_name(file.name, generation) for file in files}
