"""Preparation of a migration: the new types are checked, planned, and divided into tasks. Nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...compat.check import check
from ...compat.description import JobDescription
from ...compat.edits import same_types
from ...compat.plan import BadValues
from ...compat.planner import plan
from .journal import Journal, run_id
from .kept_families import files_of
from .rescale import reformat, reshape
from .run import calls_of, name_of, split

if TYPE_CHECKING:
    from ...compat.plan import MigrationPlan, OperatorPlan
    from ..job import Job
    from ..publication.lineage import StateFiles
    from ..savepoint.reader import Savepoint
    from ..storage.files import Folder
    from .options import MigrationOptions
    from .tasks import Task


@attrs.frozen
class Preparation:
    """A migration that is ready to run.

    Attributes:
        savepoint: The source.
        plan: The plan of the migration.
        tasks: The tasks of the run, the largest first.
        starts_empty: The states that only the new job has, as UID/STATE.
    """

    savepoint: Savepoint
    plan: MigrationPlan
    tasks: tuple[Task, ...]
    starts_empty: tuple[str, ...] = ()

    def journal(self, target: Folder) -> Journal:
        """Return the journal of this run in a target."""
        run = run_id(self.savepoint, self.plan, self.stream_names)
        calls = {name_of(task): called for task in self.tasks if (called := calls_of(task))}
        return Journal(target, run, self.plan.reference_time, calls)

    @property
    def stream_names(self) -> frozenset[str]:
        """The names of the streams that the tasks write."""
        return frozenset(map(name_of, self.tasks))

    @property
    def files_to_read(self) -> tuple[StateFiles, ...]:
        """The files in databases that the migration reads, by operator and stored state."""
        return tuple(one for operator in self.plan.operators for one in self.files_of(operator)[1])

    def files_of(self, plan: OperatorPlan) -> tuple[tuple[StateFiles, ...], tuple[StateFiles, ...]]:
        """Return the files in databases that are kept of an operator, and those that are read, by stored state."""
        if not (plan.is_rewritten and plan.rewrites_keyed):
            return (), ()
        return files_of(self.savepoint.operator(plan.operator_id).stored, self.tasks, self.savepoint.folder)


def prepare(
    savepoint: Savepoint,
    job: Job | JobDescription | None,
    options: MigrationOptions,
    *,
    resumed: Folder | None = None,
) -> Preparation:
    """Return a migration that is ready to run.

    Args:
        savepoint: The source.
        job: The new types. None if the types do not change, but something else does.
        options: The options of the migration.
        resumed: The target of a dead run to resume: its reference time is used if `options` have none.

    Raises:
        IncompatibleState: The check fails; the error has every state and finding.
        StateNotFound, DeclarationError: An edit names a missing state or operator, or a name that is taken; or an
            operator cannot have so many subtasks.
        UnsupportedFormat: A stream that must be rewritten is in a format of which only the header can be read.
    """
    savepoint = savepoint if options.source_digests else savepoint.without_digests()
    stored = savepoint.describe(trust_stored_serializers=options.trust_stored_serializers, trust=options.trust)
    old = options.edits.apply(stored)
    new = same_types(old) if job is None else job if isinstance(job, JobDescription) else job.describe()
    report = check(old, new, target=options.restore_target, policy=options.policy, repartition=options.repartition)
    looks = options.bad_values is not BadValues.ABORT
    planned = plan(report, reference_time=options.reference_time, looks_at_values=looks)
    planned = options.with_bad_values(planned)
    planned = reformat(savepoint, planned, options.format)
    planned = attrs.evolve(planned, absolute=options.absolute)
    planned = reshape(savepoint, planned, parallelism=options.parallelism, compression=options.compression)
    starts_empty = tuple(f"{operator.title}/{state.name}" for operator, state in report.new_states)
    prepared = Preparation(savepoint, planned, split(savepoint, planned), starts_empty)
    if resumed is None or planned.reference_time is None or options.reference_time is not None:
        return prepared
    begun = prepared.journal(resumed).reference_time_before()
    return prepared if begun is None else prepare(savepoint, job, attrs.evolve(options, reference_time=begun))
