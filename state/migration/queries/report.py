"""What a migration of a checkpoint did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from .... import __version__
from ....compat.plain_data import fields_of
from ....serializers.compatibility import Decision
from ...formats.spark.checksums import crc32c, sums_of
from ..options import MigrationOptions
from ..plan_file import OF_QUERIES, PlanFile, StoredPlace
from .preparation import REPEATED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...formats.spark.reader import SparkCheckpoint
    from ..plan_file import NewTypes
    from .preparation import CheckpointPlan
    from .store_plan import StorePlan
    from .variables import ProcessorPlan

    Counts = tuple[tuple[int, ...], tuple[int, ...], int]
    """The entries that were read from each partition, those in each of the copy, and how many were merged."""


@attrs.frozen
class StoreReport:
    """What was done with a store.

    Attributes:
        operator: The number of the operator in the new query.
        kind: The kind of the operator.
        was: The number of the old operator; None: there is none, and it starts empty.
        store: The name of the store.
        is_converted: Whether its entries were converted; else its files were copied.
        read: The entries read from each partition.
        written: The entries in each partition of the copy: counted after they were converted and written; of files that
            were copied, whose bytes were compared, as many as were read.
        merged: The entries whose keys had become equal to others'.
        notes: What changed, a line each.
        done: What was done, if it is neither of these two: `starts empty`, `new`, `dropped`.
    """

    operator: int
    kind: str
    was: int | None
    store: str
    is_converted: bool
    read: tuple[int, ...] = ()
    written: tuple[int, ...] = ()
    merged: int = 0
    notes: tuple[str, ...] = ()
    done: str = ""


def planned_reports(
    plan: CheckpointPlan, counts: Mapping[tuple[int, str], Counts] | None = None
) -> tuple[StoreReport, ...]:
    """Return the report of each store, by operators.

    Args:
        plan: What is done.
        counts: What was counted, by the number of the operator and the name of the store; None: nothing is written.
    """
    reports = [one for together in plan.together for one in _store_reports(together)]
    reports += (one for processor in plan.processors for one in _variable_reports(processor))
    if counts is not None:
        found = ((one, counts.get((one.operator, one.store), ((), (), 0))) for one in reports)
        reports = [
            attrs.evolve(one, read=read, written=written, merged=merged) for one, (read, written, merged) in found
        ]
    return tuple(sorted(reports, key=lambda one: one.operator))


def _store_reports(together: tuple[StorePlan, ...]) -> Iterator[StoreReport]:
    is_converted = any(one.is_converted for one in together)
    for one in together:
        done = "starts empty" if one.is_empty else ""
        yield StoreReport(one.number, one.kind, one.was, one.now.name, is_converted, notes=one.notes, done=done)


def _variable_reports(plan: ProcessorPlan) -> Iterator[StoreReport]:
    of = plan.number, plan.now.kind, plan.was
    for index, one in enumerate(plan.variables):
        notes = (*(plan.notes if index == 0 else ()), *one.notes)
        yield StoreReport(*of, one.now.name, is_converted=True, notes=notes)
    for name in plan.added:
        yield StoreReport(*of, name, is_converted=False, notes=(f"{name} is new, and empty",), done="new")
    for name in (store.name for store in plan.dropped):
        note = f"{name} is dropped, with all its entries"
        yield StoreReport(*of, name, is_converted=False, notes=(note,), done="dropped")


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


@attrs.frozen
class CheckpointReport:
    """The result of a migration.

    Attributes:
        source: The place of the source.
        target: The place of the copy.
        query_id: The id of the query in the copy; "" in a dry run, if the copy is to get one of its own.
        has_new_id: Whether that is another one than in the source.
        batch: The last committed batch; the new query goes on with the next one.
        watermark_ms: The event-time watermark, in milliseconds since 1970; 0: none.
        dropped_batch: The batch that was not committed, and is planned again.
        stores: What was done with each store.
        dropped_operators: The operators whose state the copy does not have.
        known_from: From where it is known what the old query computed; "": it is not.
        not_compared: What was not compared, a line each.
        not_shown: Which damage to the source its files could not show, a line each.
        dry_run: Whether nothing was written.
        plan_sha256: The digest of what the copy contains: a run of a plan file has the same one.
        seconds: The duration.
    """

    source: str
    target: str
    query_id: str
    has_new_id: bool
    batch: int
    watermark_ms: int
    dropped_batch: int | None
    stores: tuple[StoreReport, ...]
    dropped_operators: tuple[str, ...] = ()
    known_from: str = ""
    not_compared: tuple[str, ...] = ()
    not_shown: tuple[str, ...] = ()
    dry_run: bool = False
    plan_sha256: str = ""
    seconds: float = 0.0

    def plan_file(self, new_types: NewTypes, typed: dict[str, Any]) -> PlanFile:
        """Return the plan of a run that wrote nothing; a run that follows it makes the same one.

        Args:
            new_types: Where they come from.
            typed: The options of the command, as they were typed.
        """
        operators: dict[tuple[int, str], list[dict[str, Any]]] = {}
        for one in self.stores:
            action = one.done or ("convert" if one.is_converted else "copy")
            state = {"name": one.store, "kind": "value", "action": action, "notes": list(one.notes)}
            operators.setdefault((one.operator, one.kind), []).append(state)
        told = "decision query_id has_new_id batch watermark_ms dropped_batch dropped_operators known_from not_compared"
        return PlanFile(
            stateshift=__version__,
            source=StoredPlace(f"{OF_QUERIES}{self.source}", ""),
            new_types=new_types,
            options=MigrationOptions(),
            typed=typed,
            summary=fields_of(self, f"{told} not_shown content_sha256=plan_sha256"),
            rollback={"source": self.going_back},
            operators=[
                {"operator_id": str(number), "uid": f"{number} ({kind})", "states": states}
                for (number, kind), states in operators.items()
            ],
        )

    @property
    def decision(self) -> Decision:
        """Whether anything of the state changes."""
        changes = self.dropped_operators or any(one.is_converted or one.done or one.notes for one in self.stores)
        return Decision.MIGRATE if changes else Decision.START

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before the new query starts."""
        dropped = (f"the state of operator {one} is dropped" for one in self.dropped_operators)
        batch = () if self.dropped_batch is None else (f"batch {self.dropped_batch} is dropped: {REPEATED}",)
        return (*dropped, *batch)

    @property
    def going_back(self) -> str:
        """What going back to the source means once the new query has committed a batch."""
        delta = (
            "Delta takes the batch of the other query for a new one, so its rows are there twice"
            if self.has_new_id
            else "Delta leaves it out, too"
        )
        return (
            f"until the new query has committed batch {self.batch + 1}, the old one goes on from the source as if"
            " nothing had happened; after that the old one plans the batch again, with rows of its own: a sink that"
            f" writes again has both, a file sink leaves the batch out, {delta}"
        )
