"""What a migration does, decided before anything is written: stores paired, rows compared, gaps asked for."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import attrs

from ....serializers.errors import IncompatibleState, MigrationFailed, UnsupportedFormat
from ..operators import METADATA, UNKNOWN
from ..reader import PROVIDERS
from .conversion import Conversion, FieldChanges, conversion
from .merging import missing_rules
from .variables import KINDS, ProcessorPlan, plan_processor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..logs import PlannedBatch
    from ..reader import SparkCheckpoint, SparkStore
    from ..schema_files import StoreSchema
    from ..spark_types import SparkType

_STREAMING = "spark.sql.streaming."
_SAME_SETTINGS = {
    _STREAMING + "aggregation.stateFormatVersion": "1",
    _STREAMING + "flatMapGroupsWithState.stateFormatVersion": "1",
    _STREAMING + "join.stateFormatVersion": "1",
    "spark.sql.dropDuplicates.deterministicKeyOrder.enabled": "false",
}
"""Settings that determine the types of state, and what Spark takes where a checkpoint has none."""
REPEATED = (
    "the dropped batch is planned again under its old number, with what the sources have then: a sink that writes"
    " again may see rows twice, and one that remembers batches (files, Delta, a foreachBatch that checks) and has this"
    " one leaves out what is new in it"
)
"""What follows where a batch is dropped."""
_SESSION, _JOIN = "session window", "stream-stream join"
_ROWS_OF_JOINS = ("-keyWithIndexToValue", "-keyWithTsToValues", "-tsWithKey")
_NUMBERS_OF_JOINS = "-keyToNumValues"


@attrs.frozen
class StorePlan:
    """What is done with a store.

    Attributes:
        store: The store.
        kind: The kind of its operator.
        key: The conversion of its keys.
        value: The conversion of its values.
        schema: The new types.
        schema_file: The schema file, as Spark wrote it for the new types.
        prefix_columns: How many columns of a new key RocksDB has apart, in front of the others.
        changes: What the types do not say.
    """

    store: SparkStore = attrs.field(repr=False)
    kind: str
    key: Conversion = attrs.field(repr=False)
    value: Conversion = attrs.field(repr=False)
    schema: StoreSchema
    schema_file: bytes = attrs.field(repr=False)
    prefix_columns: int
    changes: FieldChanges

    @property
    def is_converted(self) -> bool:
        """Whether entries change; else the files are copied."""
        return self.key.convert is not None or self.value.convert is not None

    @property
    def may_collide(self) -> bool:
        """Whether keys may become equal."""
        return bool(self.key.dropped)

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
        dropped = (f"{path} is dropped" for part in (self.key, self.value) for path in part.dropped)
        return (*self.key.notes, *self.value.notes, *dropped)


@attrs.frozen
class MigrationPlan:
    """What a migration does.

    Attributes:
        source: The checkpoint to copy.
        stores: What is done with each store.
        dropped_batch: The batch that was planned and not committed, which the copy does not have; None: there is none.
        batch: The last committed batch.
        processors: What is done with the variables of each transformWithState.
    """

    source: SparkCheckpoint
    stores: tuple[StorePlan, ...]
    batch: int
    dropped_batch: int | None = None
    processors: tuple[ProcessorPlan, ...] = ()

    @property
    def settings(self) -> PlannedBatch:
        """The settings of the last planned batch."""
        planned = self.source.log.last
        assert planned is not None  # noqa: S101 - a batch is committed
        return planned

    def digest(self) -> str:
        """Return a digest of what the copy will contain; a run resumes only what has the same one."""
        log = self.source.log
        facts = [self.source.place, log.query_id, self.batch, self.dropped_batch]
        facts += [[one.store.operator, one.store.name, one.schema_file.hex(), repr(one.changes)] for one in self.stores]
        facts += [
            [one.operator.number, one.files.schema.hex(), json.dumps(one.files.facts), repr(one.changes)]
            for one in self.processors
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def plan_migration(
    old: SparkCheckpoint,
    new: SparkCheckpoint,
    *,
    changes: Mapping[int, FieldChanges],
    drop_uncommitted: bool = False,
) -> MigrationPlan:
    """Return what a migration does; nothing is written. Arguments and errors as in `migrate_checkpoint`."""
    batch = _require_committed(old, drop_uncommitted=drop_uncommitted)
    _require_same_query(old, new)
    stores: list[StorePlan] = []
    processors: list[ProcessorPlan] = []
    problems: list[str] = []
    for was, now in zip(old.operators, new.operators, strict=True):
        of_operator = changes.get(was.number, FieldChanges())
        if was.kind in KINDS:
            found: list[str] = []
            processors.append(plan_processor(was, now, of_operator, found))
            problems += (f"operator {was.title}: {problem}" for problem in found)
            continue
        plans = [_store_plan(store, was.kind, now.store(store.name), of_operator) for store in was.stores]
        problems += (f"operator {was.title}: {problem}" for problem in dict.fromkeys(_problems(plans, of_operator)))
        stores += plans
    unknown = set(changes) - {one.number for one in old.operators}
    problems += (f"there is no operator {number}, of which changes are said" for number in sorted(unknown))
    if problems:
        raise IncompatibleState(
            "the state cannot be taken over as it stands",
            details=[f"  {problem}" for problem in problems],
            advice="for each field: --fill OPERATOR:PATH=VALUE (JSON; null for none), or --rename-field"
            " OPERATOR:OLD=NEW, or --merge-field OPERATOR:PATH=sum|min|max, or --ttl OPERATOR:VARIABLE=MS; such as"
            " --fill 0:value.count=0",
            written="Nothing was written.",
        )
    return MigrationPlan(old, tuple(stores), batch, old.log.unfinished, tuple(processors))


def _require_committed(old: SparkCheckpoint, *, drop_uncommitted: bool) -> int:
    """Return the last committed batch."""
    log = old.log
    if any(one.kind == UNKNOWN for one in old.operators):
        raise UnsupportedFormat(
            "the checkpoint is from before Spark 4.0, and does not say what its operators are",
            advice="run one batch of the old query with Spark 4.0 or later, which writes that; then migrate",
            written="Nothing was written.",
        )
    if log.committed is None:
        raise MigrationFailed(
            "no batch of the query is committed, so there is no state to migrate",
            advice="start the new query with a new checkpoint",
            written="Nothing was written.",
        )
    if not old.operators:
        raise MigrationFailed(
            "the query has no stateful operator (Spark allows none with asynchronous progress), so there is no state to"
            " migrate",
            advice="start the new query with the old checkpoint, which has the offsets of its sources",
            written="Nothing was written.",
        )
    if log.unfinished is not None and not drop_uncommitted:
        raise MigrationFailed(
            f"batch {log.unfinished} is planned and not committed: the query is running it, or died in it",
            advice="start the old code once more, let it finish the batch and stop it; or drop the batch with"
            f" --drop-uncommitted: {REPEATED}",
            written="Nothing was written.",
        )
    return log.committed


def _require_same_query(old: SparkCheckpoint, new: SparkCheckpoint) -> None:
    """Refuse checkpoints of queries with other operators, sources or settings, and other providers."""
    for checkpoint in (old, new):
        planned = checkpoint.log.last
        if planned is None or planned.provider not in PROVIDERS:
            provider = "no provider" if planned is None else planned.provider
            raise UnsupportedFormat(
                f"this release migrates state of {' and '.join(PROVIDERS)}, and here it is that of {provider}",
                savepoint=checkpoint.place,
                advice="start the new query with a new checkpoint",
                written="Nothing was written.",
            )
    was, now = ([one.facts.name for one in checkpoint.operators] for checkpoint in (old, new))
    details = []
    if was != now:
        details.append(f"  operators: {', '.join(was) or 'none'} -> {', '.join(now) or 'none'}")
    assert old.log.last is not None  # noqa: S101 - checked above
    assert new.log.last is not None  # noqa: S101 - checked above
    sources = [[one.name for one in log.sources] for log in (old.log.last, new.log.last)]
    if sources[0] != sources[1]:
        details.append(f"  sources: {', '.join(sources[0])} -> {', '.join(sources[1])}")
    providers = [log.provider for log in (old.log.last, new.log.last)]
    if providers[0] != providers[1]:
        details.append(
            f"  provider of state stores: {' -> '.join(providers)}; the old one stays, so set it for the probe"
        )
    for name, default in _SAME_SETTINGS.items():
        pinned, other = (log.settings.get(name, default) for log in (old.log.last, new.log.last))
        if pinned != other:
            details.append(f"  the setting {name}: {pinned} -> {other}; the old one stays, so set it before the probe")
    if details:
        raise IncompatibleState(
            "the new query differs in more than the types of its state",
            details=details,
            advice="operators and sources are paired by their numbers: keep them, or start with a new checkpoint",
            written="Nothing was written.",
        )


def _store_plan(store: SparkStore, kind: str, new: SparkStore, changes: FieldChanges) -> StorePlan:
    old_schema, schema = store.schema, new.schema
    if store.family is not None or new.family is not None:
        raise UnsupportedFormat(
            "state in column families of RocksDB is not migrated by this release",
            operator=store.operator,
            state=store.name,
            advice="start the new query with a new checkpoint",
            written="Nothing was written.",
        )
    if old_schema is None or schema is None:
        raise UnsupportedFormat(
            store.unsupported or new.unsupported,
            operator=store.operator,
            state=store.name,
            advice="start the new query with a new checkpoint",
            written="Nothing was written.",
        )
    file = new._partition(0).read(f"{METADATA}/schema")  # noqa: SLF001 - of this package
    key = conversion(old_schema.key, schema.key, "key", changes)
    value = conversion(old_schema.value, schema.value, _path_of_values(store.name, kind), changes)
    return StorePlan(store, kind, key, value, schema, file, new.facts.prefix_columns or 0, changes)


def _path_of_values(store: str, kind: str) -> str:
    """Return what the paths of a store's values begin with; both sides of a join have rows of their own."""
    if kind != _JOIN:
        return "value"
    side, _, rest = store.partition("-")
    return f"{side}.{'number' if f'-{rest}' == _NUMBERS_OF_JOINS else 'value'}"


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


def _problems(plans: list[StorePlan], changes: FieldChanges) -> Iterator[str]:
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
        if plan.is_converted and plan.store.has_prefixes:
            yield "its types change, and this release does not write keys with a prefix, as RocksDB has them"
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
    known = {path for plan in plans for path in (*plan.key.paths, *plan.value.paths)}
    advice = "; those of rows begin with left.value. or right.value." if kind == _JOIN else ""
    yield from (f"{path}: the new types have no such field{advice}" for path in sorted(changes.paths() - known))


def _collisions(plan: StorePlan) -> Iterator[str]:
    """Yield why keys must not become equal, and which rules are missing."""
    dropped = ", ".join(plan.key.dropped)
    if told := _NEVER_MERGED.get(plan.kind):
        yield f"{dropped}: keys may become equal without it: {told}; keep it, or start with a new checkpoint"
        return
    for path in missing_rules(plan.schema.value, plan.changes.merges):
        yield f"{path}: keys may become equal without {dropped}: say how their values are merged"


def _unlike_keys(plan: StorePlan) -> Iterator[str]:
    """Yield what is said of a key of sessions and not of the column of their values that repeats it, or otherwise."""
    for name in (one for one in plan.schema.key.names if one in plan.schema.value.names):
        ways = (plan.changes.renames.get(path, path).partition(".")[2] for path in (f"key.{name}", f"value.{name}"))
        fills = (plan.changes.fills.get(path, ...) for path in (f"key.{name}", f"value.{name}"))
        if len({*ways}) > 1 or len({repr(one) for one in fills}) > 1:
            yield f"value.{name}: it repeats key.{name}: say the same of both"


def _has_one_key(key: SparkType) -> bool:
    return all(field.type.word == "void" for field in key.fields)
