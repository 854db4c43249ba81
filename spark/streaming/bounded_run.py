"""A bounded run: the functions of a job process static DataFrames once, and their state becomes a savepoint.

    history = spark.read.parquet("history")
    balances = job.stream(history).key_by("account").process(Balances(), uid="balances")
    job.run(balances.write.format("parquet").option("path", "balances"), savepoint="first")

Spark evaluates a DataFrame when it is asked for its rows, perhaps several times, and repeats tasks. So the run first
processes each operator in a Spark job of its own, whose tasks write results and state to files. The DataFrames of
results only read these files: those of the attempts whose answers Spark returned, which the savepoint is of, too.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager, suppress
from functools import reduce
from typing import TYPE_CHECKING, Any

import attrs

from ...serializers.errors import DeclarationError, SavepointNotFound, StateShiftError
from ...state.backends.snapshots import OperatorSnapshot, SubtaskSnapshot
from ...state.columnar.new_savepoint import check_position
from ...state.directory.directory import with_files
from ...state.formats.flink.handles import RelativeFileHandle
from ...state.formats.flink.metadata import SavepointMetadata
from ...state.job import Operator
from ...state.publication.commit import Commit
from ...state.publication.publish import Destination, all_or_nothing, check_target
from ...state.publication.runs import names_of
from ...state.publication.target_lock import CLAIM_NAME, claimed
from ...state.savepoint.reader import Savepoint
from ...state.storage.files import Folder
from ..frames import partitioned_by
from ..worker import RESULT, Settings, collected, loaded
from .bounded_slots import PLACE, BoundedSlots, Placing, SlotResult, StoredResults, column_of, reached

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, DataFrameWriter

    from ...state.formats.flink.handles import StreamHandle
    from ...state.progress import Progress
    from ...state.publication.target_lock import Claim
    from .query_plan import Input, Plan, Work

BOUNDED = "bounded"
"""The folder of results while a bounded run writes them, in the state directory."""

_NOTHING = "No savepoint was published. Results are there only as far as their writers have finished."


@attrs.frozen
class BoundedOperator:
    """An operator of a bounded run.

    Attributes:
        plan: What all operators of the job share.
        inputs: Its inputs.
        work: What its tasks get.
        slots: The number of slots.
        max_parallelism: The number of key groups.
        stored: Reads its results.
        results: The DataFrame of its results.
    """

    plan: Plan
    inputs: tuple[Input, ...]
    work: Work
    slots: int
    max_parallelism: int
    stored: StoredResults
    results: DataFrame = attrs.field(repr=False)

    @classmethod
    def of(cls, plan: Plan, inputs: Sequence[Input], work: Work, slots: int, max_parallelism: int) -> BoundedOperator:
        """Return an operator for static inputs; nothing is processed yet."""
        from pyspark.sql.pandas.types import from_arrow_schema

        spark, uid = inputs[0].df.sparkSession, work.spec.uid
        folder = Folder.at(plan.run.place).folder(BOUNDED).folder(plan.run.token)
        stored = StoredResults(folder, uid, f"{Operator(uid).id}.json")
        with work.shipped(spark):
            results = spark.range(0, slots, 1, slots).mapInArrow(stored, from_arrow_schema(work.writer.schema))
        return cls(plan, tuple(inputs), work, slots, max_parallelism, stored, results)

    def process(self, target: Folder, *, now_ms: int, drains: bool, tell: Callable[[Progress], None]) -> _Processed:
        """Process all rows; raises the error of a worker, if there is one."""
        from pyspark.sql import DataFrame, functions

        spark, uid = self.results.sparkSession, self.work.spec.uid
        settings = Settings.of(spark)
        work = attrs.evolve(self.work, settings=settings)
        order = tuple(sorted(range(len(self.inputs)), key=lambda index: not self.inputs[index].to_all))
        step = BoundedSlots(work, order, self.slots, self.max_parallelism, now_ms, drains, target, self.stored.folder)

        with work.shipped(spark):
            rows = reduce(DataFrame.unionByName, [self._placed(index, settings) for index in range(len(self.inputs))])
            together = partitioned_by(rows, self.slots, functions.col("slot"))
            ordered = together.sortWithinPartitions(*(PLACE[1:] if work.spec.in_order else PLACE[2:]))
            found = collected(
                ordered.mapInArrow(step, RESULT), settings, uid, tell, f"stateshift: {uid}, a bounded run"
            )
        by_slot: dict[int, SlotResult] = {one.slot: one for one in (loaded(row.result) for row in found)}
        self.stored.write({slot: one.results for slot, one in by_slot.items()})
        return _Processed(self, by_slot)

    def _placed(self, index: int, settings: Settings) -> DataFrame:
        """Return the rows of an input with their places. Each input has a column, null in the rows of others."""
        from pyspark.sql import functions
        from pyspark.sql.types import IntegerType, LongType, StructField, StructType

        one, plan = self.inputs[index], self.plan
        packing = plan.packing(one, index, settings, tolerates=self.work.spec.tolerates)
        kinds = {"slot": IntegerType(), "rank": IntegerType()}
        fields = [StructField(name, kinds.get(name, LongType())) for name in PLACE]
        schema = StructType([*fields, StructField(column_of(index), one.df.schema)])
        rows = one.df.mapInArrow(Placing(packing, self.slots, self.max_parallelism, self.work.spec.uid), schema)
        for other, empty in enumerate(self.inputs):
            if other != index:
                rows = rows.withColumn(column_of(other), functions.lit(None).cast(empty.df.schema))
        return rows


@attrs.frozen
class _Processed:
    """A processed operator, and what the successful attempts have written, by slot."""

    operator: BoundedOperator
    by_slot: dict[int, SlotResult]

    @property
    def snapshot(self) -> OperatorSnapshot:
        spec, slots = self.operator.work.spec, range(self.operator.slots)
        empty = SubtaskSnapshot()
        parts = [self.by_slot[slot].snapshot if slot in self.by_slot else empty for slot in slots]
        return OperatorSnapshot(Operator(spec.uid), self.operator.max_parallelism, parts)

    @property
    def watermarks(self) -> list[int | None]:
        found = [one.watermarks for one in self.by_slot.values()]
        return reached(found) if found else [None] * len(self.operator.work.readers)


def run_bounded(
    operators: Sequence[BoundedOperator],
    writers: Sequence[DataFrameWriter],
    savepoint: str | os.PathLike[str],
    *,
    position: Any,
    drain: bool,
    progress: Callable[[Progress], None] | None,
) -> Savepoint:
    """Process the inputs of all operators, write the results, then publish the savepoint; see `StreamJob.run`."""
    if not operators:
        raise DeclarationError(
            "the job has no operator with static inputs",
            advice="pass a static DataFrame: job.stream(spark.read…).key_by(…).process(…)",
        )
    for writer in writers:
        if not hasattr(writer, "save"):
            raise DeclarationError(
                f"{type(writer).__name__} is not the writer of a static DataFrame",
                advice="pass results.write.format(…).option(…)",
            )
    check_position(position)
    folder, now_ms = Folder.at(savepoint), time.time_ns() // 1_000_000
    check_target(folder)
    names = names_of(Operator(one.work.spec.uid).id for one in operators)
    destination = Destination(folder, names, nothing=_NOTHING)
    with ExitStack() as until_published:
        results = operators[0].stored.folder
        until_published.enter_context(_results(results, next(results.above())))
        claim = until_published.enter_context(all_or_nothing(destination))
        processed = [
            one.process(claim.folder, now_ms=now_ms, drains=drain, tell=progress or (lambda _: None))
            for one in operators
        ]
        _write(writers)
        _publish(claim, processed, position, drained=drain)
    return Savepoint.open(savepoint)


def _write(writers: Sequence[DataFrameWriter]) -> None:
    done = 0
    try:
        for writer in writers:
            writer.save()
            done += 1
    except BaseException as error:
        error.add_note(f"{done} of {len(writers)} writers had written the results of the run, and no savepoint was.")
        raise


def _publish(claim: Claim, processed: Sequence[_Processed], position: Any, *, drained: bool) -> None:
    claim.require()
    commit = Commit(claim.folder)
    streams = {name: one for part in processed for slot in part.by_slot.values() for name, one in slot.streams.items()}
    snapshots = [one.snapshot for one in processed]

    def committed(file: StreamHandle) -> StreamHandle:
        return commit.stream(streams[file.path]) if isinstance(file, RelativeFileHandle) else file

    stored = [with_files(one.state(), committed) for one in snapshots]
    facts = {
        "position": position,
        "watermarks": {one.operator.work.spec.uid: one.watermarks for one in processed},
        "drained": drained,
    }
    tolerating = [one for one in processed if one.operator.work.spec.tolerates]
    if tolerating:
        facts["errors"] = {
            one.operator.work.spec.uid: sum(slot.errors for slot in one.by_slot.values()) for one in tolerating
        }
    counts = [count for one in snapshots for count in one.counts()]
    commit.publish(SavepointMetadata.new(tuple(stored)), job="a bounded run", states=counts, position=facts)


@contextmanager
def _results(folder: Folder, place: Folder) -> Iterator[None]:
    """Keep a folder for results until the `with` block ends; leftovers of dead runs beside it are deleted."""
    with claimed(place):
        for name in place.names():
            if not CLAIM_NAME.fullmatch(name):
                _delete(place.folder(name))
        folder.create()
        try:
            yield
        finally:
            with suppress(StateShiftError):  # the next run deletes it
                _delete(folder)


def _delete(folder: Folder) -> None:
    with suppress(SavepointNotFound):
        for name in folder.names():
            folder.delete(name)
    folder.delete_empty()
