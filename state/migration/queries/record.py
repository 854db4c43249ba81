"""The record of a migration in its copy: what `verify` needs to convert the source once more, and compare.

    _stateshift-copy.json    sealed JSON beside `metadata`; Spark reads it as little as all that begins with `_`

Functions and DataFrames are not in it: of what they made it has the fields alone.
"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs

from ....compat.json_files import parse_document, print_sealed
from ....compat.plain_data import plain, structured
from ....compat.queries.changes import Backfill, FieldChanges
from ....serializers.errors import DeclarationError, located
from ...storage.stores import parted
from .conversion import not_repeated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...publication.lineage import StateCount
    from ...storage.files import Folder
    from .preparation import PreparedCopy

RECORD = "_stateshift-copy.json"
_FORM, VERSION = "stateshift-checkpoint-copy", 1


@attrs.frozen
class RecordedOperator:
    """What became of an operator of the source.

    Attributes:
        number: Its number.
        becomes: Its number in the copy; None: its state was dropped.
        renames: The old paths of fields by their new paths.
        fills: The values of new fields by path.
        merges: How the values of keys that became equal were merged, by path.
        ttls: Times to live, by variable.
        drops: The variables that were dropped.
        unknown: The paths of fields whose values are not known again, and from where they were.
    """

    number: int
    becomes: int | None
    renames: dict[str, str] = attrs.field(factory=dict)
    fills: dict[str, Any] = attrs.field(factory=dict)
    merges: dict[str, str] = attrs.field(factory=dict)
    ttls: dict[str, str] = attrs.field(factory=dict)
    drops: tuple[str, ...] = ()
    unknown: dict[str, str] = attrs.field(factory=dict)

    @classmethod
    def of(cls, number: int, becomes: int | None, changes: FieldChanges) -> RecordedOperator:
        """Return what is kept of changes."""
        unknown = {path: f"the function {_name_of(function)}" for path, function in changes.converters.items()}
        unknown |= {path: f"column {fill.column!r} of a DataFrame" for path, fill in changes.backfills.items()}
        fills = {}
        for path, value in changes.fills.items():
            if isinstance(value, Backfill):
                continue
            try:
                fills[path] = _as_json(value)
            except (TypeError, ValueError):
                unknown[path] = "a value that JSON does not have"
        renames, merges, ttls = dict(changes.renames), dict(changes.merges), dict(changes.ttls)
        return cls(number, becomes, renames, fills, merges, ttls, tuple(changes.drops), unknown)

    def changes(self) -> FieldChanges:
        """Return the changes; functions and DataFrames are replaced by `not_repeated`."""
        converters = dict.fromkeys(self.unknown, not_repeated)
        return FieldChanges(self.renames, self.fills, self.merges, self.ttls, converters, self.drops)


@attrs.frozen
class RecordedStore:
    """The entries of a store when it was migrated.

    Attributes:
        operator: The number of the operator in the copy.
        store: The name of the store.
        read: How many were read.
        written: How many were counted in the copy.
        merged: How many had a key that had become equal to another.
    """

    operator: int
    store: str
    read: int
    written: int
    merged: int


@attrs.frozen
class CopyRecord:
    """The record of a copy.

    Attributes:
        source: The place of the source, without options of its store.
        query_id: The id of the source's query.
        batch: The batch whose state was copied.
        has_new_id: Whether the copy got a query id of its own.
        operators: What became of each operator of the source.
        stores: What was counted of each store.
    """

    source: str
    query_id: str
    batch: int
    has_new_id: bool
    operators: tuple[RecordedOperator, ...]
    stores: tuple[RecordedStore, ...]

    @classmethod
    def of(cls, plan: PreparedCopy, counts: Iterable[StateCount]) -> CopyRecord:
        """Return the record of a migration whose stores are written."""
        source = plan.source
        found = {
            number: RecordedOperator.of(number, one.number, one.changes)
            for one in plan.operators
            if (number := one.old_number) is not None
        }
        operators = (found.get(one.number, RecordedOperator(one.number, None)) for one in source.operators)
        stores = (RecordedStore(int(one.operator_id), one.state, one.read, one.written, one.merged) for one in counts)
        return cls(
            parted(source.place)[0],
            source.log.query_id,
            plan.query.batch,
            plan.query.has_new_id,
            (*operators,),
            (*stores,),
        )

    def write(self, folder: Folder) -> None:
        """Write the record into a copy."""
        folder.write_last(RECORD, print_sealed(_FORM, VERSION, plain(self)).encode())

    @classmethod
    def read(cls, folder: Folder) -> CopyRecord:
        """Read the record of a copy.

        Raises:
            DeclarationError: There is none.
            CorruptFile: It is damaged, or was edited.
            UnsupportedFormat: A later release wrote it.
        """
        if not folder.exists(RECORD):
            raise DeclarationError.before_writing(
                f"{folder.place} has no {RECORD}, by which a copy of a checkpoint is compared with its source: it is"
                " no copy, or an earlier release of stateshift made it",
                advice="name the copy that `stateshift migrate spark:OLD spark:NEW` made; one without the file is"
                " verified by a second migration of its source into another folder",
                savepoint=folder.place,
            )
        with located(file=f"{folder.place}/{RECORD}"):
            facts = parse_document(folder.read(RECORD), _FORM, VERSION, sealed_since=1)
            facts.require_unedited()
            found: CopyRecord = structured(cls, facts.rest(), "the file")
            return found


def _name_of(function: Any) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__name__)}"


def _as_json(value: Any) -> Any:
    """Return the value of a new field as `--fill` takes it.

    Raises:
        TypeError, ValueError: JSON has none for it.
    """
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    if isinstance(value, dt.date):
        return value.isoformat()
    if json.loads(json.dumps(value, allow_nan=False)) != value:
        raise ValueError("it is read back as another one")
    return value
