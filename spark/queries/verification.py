"""Verification of a copy: its logs and entries against those of the source, which are converted once more.

    expected_entries    what should be there
    compared_entries    sums of digests on both sides, and the first keys that differ

So an error of an encoder shows, which a comparison of encoded rows would not show. The types are those that the copy
says it has.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs

from ...compat.queries.columns import path_of_values
from ...compat.queries.store_pairs import STEPS
from ...serializers.errors import (
    CorruptFile,
    IncompatibleState,
    MigrationFailed,
    SavepointNotFound,
    StateShiftError,
    cause_text,
    located,
)
from ...serializers.spark_rows.pairing import is_within
from ...serializers.ways_out import Option, WayOut
from ...serializers.wording import many
from ...state.formats.flink.roots import folder_at, stored_place
from ...state.formats.spark.logs import with_ids
from ...state.formats.spark.reader import PREFIX, SparkCheckpoint
from ...state.migration.queries.checkpoint_copy import UNFINISHED
from ...state.migration.queries.compared_entries import Side, Table, differences
from ...state.migration.queries.conversion import not_repeated
from ...state.migration.queries.expected_entries import of_store, of_variable
from ...state.migration.queries.preparation import NewSide, Said, prepare_copy
from ...state.migration.queries.record import RECORD, CopyRecord
from ...state.progress import Progress
from ...state.savepoint.verify import Check, Outcome, VerifyReport

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ...compat.queries.changes import FieldChanges
    from ...serializers.spark_rows.spark_types import SparkType
    from ...state.formats.flink.roots import AllowedRoot
    from ...state.migration.queries.expected_entries import Rows
    from ...state.migration.queries.operator_copy import OperatorCopy, StoreCopy
    from ...state.migration.queries.preparation import PreparedCopy
    from ...state.storage.files import Folder

_MOST_NAMED = 3
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
        raise MigrationFailed.before_writing(
            f"{folder.place} is an unfinished copy",
            advice="run the same migration again, which finishes it",
        )
    if not folder.exists(RECORD):
        SparkCheckpoint.of(folder)  # what is no checkpoint at all is called so
    record = CopyRecord.read(folder)
    with located(savepoint=folder.place):
        place = stored_place(record.source, folder)
    source = _opened(place, record, "the source")
    if source.log.query_id != record.query_id:
        raise CorruptFile.before_writing(
            f"the source is the checkpoint of query {source.log.query_id}, and the copy is of query {record.query_id}",
            savepoint=source.place,
            advice=(
                "put the source back where it was",
                WayOut.telling("say where it is:", Option.CHECKPOINT_ROOT, "OLD", "NEW"),
            ),
        )
    found = _opened(folder, record, "the copy")
    new = NewSide(found, found.describe(), is_planned=False)
    said = Said(
        {one.number: one.changes() for one in record.operators if one.becomes is not None},
        {one.number: one.becomes for one in record.operators},
        drop_uncommitted=True,
        is_done=True,
    )
    try:
        plan = prepare_copy(source, new, said)
    except IncompatibleState as error:
        detail = "; ".join(["it is not the copy that its record describes", *map(str.strip, error.what.split("\n"))])
        return VerifyReport(folder.place, (Check("structure", Outcome.FAILED, detail, RECORD),))
    return _Verifying(record, plan, found, progress).run()


def _opened(folder: Folder, record: CopyRecord, name: str) -> SparkCheckpoint:
    """Open a checkpoint after the batch that was copied."""
    batch = str(record.batch)
    if folder.exists("metadata") and not all(folder.folder(one).exists(batch) for one in ("offsets", "commits")):
        raise SavepointNotFound.before_writing(
            f"{name} has no log of batch {batch} any more, which was copied",
            savepoint=folder.place, advice=_GONE,
        )  # fmt: skip
    return SparkCheckpoint.of(folder, record.batch)


@attrs.define
class _Verifying:
    record: CopyRecord
    plan: PreparedCopy
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
        compared = partial(self._is_compared, has_gone_on=has_gone_on)
        ours, theirs = ({*filter(compared, one.folder.names_below())} for one in (copy, source))
        alone = sorted(ours ^ theirs if not has_gone_on else ())
        problems += (f"{name} is missing" if name in theirs else f"{name} is not in the source" for name in alone)
        for name in sorted(ours & theirs):
            expected = source.folder.read(name)
            if name == f"commits/{batch}" and self.plan.log.ids != source.log.ids:
                expected = with_ids(expected, self.plan.log.ids)
            if copy.folder.read(name) != expected:
                problems.append(f"{name} differs from that of the source")
        if problems:
            shortened = [*problems[:_MOST_NAMED], "and others"] if len(problems) > _MOST_NAMED else problems
            return Check("logs", Outcome.FAILED, "; ".join(shortened), f"batch {batch}")
        has_sources = any(name.startswith("sources/") for name in source.folder.names_below())
        without = "; logs of sources are not compared, as a query has gone on" if has_gone_on and has_sources else ""
        return Check("logs", Outcome.OK, f"query, offsets and watermark are as planned{without}", f"batch {batch}")

    def _is_compared(self, name: str, *, has_gone_on: bool) -> bool:
        """Whether a file of the source is a log that the copy must have unchanged."""
        top, _, last = name.partition("/")
        if top == "sources":
            return not has_gone_on and not name.endswith(".crc") and "/." not in name
        return top in {"offsets", "commits"} and last.isdigit() and int(last) <= self.record.batch

    def _tables(self) -> Iterator[Table]:
        """Yield every store of the copy."""
        covered = set()
        for copied in self.plan.operators:
            for plan in copied.stores:
                covered |= {(copied.number, one.name) for one in (plan.now, *plan.indexes.values())}
                yield from self._of_variable(copied, plan) if copied.has_variables else [self._of_rows(copied, plan)]
        for operator in self.copy.operators:
            for store in operator.stores:
                if (operator.number, store.name) not in covered:
                    yield Table(store, lambda: iter(()), operator.kind, {}, (frozenset(), frozenset()))

    def _of_rows(self, operator: OperatorCopy, plan: StoreCopy) -> Table:
        """Return a store of rows."""
        of, kind = plan.now.require_schema(), operator.now.kind
        values = path_of_values(plan.was.name, kind)
        unknown = _unknown(self.record, operator.old_number, {values: of.value, "key": of.key})
        fields = _fields(operator.changes, "key", of.key), _fields(operator.changes, values, of.value)
        expected = partial(of_store, plan, operator.changes.merges)
        return Table(plan.now, expected, kind, unknown, fields, plan.groups[1] if fields[0] else None)

    def _of_variable(self, operator: OperatorCopy, plan: StoreCopy) -> Iterator[Table]:
        """Yield the stores of a variable; the value of one that expires stands beside its deadline."""
        prefix, expires = plan.now.name + STEPS.get(plan.now.kind, ""), plan.deadlines.are
        hidden = _fields(operator.changes, prefix, plan.value_type)
        fields = frozenset[int](), frozenset({0}) if expires and hidden else hidden
        unknown = _unknown(self.record, operator.old_number, {prefix: None if expires else plan.value_type})
        for store in (plan.now, *plan.indexes.values()):
            of = (unknown, fields) if store.name == plan.now.name else ({}, (frozenset[int](), frozenset[int]()))
            yield Table(store, of_variable(self.plan, operator, plan, store), operator.now.kind, *of)

    def _compared(self, table: Table) -> Iterator[Check]:
        """Yield the checks of a store."""
        should, there, where = Side(), Side(), table.where
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
            detail = (
                f"{many(actual, 'entry', 'entries')}, of which keys were merged by {', '.join(table.unknown.values())}"
            )
            yield Check("values", Outcome.UNPROVEN if is_same else Outcome.FAILED, detail, where)
            return
        if should.differing(there) or expected != actual:
            details = [f"{expected:,} should be there, {actual:,} are"] * (expected != actual)
            details += differences(table, should, there)
            yield Check("values", Outcome.FAILED, "; ".join(details) or "its entries differ", where)
        else:
            partitions = many(table.store.partitions, "partition")
            detail = f"{many(actual, 'entry', 'entries')} in {partitions} are as planned"
            yield Check("values", Outcome.OK, detail, where)
        for path, made_by in table.unknown.items():
            yield Check("values", Outcome.UNPROVEN, f"{path} is not compared: it is of {made_by}", where)

    @staticmethod
    def _at(table: Table) -> tuple[int, str]:
        return table.store.operator, table.store.name

    def _merged(self, table: Table) -> int:
        found = (one.merged for one in self.record.stores if (one.operator, one.store) == self._at(table))
        return next(found, 0)

    def _counted(self, rows: Iterable[Rows]) -> Iterator[Rows]:
        for one in rows:
            self.entries += len(one.key)
            self.progress(Progress("verifying", self.done, self.total, self.entries))
            yield one

    def _end(self, table: Table) -> None:
        self.done += table.store.partitions
        self.progress(Progress("verifying", self.done, self.total, self.entries))


def _unknown(record: CopyRecord, operator: int | None, parts: Mapping[str, SparkType | None]) -> dict[str, str]:
    """Return what is not compared, and of what it is: a value that is not known hides the whole field around it.

    Args:
        record: The record of the copy.
        operator: The number of an operator of the source; None: it had none.
        parts: The paths of parts of entries, with their types; None: the part is hidden as a whole.
    """
    said = next((one.unknown for one in record.operators if one.number == operator), {})
    found: dict[str, str] = {}
    for path, made_by in said.items():
        for part, of in parts.items():
            if is_within(path, [part]):
                fields = [] if of is None else [f"{part}.{name}" for name in of.names]
                hidden = next((one for one in fields if is_within(path, [one])), part)
                of_path = made_by if hidden == path else f"{made_by}, in {path}"
                found[hidden] = f"{found[hidden]}; {of_path}" if hidden in found else of_path
    return found


def _fields(changes: FieldChanges, part: str, of: SparkType) -> frozenset[int]:
    """Return the numbers of the fields of a struct that are not known, or are around such."""
    paths = [path for path, function in changes.converters.items() if function is not_repeated]
    if part in paths:
        return frozenset(range(len(of.fields)))
    return frozenset(
        at for at, name in enumerate(of.names) if any(is_within(path, (f"{part}.{name}",)) for path in paths)
    )
