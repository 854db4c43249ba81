"""The checkpoint of a query, copied for a query whose state has other types: HDFS-backed provider, Spark's default.

    report = migrate_checkpoint("/data/checkpoints/clicks", "/data/checkpoints/clicks-v2", like="/data/probe",
                                changes={0: FieldChanges(fills={"value.count": 0})})

The source is only read. The state after its last committed batch becomes one snapshot for each partition; query id,
batches, offsets and watermark stay. Until the copy is complete its `metadata` is no JSON, so that Spark refuses to
start a query there; with the true content, in one step at the end, it is published. A run that died is told by what it
left in `metadata`: the same call resumes it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ....serializers.errors import located
from ....state.storage.files import Folder
from ..reader import PREFIX, SparkCheckpoint
from .copying import Copy
from .plan import plan_migration
from .report import CheckpointReport, planned_reports

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from .conversion import FieldChanges


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
    reports = planned_reports(plan) if dry_run else Copy(plan, folder).run()
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
