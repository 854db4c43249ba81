"""Verification of a copy: every entry of it against the source, converted once more, and not encoded.

Of each store the entries that should be there and those that are there are turned into texts (`texts`), whose digests
are summed by partition and a part of the keys. Where sums differ, the entries of these parts are compared one by one,
and the first keys are named. So an error of an encoder shows, which a comparison of encoded rows would not show; what
both sides share is the conversion of columns.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
from xxhash import xxh3_64_intdigest, xxh3_128_intdigest

from ....serializers.errors import (
    CorruptFile,
    IncompatibleState,
    MigrationFailed,
    SavepointNotFound,
    StateShiftError,
    cause_text,
    located,
    shown,
)
from ....serializers.wording import many
from ....state.progress import Progress
from ....state.savepoint.reader import folder_at
from ....state.savepoint.verify import Check, Outcome, VerifyReport
from ....state.storage.roots import stored_place
from ..checking import Known
from ..columns import path_of_values
from ..json_values import json_values
from ..logs import with_ids
from ..query import describe_stored
from ..reader import PREFIX, SparkCheckpoint
from .conversion import not_repeated
from .copying import UNFINISHED
from .entries import moved_keys
from .merging import merge_columns
from .new_side import NewSide
from .partitioning import partitions_of
from .plan import Said, plan_migration
from .record import RECORD, CopyRecord
from .row_encoder import longs_of
from .texts import texts_of
from .variable_entries import Converting
from .variables import STEPS

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from ....state.savepoint.reader import AllowedRoot
    from ....state.storage.files import Folder
    from ..reader import SparkStore
    from ..spark_types import SparkType
    from .conversion import FieldChanges
    from .plan import MigrationPlan
    from .store_plan import StorePlan
    from .variables import ProcessorPlan

    Numbers = NDArray[Any]
    Source = Callable[[], Iterator["_Rows"]]
    Sums = dict[tuple[int, int], int]
    """The sum of the digests of rows, by partition and bucket."""

_BUCKETS = 256
"""The parts of the keys of a partition of which sums are compared: what differs is looked for in these alone."""
_MOST_BUCKETS, _MOST_NAMED = 8, 3
_PART_BYTES = 32 << 20
_MASK = (1 << 128) - 1
_GONE = (
    "Spark deletes the files of old batches (spark.sql.streaming.minBatchesToRetain): verify a copy before the queries"
    " go on, or put the files back from a backup"
)


def verify_checkpoint(
    copy: str | os.PathLike[str],
    *,
    progress: Callable[[Progress], None] = lambda _: None,
    allow_roots: Iterable[AllowedRoot] = (),
) -> VerifyReport:
    """Return a report of the checks of a copy that `migrate_checkpoint` made.

    The batch that was copied is compared, in the source and in the copy, also if their queries have gone on since.
    What a function or a DataFrame filled in is not known again: its fields are `unproven`.

    Args:
        copy: The copy; `spark:` may stand before it.
        progress: Called with the progress, often.
        allow_roots: Further folders that may contain the source; as in `Savepoint.open`.

    Raises:
        DeclarationError: It has no record of a migration.
        MigrationFailed: It is an unfinished copy.
        SavepointNotFound: There is no checkpoint; or files of the batch are gone, in the source or in the copy.
        UntrustedPlace: The source is in another store.
        CorruptFile: The source is damaged, or the record. Damage to the copy is a failed check.
    """
    folder = folder_at(str(copy).removeprefix(PREFIX), allow_roots)
    if folder.exists("metadata") and folder.read("metadata").startswith(UNFINISHED.encode()):
        raise MigrationFailed(
            f"{folder.place} is an unfinished copy",
            advice="run the same migration again, which finishes it",
            written="Nothing was written.",
        )
    if not folder.exists(RECORD):
        SparkCheckpoint.of(folder)  # what is no checkpoint at all is called so
    record = CopyRecord.read(folder)
    with located(savepoint=folder.place):
        place = stored_place(record.source, folder)
    source = _opened(place, record, "the source")
    if source.log.query_id != record.query_id:
        raise CorruptFile(
            f"the source is the checkpoint of query {source.log.query_id}, and the copy is of query {record.query_id}",
            savepoint=source.place,
            advice="put the source back where it was; or name its place with --checkpoint-root OLD=NEW",
            written="Nothing was written.",
        )
    found = _opened(folder, record, "the copy")
    new = NewSide(found, describe_stored(found), is_planned=False)
    said = Said(
        {one.number: one.changes() for one in record.operators if one.becomes is not None},
        {one.number: one.becomes for one in record.operators},
        drop_uncommitted=True,
        is_done=True,
    )
    try:
        plan = plan_migration(source, new, Known(), said)
    except IncompatibleState as error:
        detail = "; ".join(["it is not the copy that its record describes", *map(str.strip, error.what.split("\n"))])
        return VerifyReport(folder.place, (Check("structure", Outcome.FAILED, detail, RECORD),))
    return _Verifying(record, plan, found, progress).run()


def _opened(folder: Folder, record: CopyRecord, name: str) -> SparkCheckpoint:
    """Open a checkpoint after the batch that was copied."""
    batch = str(record.batch)
    if folder.exists("metadata") and not all(folder.folder(one).exists(batch) for one in ("offsets", "commits")):
        raise SavepointNotFound(
            f"{name} has no log of batch {batch} any more, which was copied",
            savepoint=folder.place, advice=_GONE, written="Nothing was written.",
        )  # fmt: skip
    return SparkCheckpoint.of(folder, record.batch)


@attrs.frozen
class _Rows:
    """Some entries.

    Attributes:
        key: Their keys.
        value: Their values.
        partition: The partition of each.
    """

    key: pa.StructArray
    value: pa.StructArray
    partition: Numbers

    def take(self, at: Numbers) -> _Rows:
        numbers = longs_of(at)
        return _Rows(self.key.take(numbers), self.value.take(numbers), self.partition[at])


@attrs.frozen
class _Table:
    """A store of the copy, and what should be in it.

    Attributes:
        store: The store.
        expected: Yields the entries that should be there.
        kind: The kind of its operator.
        unknown: What is not known of its entries: the paths of fields, and from where they were.
        fields: These fields, by their numbers: those of keys, those of values.
        grouping: Where a field of the keys is not known, what has the partition of a key.
    """

    store: SparkStore
    expected: Source
    kind: str
    unknown: dict[str, str]
    fields: tuple[frozenset[int], frozenset[int]]
    grouping: SparkType | None = None

    @property
    def where(self) -> str:
        return f"operator {self.store.operator} ({self.kind}), {self.store.name}"

    def should(self) -> Iterator[_Rows]:
        """Yield the entries that should be there; where keys are not known, they are of no partition."""
        for one in self.expected():
            yield one if self.grouping is None else attrs.evolve(one, partition=np.zeros_like(one.partition))

    def found(self) -> Iterator[_Rows]:
        """Yield the entries that are there.

        Raises:
            CorruptFile: A key that is not known again lies where Spark does not look for it.
        """
        for block in self.store.blocks():
            partition = np.full(len(block.key), block.partition, np.int64)
            if self.grouping is not None:
                if (partitions_of(block.key, self.grouping, self.store.partitions) != partition).any():
                    raise CorruptFile(f"keys of partition {block.partition} belong to others")
                partition = np.zeros_like(partition)
            yield _Rows(block.key, block.value, partition)

    def digested(self, rows: Iterable[_Rows]) -> Iterator[tuple[_Rows, list[bytes], list[int]]]:
        """Yield rows, the texts of their keys, and the digest of each row; of a list its place counts, too."""
        last, place = (-1, b""), 0
        for one in rows:
            keys = texts_of(_kept(one.key, self.fields[0]))
            texts = [key + value for key, value in zip(keys, texts_of(_kept(one.value, self.fields[1])), strict=True)]
            if self.store.kind == "list":
                for at, pair in enumerate(zip(one.partition.tolist(), keys, strict=True)):
                    place = place + 1 if pair == last else 0
                    last = pair
                    texts[at] += b"%d" % place
            yield one, [*keys], [*map(xxh3_128_intdigest, texts)]


def _kept(column: pa.StructArray, without: frozenset[int]) -> pa.Array:
    if not without:
        return column
    kept = [column.field(at) for at in range(column.type.num_fields) if at not in without]
    fields = [pa.field(str(at), one.type) for at, one in enumerate(kept)]
    return pa.Array.from_buffers(pa.struct(fields), len(column), [None], children=kept)


@attrs.define
class _Side:
    """The sums of one side of a store.

    Attributes:
        counts: The entries of each partition.
        sums: The sums of digests, modulo 2^128.
    """

    counts: Counter[int] = attrs.field(factory=Counter)
    sums: Sums = attrs.field(factory=lambda: defaultdict(int))

    def add(self, rows: _Rows, keys: list[bytes], digests: list[int]) -> None:
        partitions = rows.partition.tolist()
        self.counts.update(partitions)
        sums = self.sums
        for partition, key, digest in zip(partitions, keys, digests, strict=True):
            sums[partition, _bucket(key)] += digest

    def differing(self, other: _Side) -> list[tuple[int, int]]:
        found = sorted({*self.sums, *other.sums})
        return [at for at in found if (self.sums.get(at, 0) - other.sums.get(at, 0)) & _MASK]


def _bucket(key: bytes) -> int:
    return xxh3_64_intdigest(key) % _BUCKETS


@attrs.define
class _Verifying:
    record: CopyRecord
    plan: MigrationPlan
    copy: SparkCheckpoint
    progress: Callable[[Progress], None]
    done: int = 0
    entries: int = 0
    total: int = 0

    def run(self) -> VerifyReport:
        gone_on = [
            f"{name} has gone on to batch {log.planned}: batch {self.record.batch} is compared"
            for name, log in (("the source", self.plan.source.log), ("the copy", self.copy.log))
            if log.planned != self.record.batch
        ]
        said = f"a copy of {self.plan.source.place} after batch {self.record.batch}"
        checks = [Check("structure", Outcome.OK, "; ".join([said, *gone_on]), RECORD), self._logs()]
        tables = [*self._tables()]
        self.total = 2 * sum(one.store.partitions for one in tables)
        for table in tables:
            checks += self._compared(table)
        return VerifyReport(self.copy.place, tuple(checks))

    def _logs(self) -> Check:
        """Compare the logs of the copy, up to the batch; Spark deletes old ones, so some may be missing later."""
        source, copy, batch = self.plan.source, self.copy, self.record.batch
        has_gone_on = {source.log.planned, copy.log.planned} != {batch}
        problems = []
        if (source.log.query_id == copy.log.query_id) is self.record.has_new_id:
            problems.append(f"the query is {copy.log.query_id}, and that of the source {source.log.query_id}")
        there = {*copy.folder.names_below()}
        for name in sorted(source.folder.names_below()):
            if not self._is_compared(name, has_gone_on=has_gone_on):
                continue
            if name not in there:
                problems += [f"{name} is missing"] * (not has_gone_on)
                continue
            expected = source.folder.read(name)
            if name == f"commits/{batch}" and self.plan.log.ids != source.log.ids:
                expected = with_ids(expected, self.plan.log.ids)
            if copy.folder.read(name) != expected:
                problems.append(f"{name} differs from that of the source")
        if problems:
            shortened = [*problems[:_MOST_NAMED], "and others"] if len(problems) > _MOST_NAMED else problems
            return Check("logs", Outcome.FAILED, "; ".join(shortened), f"batch {batch}")
        return Check("logs", Outcome.OK, "query, offsets and watermark are as planned", f"batch {batch}")

    def _is_compared(self, name: str, *, has_gone_on: bool) -> bool:
        """Whether a file of the source is a log that the copy has as it is."""
        top, _, last = name.partition("/")
        if top == "sources":
            return not has_gone_on and not name.endswith(".crc") and "/." not in name
        return top in {"offsets", "commits"} and last.isdigit() and int(last) <= self.record.batch

    def _tables(self) -> Iterator[_Table]:
        """Yield every store of the copy."""
        covered = set()
        for plan in self.plan.stores:
            covered.add((plan.number, plan.now.name))
            values = path_of_values(plan.store.name, plan.kind)
            unknown = _unknown(self.record, None if plan.is_empty else plan.store.operator, (values, "key"))
            fields = _fields(plan.changes, "key", plan.schema.key), _fields(plan.changes, values, plan.schema.value)
            grouping = plan.grouping(plan.schema.key) if fields[0] else None
            yield _Table(plan.now, partial(_entries, plan), plan.kind, unknown, fields, grouping)
        for processor in self.plan.processors:
            for variable in processor.variables:
                prefix = variable.now.name + STEPS.get(variable.now.kind, "")
                old = processor.operator.number
                for store in (variable.now, *variable.indexes.values()):
                    covered.add((processor.number, store.name))
                    is_own, schema = store.name == variable.now.name, store.schema
                    assert schema is not None  # noqa: S101 - variables are column families
                    unknown = _unknown(self.record, old, (prefix,)) if is_own else {}
                    expires = is_own and variable.deadlines.are
                    of = schema.value.fields[0].type if expires else schema.value
                    hidden = _fields(processor.changes, prefix, of) if is_own else frozenset[int]()
                    if expires and hidden:
                        hidden = frozenset({0})  # the value stands beside its deadline
                    converting = Converting(self.plan, processor, variable)
                    yield _Table(
                        store,
                        _of_variable(converting, processor, store),
                        processor.now.kind,
                        unknown,
                        (frozenset(), hidden),
                    )
        for operator in self.copy.operators:
            for store in operator.stores:
                if (operator.number, store.name) not in covered:
                    yield _Table(store, lambda: iter(()), operator.kind, {}, (frozenset(), frozenset()))

    def _compared(self, table: _Table) -> Iterator[Check]:
        """Yield the checks of a store."""
        should, there, where = _Side(), _Side(), table.where
        try:
            with located(savepoint=self.plan.source.place):
                for found in table.digested(self._counted(table.should())):
                    should.add(*found)
        except SavepointNotFound as error:
            if self.plan.source.log.planned != self.record.batch:
                error.advice = _GONE
            raise
        self._end(table)
        try:
            for found in table.digested(self._counted(table.found())):
                there.add(*found)
        except SavepointNotFound as error:
            if self.copy.log.planned == self.record.batch:
                yield Check("values", Outcome.FAILED, cause_text(error), where)
                return
            error.advice = _GONE
            raise
        except StateShiftError as error:
            yield Check("values", Outcome.FAILED, cause_text(error), where)
            return
        finally:
            self._end(table)
        expected, actual = sum(should.counts.values()), sum(there.counts.values())
        if table.fields[0] and self._merged(table):
            of = next(one for one in self.record.stores if (one.operator, one.store) == self._at(table))
            is_same = of.written == actual and of.read == expected
            detail = f"{many(actual, 'entry', 'entries')}, of which keys were merged by {_said(table.unknown)}"
            yield Check("values", Outcome.UNPROVEN if is_same else Outcome.FAILED, detail, where)
            return
        differing = should.differing(there)
        if differing or expected != actual:
            details = [f"{expected:,} should be there, {actual:,} are"] * (expected != actual)
            details += self._named(table, {*differing[:_MOST_BUCKETS]})
            yield Check("values", Outcome.FAILED, "; ".join(details), where)
        else:
            partitions = many(table.store.partitions, "partition")
            detail = f"{many(actual, 'entry', 'entries')} in {partitions} are as planned"
            yield Check("values", Outcome.OK, detail, where)
        for path, made_by in table.unknown.items():
            yield Check("values", Outcome.UNPROVEN, f"{path} is not compared: it is of {made_by}", where)

    @staticmethod
    def _at(table: _Table) -> tuple[int, str]:
        return table.store.operator, table.store.name

    def _merged(self, table: _Table) -> int:
        found = (one.merged for one in self.record.stores if (one.operator, one.store) == self._at(table))
        return next(found, 0)

    def _counted(self, rows: Iterable[_Rows]) -> Iterator[_Rows]:
        for one in rows:
            self.entries += len(one.key)
            self.progress(Progress("verifying", self.done, self.total, self.entries))
            yield one

    def _end(self, table: _Table) -> None:
        self.done += table.store.partitions
        self.progress(Progress("verifying", self.done, self.total, self.entries))

    def _named(self, table: _Table, buckets: set[tuple[int, int]]) -> Iterator[str]:
        """Yield what differs of the first keys."""
        wanted = {bucket for _, bucket in buckets}
        sides: list[dict[bytes, list[tuple[int, int]]]] = []
        names: dict[bytes, str] = {}
        schema = table.store.schema
        assert schema is not None  # noqa: S101 - its entries were read
        for rows in (table.should(), table.found()):
            side: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
            for one, keys, digests in table.digested(rows):
                at = [number for number, key in enumerate(keys) if _bucket(key) in wanted]
                new = [number for number in at if keys[number] not in names]
                if new:
                    found = json_values(one.take(np.asarray(new, np.int64)).key, schema.key)
                    names |= {keys[number]: shown(name) for number, name in zip(new, found, strict=True)}
                for number in at:
                    side[keys[number]].append((int(one.partition[number]), digests[number]))
            sides.append(side)
        should, there = sides
        wrong = [key for key in names if Counter(should.get(key)) != Counter(there.get(key))]
        for key in wrong[:_MOST_NAMED]:
            yield f"{names[key]}: {_difference(should.get(key, []), there.get(key, []))}"
        if len(wrong) > _MOST_NAMED:
            yield "and others"


def _difference(should: Sequence[tuple[int, int]], there: Sequence[tuple[int, int]]) -> str:
    """Return in words how the entries of a key differ."""
    if not there:
        return "it is missing"
    if not should:
        return "it should not be there"
    places = sorted({one for one, _ in should}), sorted({one for one, _ in there})
    if places[0] != places[1]:
        belongs, lies = (", ".join(map(str, one)) for one in places)
        return f"it is in partition {lies}, and belongs to {belongs}"
    if len(should) != len(there):
        return f"it has {many(len(there), 'entry', 'entries')}, and should have {len(should):,}"
    return "its value is another one"


def _unknown(record: CopyRecord, operator: int | None, prefixes: tuple[str, ...]) -> dict[str, str]:
    """Return what is not known of the fields below some paths."""
    said = next((one.unknown for one in record.operators if one.number == operator), {})
    return {path: of for path, of in said.items() if path.startswith(prefixes)}


def _said(unknown: dict[str, str]) -> str:
    return ", ".join(unknown.values())


def _fields(changes: FieldChanges, prefix: str, of: SparkType) -> frozenset[int]:
    """Return the numbers of the fields of a struct that are not known, or are around such."""
    paths = [path for path, function in changes.converters.items() if function is not_repeated]
    if prefix in paths:
        return frozenset(range(len(of.fields)))
    below = [f"{path}.".removeprefix(f"{prefix}.") for path in paths if path.startswith(f"{prefix}.")]
    starts = [tuple(name + step for step in ".[{") for name in of.names]
    return frozenset(at for at, start in enumerate(starts) if any(one.startswith(start) for one in below))


def _entries(plan: StorePlan) -> Iterator[_Rows]:
    """Yield the entries that a store should have."""
    if not plan.may_collide:
        for partition in range(plan.store.partitions):
            yield from _converted(plan, partition)
        return
    parts = 1 + sum(one.size_bytes for one in plan.store.measure()) // _PART_BYTES
    for part in range(parts):
        found = [one for one in _of_part(plan, part, parts) if len(one.key)]
        if found:
            yield _with_merged(plan, found)


def _converted(plan: StorePlan, partition: int) -> Iterator[_Rows]:
    for block in plan.store.blocks_of(partition):
        key, at = moved_keys(plan, partition, block.key)
        value = block.value if plan.value.convert is None else plan.value.convert(block.value)
        yield _Rows(key, value, at)


def _of_part(plan: StorePlan, part: int, parts: int) -> Iterator[_Rows]:
    for partition in range(plan.store.partitions):
        for one in _converted(plan, partition):
            keys = texts_of(one.key)
            at = [number for number, key in enumerate(keys) if xxh3_64_intdigest(key) % parts == part]
            yield one.take(np.asarray(at, np.int64))


def _with_merged(plan: StorePlan, found: list[_Rows]) -> _Rows:
    """Merge the values of keys that became equal."""
    rows = _Rows(
        pa.concat_arrays([one.key for one in found]),
        pa.concat_arrays([one.value for one in found]),
        np.concatenate([one.partition for one in found]),
    )
    if plan.key.by_function:
        return rows  # which of them became equal is not known
    number: dict[bytes, int] = {}
    groups = [number.setdefault(key, len(number)) for key in texts_of(rows.key)]
    if len(number) == len(groups):
        return rows
    firsts = np.unique(np.asarray(groups), return_index=True)[1]
    value = merge_columns(rows.value, groups, plan.schema.value, plan.changes.merges)
    return _Rows(rows.key.take(longs_of(firsts)), value, rows.partition[firsts])


def _of_variable(converting: Converting, processor: ProcessorPlan, store: SparkStore) -> Source:
    """Return what yields the entries that a store of a variable should have."""

    def expected() -> Iterator[_Rows]:
        for source in range(processor.files.partitions):
            for to, key, value, partition in converting.columns(source):
                if to.name == store.name:
                    yield _Rows(key, value, np.full(len(key), source, np.int64) if partition is None else partition)

    return expected
