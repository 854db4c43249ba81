"""The report of a query's migration, and what was counted of each state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...publication.lineage import StateCount
from ..report import MigrationReport

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .preparation import PreparedCopy

    Counts = tuple[tuple[int, ...], tuple[int, ...], int]
    """The entries that were read from each partition, those in each of the copy, and how many were merged."""


def planned_report(prepared: PreparedCopy, target: str) -> MigrationReport:
    """Return the report of a migration before it runs."""
    return MigrationReport(
        source=prepared.source.place,
        target=target,
        plan=prepared.plan,
        tasks=sum(one.partitions for one in prepared.together if one.is_converted),
        copies=sum(one.partitions for one in prepared.together if not one.is_converted),
        bytes_read=None,
        bytes_written=None,
        query=prepared.query,
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
