"""The plan of a store: its rows are converted, copied, or there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ....compat.description import StateKind
from ....compat.header_snapshots import Labels
from ....compat.plan import StateAction, StatePlan
from ....compat.queries.changes import FieldChanges
from ....compat.queries.kinds import SESSION
from ...formats.spark.families import SCHEMAS
from ...formats.spark.operators import METADATA
from .backfill import FilledColumn
from .conversion import Conversion, conversion, equal_keys

if TYPE_CHECKING:
    from ....compat.queries.store_pairs import OperatorPair
    from ....serializers.compatibility import Finding
    from ....serializers.spark_rows.spark_types import SparkType, StoreSchema
    from ...formats.spark.logs import BatchLog
    from ...formats.spark.reader import SparkCheckpoint, SparkStore
    from .operator_files import OperatorFiles

_ROWS_OF_JOINS = ("-keyWithIndexToValue", "-keyWithTsToValues", "-tsWithKey")


@attrs.frozen
class StorePlan:
    """What is done with a store.

    Attributes:
        store: The store; of an operator that starts empty, the new one, without entries.
        now: The new store: its types, and how they are laid out.
        kind: The kind of its operator.
        key: The conversion of its keys.
        value: The conversion of its values.
        schema_file: The schema file, as Spark wrote it for the new types.
        changes: What the types do not say.
        files: What describes it, if it is a column family.
        is_empty: Whether the operator has no old one, and starts empty.
        filled: The fields whose values a DataFrame has.
    """

    store: SparkStore = attrs.field(repr=False)
    now: SparkStore = attrs.field(repr=False)
    kind: str
    key: Conversion = attrs.field(repr=False)
    value: Conversion = attrs.field(repr=False)
    schema_file: bytes = attrs.field(repr=False)
    changes: FieldChanges
    files: OperatorFiles | None = attrs.field(default=None, repr=False)
    is_empty: bool = False
    filled: tuple[FilledColumn, ...] = ()

    @property
    def number(self) -> int:
        """The number of the operator in the new query."""
        return self.now.operator

    @property
    def was(self) -> int | None:
        """The number of the old operator; None: there is none, and the store starts empty."""
        return None if self.is_empty else self.store.operator

    @property
    def facts(self) -> list[Any]:
        """What tells from others what the copy will contain."""
        digests = (filled.digest for filled in self.filled)
        return [
            self.number, self.is_empty or self.was, self.store.name, self.schema_file.hex(), *self.changes.digest(),
            *digests,
        ]  # fmt: skip

    @property
    def schema(self) -> StoreSchema:
        """The new types."""
        return self.now.require_schema()

    @property
    def is_converted(self) -> bool:
        """Whether entries change; else the files are copied."""
        return self.is_empty or self.key.convert is not None or self.value.convert is not None

    @property
    def may_collide(self) -> bool:
        """Whether keys may become equal."""
        return bool(self.key.dropped or self.key.by_function)

    def grouping(self, key: SparkType) -> SparkType:
        """Return the columns of a key by which Spark finds its partition.

        The last column of the others is what tells entries of one group apart: the start of a session, the number or
        the time of a row of a join.
        """
        is_longer = self.kind == SESSION or self.store.name.endswith(_ROWS_OF_JOINS)
        return attrs.evolve(key, fields=key.fields[:-1]) if is_longer else key

    def state(self, *, is_converted: bool) -> StatePlan:
        """Return what is done, for people; `is_converted` is of all that have the same files."""
        if self.is_empty:
            return planned_state(StateAction.NEW, None, self.now)
        action = StateAction.CONVERT if is_converted else StateAction.COPY
        return planned_state(action, self.store, self.now, self.findings)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What changes."""
        return (*self.key.findings, *self.value.findings, *equal_keys(self.key, self.schema.value, "value"))


def planned_state(
    action: StateAction, was: SparkStore | None, now: SparkStore | None, findings: tuple[Finding, ...] = ()
) -> StatePlan:
    """Return what is done with a store or a variable, for people; one of both sides may not have it."""
    sides = [one.description for one in (was, now) if one is not None]
    labels = [Labels.of(one) for one in sides if one is not None]
    name, new_name = (one.name for one in (was or now, now or was) if one is not None)
    new_name = new_name if new_name != name else ""
    return StatePlan(name, StateKind.VALUE, action, labels[0], labels[-1], findings=findings, new_name=new_name)


def plan_store(store: SparkStore, new: SparkStore, pair: OperatorPair, changes: FieldChanges) -> StorePlan:
    """Return what is done with a store, whose types both sides know; raises `UnsupportedFormat`."""
    for one in (store, new):
        one.require_schema()
    (parts,) = (one.parts for one in pair.stores if one.store == store.name)
    key, value = (conversion(part, changes) for part in parts)
    return StorePlan(store, new, pair.was.kind, key, value, _schema_file(new), changes)


def with_partitions(store: SparkStore, old: SparkCheckpoint) -> SparkStore:
    """Return a store of the new query with as many partitions as those of the old one."""
    return attrs.evolve(store, facts=attrs.evolve(store.facts, partitions=old.partitions))


def plan_empty_store(store: SparkStore, kind: str, old: SparkCheckpoint, log: BatchLog) -> StorePlan:
    """Return the plan of a store of an operator that has no old one."""
    empty = attrs.evolve(with_partitions(store, old), log=attrs.evolve(log, committed=None))
    return StorePlan(empty, store, kind, Conversion(), Conversion(), _schema_file(store), FieldChanges(), is_empty=True)


def _schema_file(store: SparkStore) -> bytes:
    if store.family is not None:
        return store.folder.folder(SCHEMAS).folder(store.facts.name).read(store.facts.schemas[0])
    return store._partition(0).read(f"{METADATA}/schema")  # noqa: SLF001 - of this package


def filled_columns(plan: StorePlan) -> tuple[FilledColumn, ...]:
    """Read the values that DataFrames have for fields of a store."""
    schema = plan.schema
    return tuple(
        FilledColumn.of(fill, path, schema.key, schema.value) for path, fill in sorted(plan.changes.backfills.items())
    )
