"""The checkpoint of a query, copied for a query whose state has other types: HDFS-backed provider, Spark's default.

    report = migrate_checkpoint("/data/checkpoints/clicks", "/data/checkpoints/clicks-v2", like="/data/probe",
                                changes={0: FieldChanges(fills={"value.count": 0})})

The source is only read. The state after its last committed batch becomes one snapshot for each partition; query id,
batches, offsets and watermark stay. Until the copy is complete its `metadata` is no JSON, so that Spark refuses to
start a query there; with the true content, in one step at the end, it is published. A run that died is told by what it
left in `metadata`: the same call resumes it.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from xxhash import xxh3_64_intdigest

from ...serializers.errors import (
    IncompatibleState,
    MigrationFailed,
    SourceChanged,
    TargetExists,
    UnsupportedFormat,
    located,
)
from ...state.storage.files import Folder
from ...state.storage.source_guard import Read
from ...state.storage.target_lock import claimed
from .conversion import Conversion, FieldChanges, conversion
from .logs import read_logs
from .merging import merge_values, missing_rules
from .operators import DEFAULT_STORE, METADATA
from .partitioning import partitions_of
from .reader import PREFIX, SparkCheckpoint, SparkStore
from .row_encoder import encode_rows, rows_of
from .rows import decode_rows
from .store_files import PartitionFiles
from .store_writer import EntryBlock, snapshot_name, snapshots, stored_rows

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from ...state.storage.target_lock import Claim
    from .compression import Compressing
    from .logs import PlannedBatch
    from .row_encoder import Encoded
    from .schema_files import StoreSchema
    from .spark_types import SparkType

    Numbers = NDArray[Any]

UNFINISHED = "stateshift_has_not_finished_this_copy_run_the_migration_again"
"""The first line of `metadata` in an unfinished copy: Spark's error shows it."""

_PROVIDER = "HDFSBackedStateStoreProvider"
_MOST_OPEN, _MOST_OPEN_ON_STORE = 256, 32
_PART_BYTES = 32 << 20
_NUMBER = re.compile(r"\d+")
_ATTEMPT = ".attempt-"
_OURS = re.compile(r"_(claim|run|late)-[0-9a-f]{12}")
_STREAMING = "spark.sql.streaming."
_SAME_SETTINGS = {
    _STREAMING + "aggregation.stateFormatVersion": "1",
    _STREAMING + "flatMapGroupsWithState.stateFormatVersion": "1",
    _STREAMING + "join.stateFormatVersion": "1",
    "spark.sql.dropDuplicates.deterministicKeyOrder.enabled": "false",
}
"""Settings that determine the types of state, and what Spark takes where a checkpoint has none."""
_REPEATED = (
    "the dropped batch is planned again under its old number, with what the sources have then: a sink that writes"
    " again may see rows twice, and one that remembers batches (files, Delta, a foreachBatch that checks) and has this"
    " one leaves out what is new in it"
)


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
        changes: What the types do not say.
    """

    store: SparkStore = attrs.field(repr=False)
    kind: str
    key: Conversion = attrs.field(repr=False)
    value: Conversion = attrs.field(repr=False)
    schema: StoreSchema
    schema_file: bytes = attrs.field(repr=False)
    changes: FieldChanges

    @property
    def is_converted(self) -> bool:
        """Whether entries change; else the files are copied."""
        return self.key.convert is not None or self.value.convert is not None

    @property
    def may_collide(self) -> bool:
        """Whether keys may become equal."""
        return bool(self.key.dropped)

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
    """

    source: SparkCheckpoint
    stores: tuple[StorePlan, ...]
    batch: int
    dropped_batch: int | None = None

    def digest(self) -> str:
        """Return a digest of what the copy will contain; a run resumes only what has the same one."""
        log = self.source.log
        facts = [self.source.place, log.query_id, self.batch, self.dropped_batch]
        facts += [[one.store.operator, one.store.name, one.schema_file.hex(), repr(one.changes)] for one in self.stores]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


@attrs.frozen
class StoreReport:
    """What was done with a store.

    Attributes:
        operator: The number of the operator.
        kind: The kind of the operator.
        store: The name of the store.
        is_converted: Whether its entries were converted; else its files were copied.
        read: The entries read from each partition; () if files were copied.
        written: The entries in each partition of the copy, counted after it was written.
        merged: The entries whose keys had become equal to others'.
        notes: What changed, a line each.
    """

    operator: int
    kind: str
    store: str
    is_converted: bool
    read: tuple[int, ...] = ()
    written: tuple[int, ...] = ()
    merged: int = 0
    notes: tuple[str, ...] = ()


@attrs.frozen
class CheckpointReport:
    """The result of a migration.

    Attributes:
        source: The place of the source.
        target: The place of the copy.
        query_id: The id of the query, which the copy keeps.
        batch: The last committed batch; the new query goes on with the next one.
        watermark_ms: The event-time watermark, in milliseconds since 1970; 0: none.
        dropped_batch: The batch that was not committed, and is planned again.
        stores: What was done with each store.
        dry_run: Whether nothing was written.
        seconds: The duration.
    """

    source: str
    target: str
    query_id: str
    batch: int
    watermark_ms: int
    dropped_batch: int | None
    stores: tuple[StoreReport, ...]
    dry_run: bool = False
    seconds: float = 0.0

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before the new query starts."""
        return () if self.dropped_batch is None else (f"batch {self.dropped_batch} is dropped: {_REPEATED}",)


def migrate_checkpoint(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    like: str | os.PathLike[str],
    changes: Mapping[int, FieldChanges] | None = None,
    drop_uncommitted: bool = False,
    dry_run: bool = False,
) -> CheckpointReport:
    """Copy a checkpoint, with the state of its last committed batch under new types.

    Args:
        source: The checkpoint; it is only read, and its query must not run.
        target: The folder of the copy; it must be missing or empty, or have what a run left that died.
        like: A checkpoint that the new query wrote, for example on a little data, whose types are the new ones.
        changes: What the types do not say, by the number of the operator.
        drop_uncommitted: Whether a batch that is planned and not committed is left out; else it is an error.
        dry_run: Whether to plan only.

    Raises:
        IncompatibleState: The new types cannot take over the state, or changes are missing.
        UnsupportedFormat: The checkpoint is of a kind that this release does not migrate.
        TargetExists: The target is not empty.
        SourceChanged: The query has gone on in the meantime.
        MigrationFailed: Entries were lost, or a batch is not committed.
    """
    start = time.perf_counter()
    old = SparkCheckpoint.open(source)
    with located(savepoint=old.place):
        plan = plan_migration(old, SparkCheckpoint.open(like), changes=changes or {}, drop_uncommitted=drop_uncommitted)
    folder = Folder.at(str(target).removeprefix(PREFIX))
    reports = tuple(map(_planned, plan.stores)) if dry_run else _Copy(plan, folder).run()
    return CheckpointReport(
        old.place,
        folder.place,
        old.log.query_id,
        plan.batch,
        old.log.watermark_ms,
        plan.dropped_batch,
        reports,
        dry_run,
        time.perf_counter() - start,
    )


def _planned(plan: StorePlan) -> StoreReport:
    store = plan.store
    return StoreReport(store.operator, plan.kind, store.name, plan.is_converted, notes=plan.notes)


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
    problems: list[str] = []
    for was, now in zip(old.operators, new.operators, strict=True):
        for store in was.stores:
            of_operator = changes.get(was.number, FieldChanges())
            plan = _store_plan(store, was.kind, now.store(store.name), of_operator)
            stores.append(plan)
            title = f"operator {was.title}" + ("" if store.name == DEFAULT_STORE else f", {store.name}")
            problems += (f"{title}: {problem}" for problem in _problems(plan))
    unknown = set(changes) - {one.number for one in old.operators}
    problems += (f"there is no operator {number}, of which changes are said" for number in sorted(unknown))
    if problems:
        raise IncompatibleState(
            "the state cannot be taken over as it stands",
            details=[f"  {problem}" for problem in problems],
            advice="for each field: --fill OPERATOR:PATH=VALUE (JSON; null for none), or --rename-field"
            " OPERATOR:OLD=NEW, or --merge-field OPERATOR:PATH=sum|min|max; such as --fill 0:value.count=0",
            written="Nothing was written.",
        )
    return MigrationPlan(old, tuple(stores), batch, old.log.unfinished)


def _require_committed(old: SparkCheckpoint, *, drop_uncommitted: bool) -> int:
    """Return the last committed batch."""
    log = old.log
    if log.committed is None:
        raise MigrationFailed(
            "no batch of the query is committed, so there is no state to migrate",
            advice="start the new query with a new checkpoint",
            written="Nothing was written.",
        )
    if log.unfinished is not None and not drop_uncommitted:
        raise MigrationFailed(
            f"batch {log.unfinished} is planned and not committed: the query is running it, or died in it",
            advice="start the old code once more, let it finish the batch and stop it; or drop the batch with"
            f" --drop-uncommitted: {_REPEATED}",
            written="Nothing was written.",
        )
    return log.committed


def _require_same_query(old: SparkCheckpoint, new: SparkCheckpoint) -> None:
    """Refuse checkpoints of queries with other operators, sources or settings, and other providers."""
    for checkpoint in (old, new):
        planned = checkpoint.log.last
        if planned is None or planned.provider != _PROVIDER or checkpoint.log.format != 1:
            provider = "no provider" if planned is None else planned.provider
            raise UnsupportedFormat(
                f"this release migrates state of {_PROVIDER}, checkpoint format 1, and here it is that of {provider},"
                f" format {checkpoint.log.format}",
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
    value = conversion(old_schema.value, schema.value, "value", changes)
    return StorePlan(store, kind, key, value, schema, file, changes)


_CONVERTED = {
    "aggregation",
    "dropDuplicates",
    "dropDuplicatesWithinWatermark",
    "applyInPandasWithState",
}


def _problems(plan: StorePlan) -> Iterator[str]:
    yield from (*plan.key.problems, *plan.value.problems)
    named = sorted(plan.key.unused | plan.value.unused)
    yield from (f"{path}: the new types have no such field" for path in named)
    if plan.is_converted and plan.kind not in _CONVERTED:
        yield f"its types change, and this release changes only those of {', '.join(sorted(_CONVERTED))}"
    old = plan.store.schema
    if plan.key.convert is not None and old is not None and _has_one_key(old.key) is not _has_one_key(plan.schema.key):
        yield "the state of one group becomes that of several, or the other way round"
    if plan.may_collide:
        for path in missing_rules(plan.schema.value, plan.changes.merges):
            dropped = ", ".join(plan.key.dropped)
            yield f"{path}: keys may become equal without {dropped}: say how their values are merged"


def _has_one_key(key: SparkType) -> bool:
    return all(field.type.word == "void" for field in key.fields)


@attrs.define
class _Copy:
    """A run that writes a copy."""

    plan: MigrationPlan
    folder: Folder

    def run(self) -> tuple[StoreReport, ...]:
        """Write the copy, and publish it."""
        source = self.plan.source
        with located(savepoint=self.folder.place), claimed(self.folder, (Read(source.folder),)) as claim:
            self._begin()
            try:
                self._copy_logs()
                reports = tuple(map(self._store, self.plan.stores))
                self._publish(claim)
            except Exception as error:
                if hasattr(error, "written"):
                    error.written = (
                        f"{self.folder.place} is an unfinished copy, which Spark refuses to start: run the same"
                        " migration again, or delete it. The source was only read."
                    )
                raise
        return reports

    @property
    def _marker(self) -> bytes:
        facts = {"source": self.plan.source.place, "plan": self.plan.digest()}
        return f"{UNFINISHED}\n{json.dumps(facts)}\n".encode()

    def _begin(self) -> None:
        """Mark the target as unfinished, unless it is what a run of the same plan left."""
        names = [name for name in self.folder.names() if not _OURS.fullmatch(name) and _ATTEMPT not in name]
        if not names:
            self.folder.write("metadata", self._marker)
            return
        found = self.folder.read("metadata") if "metadata" in names else b""
        if found == self._marker:
            for name in self.folder.names_below():
                if _ATTEMPT in name:
                    self.folder.delete(name)
            return
        is_ours = found.startswith(UNFINISHED.encode())
        what = "has what another migration left unfinished" if is_ours else "is not empty"
        raise TargetExists(
            f"the target {what}",
            advice="delete the folder, or name another one" if is_ours else "name another folder",
            written="Nothing was written.",
        )

    def _copy_logs(self) -> None:
        """Copy everything but state and what belongs to batches that were not committed."""
        source = self.plan.source.folder
        for name in source.names_below():
            top, *inner = name.split("/")
            is_hidden = any(part.startswith(".") for part in (top, *inner))
            if is_hidden or top == "state" or name == "metadata" or top.startswith("_"):
                continue
            if top in {"offsets", "commits"} and not self._is_kept(inner):
                continue
            _copied(source, name, self.folder)
        for plan in self.plan.stores:
            number = plan.store.operator
            metadata = source.folder(f"state/{number}")
            if metadata.exists(METADATA):
                for name in metadata.folder(METADATA).names_below():
                    if not name.rpartition("/")[2].startswith("."):
                        _copied(source, f"state/{number}/{METADATA}/{name}", self.folder)

    def _is_kept(self, inner: list[str]) -> bool:
        return len(inner) == 1 and _NUMBER.fullmatch(inner[0]) is not None and int(inner[0]) <= self.plan.batch

    def _store(self, plan: StorePlan) -> StoreReport:
        """Write the partitions of a store, and count what was written."""
        store = plan.store
        with located(operator=store.operator, state=store.name):
            first = self._target_of(store, 0).folder(METADATA)
            first.create()
            first.write("schema", plan.schema_file)
            if not plan.is_converted:
                for partition in range(store.partitions):
                    self._copy_partition(store, partition)
                return _planned(plan)
            read, merged = self._convert(plan)
            written = tuple(self._count(store, partition) for partition in range(store.partitions))
            if sum(read) != sum(written) + merged or (plan.key.convert is None and read != written):
                raise MigrationFailed(
                    f"{sum(read):,} entries were read, {sum(written):,} are in the copy, {merged:,} were merged",
                    details=[f"  read from each partition: {read}", f"  written to each: {written}"],
                    advice="please report this; the copy must not be used",
                )
            return attrs.evolve(_planned(plan), read=read, written=written, merged=merged)

    def _target_of(self, store: SparkStore, partition: int) -> Folder:
        folder = self.folder.folder(f"state/{store.operator}/{partition}")
        return folder if store.name == DEFAULT_STORE else folder.folder(store.name)

    def _copy_partition(self, store: SparkStore, partition: int) -> None:
        """Copy the files that are the last committed version of a partition."""
        source, target = store._partition(partition), self._target_of(store, partition)  # noqa: SLF001 - of this package
        target.create()
        for name in PartitionFiles.of_version(source, f"partition {partition}", self.plan.batch + 1).names:
            _copied(source, name, target)

    def _count(self, store: SparkStore, partition: int) -> int:
        """Read what was written, and count it."""
        target = self._target_of(store, partition)
        files = PartitionFiles.of_version(
            target, target.place, self.plan.batch + 1, has_checksums=self._settings.has_row_checksums
        )
        return sum(1 for _ in files.entries())

    @property
    def _settings(self) -> PlannedBatch:
        planned = self.plan.source.log.last
        assert planned is not None  # noqa: S101 - a batch is committed
        return planned

    def _convert(self, plan: StorePlan) -> tuple[tuple[int, ...], int]:
        """Convert the entries of a store; return how many each partition had, and how many were merged."""
        store, name = plan.store, snapshot_name(self.plan.batch + 1)
        missing = [one for one in range(store.partitions) if not self._target_of(store, one).exists(name)]
        if plan.may_collide:
            return self._merge(plan)
        if plan.key.convert is None:
            for partition in missing:
                self._route(plan, [partition], [partition])
        else:
            for targets in self._together(missing):
                self._route(plan, list(range(store.partitions)), targets)
        return tuple(one.entries for one in store.measure()), 0

    def _route(self, plan: StorePlan, sources: list[int], targets: list[int]) -> None:
        """Convert the entries of some partitions, and write those that belong to others."""
        with self._open(plan, targets) as streams:
            for source in sources:
                for keys, values in plan.store.stored_blocks(source):
                    with located(file=f"state/{plan.store.operator}/{source}"):
                        block = self._block(plan, source, keys, values)
                    for stream, target in zip(streams, targets, strict=True):
                        stream.write(block.share(target))

    def _open(self, plan: StorePlan, targets: list[int]) -> AbstractContextManager[list[Compressing]]:
        folders = [self._target_of(plan.store, target) for target in targets]
        return snapshots(folders, self.plan.batch + 1, self._settings.codec)

    def _merge(self, plan: StorePlan) -> tuple[tuple[int, ...], int]:
        """Convert the entries of a store whose keys may become equal, a part of the keys at a time."""
        store = plan.store
        sizes = store.measure()
        parts = 1 + sum(one.size_bytes for one in sizes) // _PART_BYTES
        merged = 0
        for targets in self._together(list(range(store.partitions))):
            with self._open(plan, targets) as streams:
                for part in range(parts):
                    block, fewer = self._merged_part(plan, targets, part, parts)
                    merged += fewer
                    for stream, target in zip(streams, targets, strict=True):
                        stream.write(block.share(target))
        return tuple(one.entries for one in sizes), merged

    def _merged_part(self, plan: StorePlan, targets: list[int], part: int, parts: int) -> tuple[EntryBlock, int]:
        """Return the entries of some partitions, of a part of the keys, and how many were merged."""
        wanted, group_of = set(targets), dict[bytes, int]()
        partitions: list[int] = []
        values: list[bytes] = []
        groups: list[int] = []
        for source in range(plan.store.partitions):
            for blocks in plan.store.stored_blocks(source):
                keys, new_values, partition = self._converted(plan, source, *blocks)
                for key, value, of in zip(rows_of(keys), rows_of(new_values), partition.tolist(), strict=True):
                    if of in wanted and xxh3_64_intdigest(key) % parts == part:
                        group = group_of.setdefault(key, len(group_of))
                        if group == len(partitions):
                            partitions.append(of)
                        values.append(value)
                        groups.append(group)
        if not values:
            rows: list[bytes] = []
        else:
            rows = merge_values(values, groups, plan.schema.value, plan.changes.merges)
        at = np.asarray(partitions, np.int64)
        block = self._entries(plan, stored_rows([*group_of]), stored_rows(rows), at)
        return block, len(values) - len(rows)

    def _together(self, partitions: list[int]) -> Iterator[list[int]]:
        """Yield partitions whose files are written at the same time."""
        most = _MOST_OPEN if self.folder.is_local else _MOST_OPEN_ON_STORE
        for start in range(0, len(partitions), most):
            yield partitions[start : start + most]

    def _block(self, plan: StorePlan, source: int, keys: list[bytes], values: list[bytes]) -> EntryBlock:
        """Convert a block of entries."""
        return self._entries(plan, *self._converted(plan, source, keys, values))

    def _entries(self, plan: StorePlan, keys: Encoded, values: Encoded, partition: Numbers) -> EntryBlock:
        has_checksums = self._settings.has_row_checksums
        return EntryBlock.of(keys, values, partition, plan.store.partitions, has_checksums=has_checksums)

    def _converted(
        self, plan: StorePlan, source: int, keys: list[bytes], values: list[bytes]
    ) -> tuple[Encoded, Encoded, Numbers]:
        """Return new keys, new values, and the partition of each."""
        store, old = plan.store, plan.store.schema
        assert old is not None  # noqa: S101 - it was compared
        partition = np.full(len(keys), source, np.int64)
        new_keys = stored_rows(keys)
        if plan.key.convert is not None:
            column = decode_rows(keys, old.key)
            if (partitions_of(column, old.key, store.partitions) != source).any():
                raise UnsupportedFormat(
                    "keys do not lie in the partitions that Spark's hash has for them, so that it is not known where"
                    " changed keys belong",
                    advice="keep the keys as they are; a Spark before 3.3 may have placed them by fewer columns",
                )
            column = plan.key.convert(column)
            partition = partitions_of(column, plan.schema.key, store.partitions)
            new_keys = encode_rows(column, plan.schema.key)
        new_values = stored_rows(values)
        if plan.value.convert is not None:
            new_values = encode_rows(plan.value.convert(decode_rows(values, old.value)), plan.schema.value)
        return new_keys, new_values, partition

    def _publish(self, claim: Claim) -> None:
        """Check that the query has not gone on, and let Spark see the copy."""
        source = self.plan.source
        log = read_logs(source.folder)
        if (log.committed, log.planned) != (source.log.committed, source.log.planned):
            raise SourceChanged(
                f"the query has gone on to batch {log.planned} while its checkpoint was copied",
                advice="stop the query, delete the copy, and migrate again",
            )
        for name in {name.rpartition("/")[0] for name in self.folder.names_below() if "/" in name}:
            self.folder.folder(name).sync()
        claim.require()
        if self.folder.read("metadata") != self._marker:
            raise MigrationFailed("something else has written to the target", advice="find out what, and migrate again")
        self.folder.write("metadata", source.folder.read("metadata"))
        self.folder.sync()


def _copied(source: Folder, name: str, target: Folder) -> None:
    """Copy a file; it gets its name when it is complete."""
    parent, _, last = name.rpartition("/")
    to = target.folder(parent) if parent else target
    to.create()
    attempt = to.attempt_name(last)
    with source.open_range(name) as reader, to.output(attempt) as stream:
        for piece in reader.pieces():
            stream.write(piece)
        stream.sync()
    to.rename(attempt, last)
