"""Restore: what a program goes on from, and how keyed state gets into a backend, whatever wrote it.

    found = restorable(savepoint, job, migrate=migrate)     where the job is known before, as a driver knows it
    restore_keyed(backend, operator, found.folder)          in each subtask

The kind of each stored handle chooses its reader; all readers yield canonical blocks, and every backend takes them. The
types are those of the stream: whether those of the program can take over is judged by `restorable`, or, where a program
registers its states itself, by a `RestoreCheck` at each registration. Source: runtime notes, section 5.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from ...compat.check import check
from ...compat.description import JobDescription
from ...serializers.compatibility import Decision
from ...serializers.errors import DeclarationError
from ...serializers.ways_out import Option, Told, WayOut
from ..formats.flink.keyed_readers import open_keyed
from ..formats.flink.metadata import METADATA
from ..migration.migration import migrate_savepoint
from ..publication.publish import source_facts
from ..savepoint.reader import Savepoint
from ..savepoint.states import keyed_handles, require_own_key_groups
from ..storage.files import Folder
from .restore_check import RESTORING, RestoreRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..formats.flink.metadata import OperatorState
    from ..job import Job
    from ..migration.options import MigrationOptions
    from .keyed_backend import KeyedStateBackend

    Migrate = Callable[[str, str, JobDescription, MigrationOptions], object]
    """Called with source, target, new types and options: `stateshift.spark.migrate.migrate`, or one of your own."""


def restorable(
    savepoint: Savepoint,
    job: Job | JobDescription,
    *,
    migrate: bool | Migrate = False,
    options: MigrationOptions = RESTORING,
) -> Savepoint:
    """Return the savepoint that a program can go on from: the given one, or a migrated one that is written beside it.

    Args:
        savepoint: A savepoint or checkpoint; it is only read.
        job: The types of the program. Operators and states that it lacks are kept.
        migrate: Whether to migrate where that is needed: True does it in this process; a function is called for it.
        options: The options of the check and of the migration.

    Raises:
        RestoreRefused: The types cannot take over, or not without a migration.
        NothingInCommon, StateShiftError: As the check and the migration.
    """
    stored = savepoint.describe(trust_stored_serializers=options.trust_stored_serializers, trust=options.trust)
    new = job if isinstance(job, JobDescription) else job.describe()
    old = options.edits.apply(stored)
    rules: dict[str, Any] = {"target": options.restore_target, "policy": options.policy}
    report = check(old, new, repartition=options.repartition, **rules)
    if report.decision is Decision.START:
        return savepoint
    if report.decision is Decision.REFUSE or not migrate:
        raise RestoreRefused(report)
    place = _beside(savepoint.place)
    if callable(migrate):
        migrate(savepoint.place, place, new, options)
    else:
        migrate_savepoint(savepoint, place, new, options)
    return Savepoint.open(place)


def _beside(place: str) -> str:
    """Return the place of the migrated savepoint: `PLACE-migrated`, or with the next free number."""
    names = (f"{place}-migrated{'' if number == 1 else f'-{number}'}" for number in count(1))
    return next(name for name in names if not Folder.at(name).exists())


def restored_facts(savepoint: Savepoint) -> dict[str, Any]:
    """Return what the lineage of later snapshots says about a restore: the source, and what migrations did before.

    The history has a savepoint only if a migration wrote it, so that it does not grow with each restart.
    """
    before = savepoint.lineage
    history = () if before is None else before.history if before.plan is None else before.as_history()
    return {"source": source_facts(savepoint.place, savepoint.folder.read(METADATA)), "history": history}


def restore_keyed(backend: KeyedStateBackend, stored: OperatorState, folder: Folder) -> None:
    """Read the keyed state of an operator that belongs to the subtask of a backend, which has no handles yet.

    Args:
        backend: The new backend; its key groups may be spread over several stored subtasks.
        stored: The operator in `_metadata`.
        folder: The folder of that `_metadata`.

    Raises:
        DeclarationError: The number of key groups differs.
        CorruptSavepoint, UnknownSnapshot, UnsupportedFormat, SavepointNotFound: As `open_keyed`.
        OldReaderUnavailable: In a native format, the ends of a state's entries cannot be found.
    """
    if stored.max_parallelism != backend.max_parallelism:
        raise DeclarationError(
            f"the state was stored in {stored.max_parallelism} key groups, but the operator has"
            f" {backend.max_parallelism}",
            advice=(
                f"set max parallelism {stored.max_parallelism}",
                WayOut("migrate the savepoint with", (Told(Option.REPARTITION),)),
            ),
            operator=str(stored),
        )
    require_own_key_groups(stored)
    own = [handle for handle in keyed_handles(stored) if handle.reaches(backend.key_groups)]
    for handle in backend.adopt(own, folder):
        with open_keyed(handle, folder, stored.max_parallelism) as reader:
            backend.restore(reader)
