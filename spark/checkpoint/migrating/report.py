"""What a migration of a checkpoint did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from .plan import REPEATED, StorePlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .plan import MigrationPlan
    from .variables import ProcessorPlan


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
        done: What was done, if it is neither of these two: `new`, `dropped`.
    """

    operator: int
    kind: str
    store: str
    is_converted: bool
    read: tuple[int, ...] = ()
    written: tuple[int, ...] = ()
    merged: int = 0
    notes: tuple[str, ...] = ()
    done: str = ""

    @classmethod
    def of(cls, plan: StorePlan) -> StoreReport:
        """Return the report of a store of which no entry was converted yet."""
        store = plan.store
        return cls(store.operator, plan.kind, store.name, plan.is_converted, notes=plan.notes)


def variable_reports(plan: ProcessorPlan) -> Iterator[StoreReport]:
    """Yield the report of each variable of an operator, of which no entry was converted yet."""
    number, kind = plan.operator.number, plan.operator.kind
    of_key = (*plan.key.notes, *(f"{path} is dropped" for path in plan.key.dropped))
    for index, one in enumerate(plan.variables):
        notes = (*(of_key if index == 0 else ()), *one.notes)
        yield StoreReport(number, kind, one.now.name, is_converted=True, notes=notes)
    for name in plan.added:
        yield StoreReport(number, kind, name, is_converted=False, notes=(f"{name} is new, and empty",), done="new")
    for store in plan.dropped:
        note = f"{store.name} is dropped, with all its entries"
        yield StoreReport(number, kind, store.name, is_converted=False, notes=(note,), done="dropped")


def planned_reports(plan: MigrationPlan) -> tuple[StoreReport, ...]:
    """Return the report of each store before anything is written."""
    reports = [StoreReport.of(one) for one in plan.stores]
    for processor in plan.processors:
        reports += variable_reports(processor)
    return tuple(sorted(reports, key=lambda one: one.operator))


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
        return () if self.dropped_batch is None else (f"batch {self.dropped_batch} is dropped: {REPEATED}",)
