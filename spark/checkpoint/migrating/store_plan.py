"""What is done with a store: its rows converted, copied, or none; and why they cannot be converted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ....serializers.errors import UnsupportedFormat
from ..columns import BY_NAME, Reading, path_of_values
from ..families import SCHEMAS
from ..operators import METADATA
from .backfill import FilledColumn
from .conversion import Conversion, FieldChanges, conversion
from .merging import missing_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..logs import BatchLog
    from ..reader import SparkCheckpoint, SparkStore
    from ..schema_files import StoreSchema
    from ..spark_types import SparkType
    from .operator_files import OperatorFiles

_SESSION, _JOIN = "session window", "stream-stream join"
_ROWS_BY_TIME = "-keyWithTsToValues"
_ROWS_OF_JOINS = ("-keyWithIndexToValue", _ROWS_BY_TIME, "-tsWithKey")


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
    def schema(self) -> StoreSchema:
        """The new types."""
        return _schema(self.now)

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
        is_longer = self.kind == _SESSION or self.store.name.endswith(_ROWS_OF_JOINS)
        return attrs.evolve(key, fields=key.fields[:-1]) if is_longer else key

    @property
    def notes(self) -> tuple[str, ...]:
        """What changes, a line each."""
        if self.is_empty:
            return ("it has no old operator, and starts empty",)
        dropped = (f"{path} is dropped" for part in (self.key, self.value) for path in part.dropped)
        moved = [f"it was operator {self.store.operator}"] if self.number != self.store.operator else []
        return (*moved, *self.key.notes, *self.value.notes, *dropped)


def plan_store(
    store: SparkStore, kind: str, new: SparkStore, changes: FieldChanges, reading: Reading = BY_NAME
) -> StorePlan:
    """Return what is done with a store, whose types both sides know; raises `UnsupportedFormat`."""
    old_schema, schema = _schema(store), _schema(new)
    key = conversion(old_schema.key, schema.key, "key", changes, reading=reading)
    value = conversion(old_schema.value, schema.value, path_of_values(store.name, kind), changes, reading=reading)
    return StorePlan(store, new, kind, key, value, _schema_file(new), changes)


_CONVERTED = {
    "aggregation",
    "dropDuplicates",
    "dropDuplicatesWithinWatermark",
    "limit",
    "applyInPandasWithState",
    _SESSION,
    _JOIN,
}
_OF_OTHERS = f"this release changes only those of {', '.join(sorted(_CONVERTED))}"
_LEFT_ALONE = dict.fromkeys(
    ("flatMapGroupsWithState", "transformWithState (Scala)"),
    "state of Scala is what an encoder made of objects: it is copied as it is, and never changed",
)
_NEVER_MERGED = {
    _SESSION: "sessions of one key may overlap then, and only Spark can put them together",
    _JOIN: "rows would match that did not, and those that are stored were never joined so",
}


def problems_of(plans: list[StorePlan], changes: FieldChanges) -> Iterator[str]:
    """Yield why the stores of an operator cannot be converted."""
    kind = plans[0].kind if plans else ""
    for plan in plans:
        if kind == _JOIN and plan.key.added:
            yield (
                f"{', '.join(plan.key.added)}: the join is on more columns, and stored rows of one key would belong to"
                " several, by what is in their other columns; start the new query with a new checkpoint"
            )
        else:
            yield from plan.key.problems
        yield from plan.value.problems
        if plan.is_converted and kind not in _CONVERTED:
            yield f"its types change, and {_LEFT_ALONE.get(kind, _OF_OTHERS)}"
        old = plan.store.schema
        if (
            plan.key.convert is not None
            and old is not None
            and _has_one_key(old.key) is not _has_one_key(plan.schema.key)
        ):
            yield "the state of one group becomes that of several, or the other way round"
        if plan.may_collide:
            yield from _collisions(plan)
        if kind == _SESSION:
            yield from _unlike_keys(plan)
        if plan.store.name.endswith(_ROWS_BY_TIME):
            yield from _other_times(plan)
    known = {path for plan in plans for path in (*plan.key.paths, *plan.value.paths)}
    advice = "; those of rows begin with left.value. or right.value." if kind == _JOIN else ""
    yield from (f"{path}: the new types have no such field{advice}" for path in sorted(changes.paths() - known))


def _collisions(plan: StorePlan) -> Iterator[str]:
    """Yield why keys must not become equal, and which rules are missing; what a function makes equal is seen later."""
    dropped = ", ".join(plan.key.dropped)
    if told := _NEVER_MERGED.get(plan.kind):
        how = f"{dropped}: keys may become equal without it" if dropped else ""
        how = how or f"{', '.join(plan.key.by_function)}: keys may become equal by a function"
        yield f"{how}: {told}; keep it, or start with a new checkpoint"
        return
    if not dropped:
        return
    yield from (f"{path}: keys may become equal, so that a DataFrame cannot fill it" for path in plan.changes.backfills)
    for path in missing_rules(plan.schema.value, plan.changes.merges):
        yield f"{path}: keys may become equal without {dropped}: say how their values are merged"


def _unlike_keys(plan: StorePlan) -> Iterator[str]:
    """Yield what is said of a key of sessions and not of the column of their values that repeats it, or otherwise."""
    for name in (one for one in plan.schema.key.names if one in plan.schema.value.names):
        ways = (plan.changes.renames.get(path, path).partition(".")[2] for path in (f"key.{name}", f"value.{name}"))
        fills = (plan.changes.fills.get(path, ...) for path in (f"key.{name}", f"value.{name}"))
        if len({*ways}) > 1 or len({repr(one) for one in fills}) > 1:
            yield f"value.{name}: it repeats key.{name}: say the same of both"


def _other_times(plan: StorePlan) -> Iterator[str]:
    """Yield why rows would lie under other times than those by which Spark removes them."""
    rows = path_of_values(plan.store.name, plan.kind)
    was, now = (
        next((f"{rows}.{one.name}" for one in schema.value.fields if one.is_event_time), "")
        for schema in (_schema(plan.store), plan.schema)
    )
    changes = plan.changes
    if was != changes.renames.get(now, now) or now in changes.fills or now in changes.converters:
        yield (
            f"{now or was}: the event time of rows, by which join state of format 4 has them, was"
            f" {was or 'none'}, and is {now or 'none'} now: keep it, or start with a new checkpoint"
        )


def _has_one_key(key: SparkType) -> bool:
    return all(field.type.word == "void" for field in key.fields)


def with_partitions(store: SparkStore, old: SparkCheckpoint) -> SparkStore:
    """Return a store of the new query with as many partitions as those of the old one."""
    return attrs.evolve(store, facts=attrs.evolve(store.facts, partitions=old.partitions))


def plan_empty_store(store: SparkStore, kind: str, old: SparkCheckpoint, log: BatchLog) -> StorePlan:
    """Return the plan of a store of an operator that has no old one."""
    empty = attrs.evolve(with_partitions(store, old), log=attrs.evolve(log, committed=None))
    return StorePlan(empty, store, kind, Conversion(), Conversion(), _schema_file(store), FieldChanges(), is_empty=True)


def _schema(store: SparkStore) -> StoreSchema:
    """Return the types of a store.

    Raises:
        UnsupportedFormat: It has none that this release reads.
    """
    if store.schema is None:
        raise UnsupportedFormat(
            store.unsupported,
            operator=store.operator,
            state=store.name,
            advice="start the new query with a new checkpoint",
            written="Nothing was written.",
        )
    return store.schema


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
