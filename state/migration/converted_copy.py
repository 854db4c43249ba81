"""A savepoint converted for a comparison: a migration to a temporary folder, which is deleted afterwards."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from ...compat.plan_data import to_data
from ...compat.reference_time import parse_time
from ...serializers.errors import StateShiftError
from ..savepoint.reader import Savepoint
from .migration import migrate_savepoint
from .options import MigrationOptions
from .planning import prepare_as_planned
from .preparation import prepare
from .repartition import with_merges_loaded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...compat.description import JobDescription
    from .plan_file import PlanFile

_TOLD = ("operator_id", "new_operator_id", "rekeying")
_TOLD_OF_STATES = ("name", "new_name", "kind", "action", "old_snapshots_sha256", "new_snapshots_sha256", "code")


def is_migration_of(new: Savepoint, old: Savepoint) -> bool:
    """Whether the lineage of a savepoint says that it was migrated from another."""
    source = None if new.lineage is None else new.lineage.source
    return source is not None and source.get("metadata_sha256") == old.metadata_sha256


def types_suffice(old: Savepoint, new: Savepoint) -> bool:
    """Whether a migration to the types of a savepoint is the one that its lineage has: no code had a part in it."""
    lineage = new.lineage
    if lineage is None or lineage.plan is None:
        return False
    try:
        planned = prepare(old, new.describe(), MigrationOptions()).plan
    except StateShiftError:  # its types alone do not say how: it refuses them
        return False
    return _told(to_data(planned)) == _told(lineage.plan)


def _told(plan: dict[str, object]) -> list[object]:
    """Return what tells whether two plans do the same, of the plan of a lineage or of one that is made now."""
    operators = plan.get("operators")
    return [
        [one.get(name) for name in _TOLD] + [[state.get(name) for name in _TOLD_OF_STATES] for state in one["states"]]
        for one in (operators if isinstance(operators, list) else [])
    ]


@contextmanager
def converted_copy(
    old: Savepoint, new: Savepoint, job: JobDescription | None, expected: PlanFile | None = None
) -> Iterator[Savepoint]:
    """Yield a savepoint as its migration would write it; it is deleted at the end of the `with` block.

    Args:
        old: The savepoint, which is only read.
        new: The savepoint that it is compared with: if it was migrated from `old`, values that gain or lose a time to
            live do so at the same time.
        job: The new types; None: they stay.
        expected: The plan, or None.

    Raises:
        NoSpaceLeft: The folder of temporary files has too little space.
        StateShiftError: As the migration.
    """
    options = MigrationOptions()
    if expected is not None:
        prepare_as_planned(old, job, expected.options, expected)
        options = attrs.evolve(expected.options, repartition=with_merges_loaded(expected.options.repartition))
    plan = None if new.lineage is None or not is_migration_of(new, old) else new.lineage.plan
    at = None if plan is None else plan.get("reference_time")
    if at is not None and options.reference_time is None:
        options = attrs.evolve(options, reference_time=parse_time(str(at)))
    with tempfile.TemporaryDirectory(prefix="stateshift-diff-") as folder:
        place = Path(folder) / "converted"
        migrate_savepoint(old, place, job, options)
        yield Savepoint.open(place)
