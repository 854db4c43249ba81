"""The checkpoint of a query, copied for a query whose state has other types: HDFS-backed provider or RocksDB.

    report = migrate_checkpoint("/data/checkpoints/clicks", "/data/checkpoints/clicks-v2", query=build_query(spark),
                                changes={0: FieldChanges(fills={"value.count": 0})})

The source is only read. The state after its last committed batch becomes one snapshot for each partition; query id,
batches, offsets and watermark stay. Until the copy is complete its `metadata` is no JSON, so that Spark refuses to
start a query there; with the true content, in one step at the end, it is published. A run that died is told by what it
left in `metadata`: the same call resumes it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import IncompatibleState, located
from ...serializers.ways_out import Option, Told, WayOut
from ...state.formats.spark.reader import PREFIX, SparkCheckpoint
from ...state.migration.plan_file import NewTypes
from ...state.migration.planning import query_plan_file
from ...state.migration.queries.checkpoint_copy import Copy
from ...state.migration.queries.preparation import Said, prepare_copy
from ...state.migration.queries.report import planned_report
from ...state.storage.files import Folder
from .new_side import new_side

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ...compat.description import JobDescription
    from ...compat.entry_samples import EntrySamples
    from ...compat.queries.changes import FieldChanges
    from ...state.migration.plan_file import PlanFile
    from ...state.migration.queries.preparation import NewSide, PreparedCopy
    from ...state.migration.report import MigrationReport


def migrate_checkpoint(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    query: DataFrame | DataStreamWriter | None = None,
    like: str | os.PathLike[str] | None = None,
    was: DataFrame | DataStreamWriter | JobDescription | None = None,
    changes: Mapping[int, FieldChanges] | None = None,
    operators: Mapping[int, int | None] | None = None,
    accept: tuple[str, ...] = (),
    drop_uncommitted: bool = False,
    new_query_id: bool = False,
    require_recording: bool = False,
    dry_run: bool = False,
    expected: PlanFile | None = None,
    sampled: Callable[[PreparedCopy], EntrySamples] | None = None,
) -> MigrationReport:
    """Copy a checkpoint, with the state of its last committed batch under the types of a new query.

    With `query`, what stands in the columns is compared, too, as far as a recording or `was` says it: a column that is
    computed from the same elsewhere is taken from there, and one that is computed from something else is refused.

    Args:
        source: The checkpoint; it is only read, and its query must not run.
        target: The folder of the copy; it must be missing or empty, or have what a run left that died.
        query: The new query: a streaming DataFrame, or its writer before `start()`. Spark plans it under the settings
            that the checkpoint pins; nothing is started, and no source is read.
        like: Instead of it a checkpoint that the new query wrote, for example on a little data; its types alone are
            compared.
        was: With `query`: the query that wrote the checkpoint, from the old code, or its description; by default a
            recording says it.
        changes: What the types do not say, by the number of the old operator.
        operators: The new numbers of old operators; None: the state is dropped. Others are paired by kind, keys and
            what they compute where that is unique, and a new one without an old one starts empty.
        accept: Rules whose findings are accepted, as in `check_query`.
        drop_uncommitted: Whether a batch that is planned and not committed is left out; else it is an error.
        new_query_id: Whether the copy gets a query id of its own; else it keeps that of the source.
        require_recording: Whether it is an error that neither `was` nor a recording says what the old query computed.
        dry_run: Whether to plan only.
        expected: The plan that it has to follow; None: any.
        sampled: With `dry_run`: a function that returns entries before and after, which the plan file then has.

    Raises:
        DeclarationError: Neither `query` nor `like` is given, or both are; or `was` did not write the checkpoint.
        IncompatibleState: The new query cannot take over the state, or changes are missing.
        UnsupportedFormat: The checkpoint is of a kind that this release does not migrate.
        TargetExists: The target is not empty.
        PlanChanged: The run would not do what the expected plan says.
        SourceChanged: The query has gone on in the meantime.
        MigrationFailed: Entries were lost, or a batch is not committed.
    """
    start = time.perf_counter()
    old = SparkCheckpoint.open(source)
    said = Said(changes or {}, operators or {}, accept, drop_uncommitted, new_query_id)
    folder = Folder.at(str(target).removeprefix(PREFIX))
    with new_side(old, like, query, was) as new:
        with located(savepoint=old.place, checkpoint=old.place):
            if require_recording:
                _require_known(new)
            prepared = prepare_copy(old, new, said)
        report = planned_report(prepared, folder.place)
        if expected is not None:
            expected.require_same(query_plan_file(report, expected.new_types, expected.typed or {}))
        if dry_run:
            samples = None if sampled is None else sampled(prepared)
            plan_file = attrs.evolve(query_plan_file(report, NewTypes()), samples=samples)
            report = attrs.evolve(report, plan_file=plan_file)
        else:
            copy = Copy(prepared, folder)
            copied = attrs.evolve(prepared.query, query_id=copy.new_id if new_query_id else old.log.query_id)
            report = attrs.evolve(report, states=copy.run(), query=copied, dry_run=False)
    return attrs.evolve(report, seconds=time.perf_counter() - start)


def _require_known(new: NewSide) -> None:
    """Refuse a new side of whose old query not all is known."""
    if not new.known.is_whole:
        raise IncompatibleState.before_writing(
            "nothing says what the query computed that wrote the whole state",
            advice=(
                WayOut.telling("name the old code:", Option.WAS, "MODULE:FUNCTION"),
                WayOut("leave out", (Told(Option.REQUIRE_RECORDING),)),
            ),
        )
