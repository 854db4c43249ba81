"""The report of a query's migration: what its copy has beside state, and what was counted of each state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...formats.spark.checksums import crc32c, sums_of
from ...publication.lineage import StateCount
from ..report import MigrationReport, QueryCopy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...formats.spark.reader import SparkCheckpoint
    from .preparation import PreparedCopy

    Counts = tuple[tuple[int, ...], tuple[int, ...], int]
    """The entries that were read from each partition, those in each of the copy, and how many were merged."""


def planned_report(prepared: PreparedCopy, target: str) -> MigrationReport:
    """Return the report of a migration before it runs."""
    source, log = prepared.source, prepared.source.log
    return MigrationReport(
        source=source.place,
        target=target,
        plan=prepared.plan,
        tasks=sum(one.partitions for one in prepared.together if one.is_converted),
        copies=sum(one.partitions for one in prepared.together if not one.is_converted),
        bytes_read=None,
        bytes_written=None,
        query=QueryCopy(
            "" if prepared.has_new_id else log.query_id,
            prepared.has_new_id,
            prepared.batch,
            log.watermark_ms,
            prepared.dropped_batch,
            prepared.continued,
            prepared.known_from,
            prepared.not_compared,
            tuple(not_shown(source)),
            prepared.digest(),
        ),
    )


def state_counts(prepared: PreparedCopy, counts: Mapping[tuple[int, str], Counts]) -> Iterator[StateCount]:
    """Yield what was counted of each state, by the number of its operator and its name."""
    for operator in prepared.plan.operators:
        for state in operator.states:
            name, number = state.new_name or state.name, operator.operator_id
            read, written, merged = counts.get((int(number), name), ((), (), 0))
            dropped = sum(read) - sum(written) - merged
            yield StateCount(
                number, operator.uid, name, str(state.kind), str(state.action), sum(read), sum(written), dropped,
                merged=merged,
            )  # fmt: skip


def not_shown(source: SparkCheckpoint) -> Iterator[str]:
    """Yield the damage that the files of a checkpoint cannot show, a line each."""
    planned, folder = source.log.last, source.folder
    for operator in source.operators:
        if planned is not None and any(one.lacks_checksums for one in operator.stores):
            yield (
                f"operator {operator.title}: its files are compressed by {planned.codec} without checksums: values that"
                " are damaged can look like others"
            )
    if not sums_of(folder, "metadata") or not sums_of(folder, f"offsets/{source.log.committed}"):
        yield "offsets and commits have no checksums beside them: damage that leaves them JSON is not seen"
    if crc32c() is None and planned is not None:
        yield "Spark's own checksums: their library is not installed (pip install 'stateshift[rocksdb]')"
