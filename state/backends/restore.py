"""Restore: what a program goes on from, and how keyed state gets into a backend, whatever wrote it.

    found = restorable(savepoint, job, migrate=migrate)     where the job is known before, as a driver knows it
    restore_keyed(backend, operator, found.folder)          in each subtask

The kind of each stored handle chooses its reader; all readers yield canonical blocks, and every backend takes them. The
types are those of the stream: whether those of the program can take over is judged by `restorable`, or, where a program
registers its states itself, by a `RestoreCheck` at each registration. Source: runtime notes, section 5.
"""

from __future__ import annotations

from itertools import count, islice
from typing import TYPE_CHECKING, Any

from ...compat.check import check
from ...compat.description import JobDescription
from ...serializers.compatibility import Decision
from ...serializers.errors import DeclarationError, IncompatibleState
from ...serializers.ways_out import Option, Told, WayOut
from ..entry_keys import decode
from ..formats.flink.keyed_readers import open_keyed
from ..formats.flink.metadata import METADATA
from ..formats.flink.state_kinds import entry_key_format
from ..key_groups import has_checked_hash, has_stable_hash, key_group, key_hasher
from ..migration.migration import migrate_savepoint
from ..publication.publish import source_facts
from ..savepoint.reader import Savepoint
from ..savepoint.states import keyed_handles, require_own_key_groups
from ..storage.files import Folder
from .restore_check import RESTORING, RestoreRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..formats.flink.keyed_stream import KeyedReader
    from ..formats.flink.metadata import OperatorState
    from ..job import Job
    from ..migration.options import MigrationOptions
    from .keyed_backend import KeyedStateBackend

    Migrate = Callable[[str, str, JobDescription, MigrationOptions], object]
    """Called with source, target, new types and options: `stateshift.spark.migrate.migrate`, or one of your own."""


_LOOKED_AT = 20
"""How many entries show where keys are placed."""


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
        IncompatibleState: An earlier release placed the keys by another rule.
    """
    if stored.max_parallelism != backend.max_parallelism:
        raise DeclarationError(
            f"the state was stored in {stored.max_parallelism} key groups, but the operator has"
            f" {backend.max_parallelism}",
            advice=(
                f"set max parallelism {stored.max_parallelism}",
                WayOut(
                    "migrate the savepoint into a new one, and start from that:",
                    command="stateshift migrate SAVEPOINT NEW --job MODULE:JOB --repartition --max-parallelism"
                    f" {backend.max_parallelism}",
                ),
            ),
            operator=str(stored),
        )
    require_own_key_groups(stored)
    own = [handle for handle in keyed_handles(stored) if handle.reaches(backend.key_groups)]
    if has_stable_hash(backend.key) and not has_checked_hash(backend.key):
        for handle in own:
            with open_keyed(handle, folder, stored.max_parallelism) as reader:
                _require_places(reader, stored)
    for handle in backend.adopt(own, folder):
        with open_keyed(handle, folder, stored.max_parallelism) as reader:
            backend.restore(reader)


def _require_places(reader: KeyedReader, stored: OperatorState) -> None:
    """Refuse keys that an earlier release placed by its own rule, where this one places them as Flink does.

    The first entries tell: by chance alone, a key has the same place by both rules once in as many key groups.

    Raises:
        IncompatibleState: A key is in another key group than its hash says, so that it would never be found.
    """
    key = reader.header.key_snapshot.restore_serializer()
    hashed, most = key_hasher(key), stored.max_parallelism
    first = next(iter(reader.blocks()), None)
    if first is None:
        return
    split = entry_key_format(reader.header.states[first.state_id], key, most).split
    for data, _ in islice(first.items(), _LOOKED_AT):
        found = split(data)
        if key_group(hashed(decode(key, found.key)), most) != found.key_group:
            raise IncompatibleState(
                f"keys of type {key.describe()} are stored in other key groups than those of their hashes, as an "
                "earlier release placed them: they would not be found",
                advice=WayOut("rewrite the keys, with another max parallelism:", (Told(Option.REPARTITION),)),
                operator=str(stored),
            )
