"""Restore: what a program goes on from, and how keyed state gets into a backend, whatever wrote it.

    found = restorable(savepoint, job, migrate=migrate)     where the job is known before, as a driver knows it
    restore_keyed(backend, operator, found.folder)          in each subtask

The kind of each stored handle chooses its reader; all readers yield canonical blocks, and every backend takes them. The
types are those of the stream: whether those of the program can take over is judged by `restorable`, or, where a program
registers its states itself, by a `RestoreCheck` at each registration. Source: runtime notes, section 5.
"""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import count, islice, takewhile
from typing import TYPE_CHECKING, Any

from ...compat.check import check
from ...compat.description import JobDescription
from ...serializers.compatibility import Decision
from ...serializers.errors import DeclarationError, IncompatibleState, StateShiftError
from ...serializers.ways_out import Option, Told, WayOut
from ..entry_keys import decode
from ..formats.flink.keyed_readers import open_keyed
from ..formats.flink.metadata import METADATA
from ..formats.flink.state_kinds import entry_key_format
from ..key_groups import has_checked_hash, has_stable_hash, key_group, key_hasher
from ..migration.journal import damaged_file, lineage_of
from ..migration.migration import migrate_savepoint
from ..migration.preparation import prepare
from ..migration.run import calls_of
from ..publication.publish import source_facts
from ..savepoint.reader import Savepoint
from ..savepoint.states import keyed_handles, require_own_key_groups
from ..storage.files import Folder
from .restore_check import RESTORING, RestoreRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..formats.flink.keyed_stream import KeyedReader
    from ..formats.flink.metadata import OperatorState
    from ..job import Job
    from ..migration.options import MigrationOptions
    from ..publication.lineage import Lineage
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

    A savepoint that such a migration wrote before is taken, if it is surely what another one would write.

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
    before = _migrated_before(savepoint, new, options)
    if before is not None:
        return before
    place = next(name for name in _names_beside(savepoint.place) if not Folder.at(name).exists())
    if callable(migrate):
        migrate(savepoint.place, place, new, options)
    else:
        migrate_savepoint(savepoint, place, new, options)
    return Savepoint.open(place)


def _names_beside(place: str) -> Iterator[str]:
    """Yield the places for a migrated savepoint: `PLACE-migrated`, and then with a number."""
    return (f"{place}-migrated{'' if number == 1 else f'-{number}'}" for number in count(1))


def _migrated_before(savepoint: Savepoint, new: JobDescription, options: MigrationOptions) -> Savepoint | None:
    """Return a savepoint beside this one that is what its migration to these types would write; None: there is none.

    It is of the same plan, which calls no functions, as their code may have changed; it is of this savepoint, and not
    of one that was at this place before; and all of its files are as they were written.
    """
    there = list(takewhile(lambda name: Folder.at(name).exists(), _names_beside(savepoint.place)))
    prepared = prepare(savepoint, new, options) if there else None
    if prepared is None or any(map(calls_of, prepared.tasks)):
        return None
    for place in there:
        with suppress(StateShiftError):  # what cannot be read is not taken
            folder = Folder.at(place)
            lineage = lineage_of(folder, savepoint, prepared.plan)
            if (
                lineage is not None
                and _is_later(lineage, savepoint.lineage)
                and not lineage.quarantined
                and not damaged_file(folder, lineage)
            ):
                return Savepoint.open(place)
    return None


def _is_later(lineage: Lineage, source: Lineage | None) -> bool:
    """Whether a savepoint was written when its source was there.

    Files of Flink have names of their own. Those of ours may be named as those that were there before, so the time of
    writing tells, which has whole seconds.
    """
    if source is None:
        return True
    return lineage.created > source.created and _same_json(lineage.history, source.as_history())


def _same_json(one: object, other: object) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


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
