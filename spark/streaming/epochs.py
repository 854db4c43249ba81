"""The epoch that a query starts in: the last one, or a new one where something changes."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import attrs

from ...serializers.errors import DeclarationError
from ...state.streaming.directory import Epoch
from .grouping import slot_groups
from .upgrade import Judgement, write_base, write_beginning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...state.migration.options import MigrationOptions
    from ...state.streaming.directory import StateDirectory
    from .initial_savepoint import Beginning
    from .job import StreamJob
    from .stored_query import Stored

PARTITIONS = "spark.sql.shuffle.partitions"


@attrs.frozen(slots=False)
class EpochChoice:
    """The choice of the epoch of a start.

    Attributes:
        job: The job.
        stored: What is stored of its query.
        how: What may be done where state needs a migration.
        options: The options of the check and the migration.
        carriers: How Spark calls the operators, in the order in which it numbers them.
        drains: Whether the query is started for the batch that ends event time.
    """

    job: StreamJob
    stored: Stored
    how: str
    options: MigrationOptions
    carriers: dict[str, str]
    drains: bool

    @property
    def _spark(self) -> SparkSession:
        return self.stored.spark

    @property
    def _directory(self) -> StateDirectory:
        return self.stored.directory

    @property
    def _cores(self) -> int:
        return self._spark.sparkContext.defaultParallelism

    @property
    def _first_slots(self) -> int:
        return self.job.slots or min(self._cores, self._directory.max_parallelism)

    @cached_property
    def partitions(self) -> int:
        """The number of Spark's partitions of state, which stays that of the first start."""
        before, slots = self.stored.epoch, self._first_slots
        useful = min(max(slots, self._cores), int(self._spark.conf.get(PARTITIONS) or slots))
        if before is not None and before.base:  # no batch was planned, and its slots have their partitions
            useful = before.partitions
        return int(self.stored.pinned.get(PARTITIONS) or useful)

    def epoch(self, beginning: Beginning | None) -> tuple[Epoch, bool]:
        """Return the epoch, and whether it has an upgrade that a batch is to commit; a new epoch is recorded.

        Args:
            beginning: What the query begins with; None: with no state, or it has begun.

        Raises:
            RestoreRefused: As `Judgement`.
            DeclarationError: Sources or operators are not those of the query, or it cannot be drained.
        """
        stored = self.stored
        stored.require_sources(self.job.sources)
        if stored.is_new:
            return self._recorded(self._first(beginning)), False
        stored.require_operators(self.carriers, renamed=bool(self.options.edits))
        before = stored.state_epoch
        self._require_drainable(before)
        savepoint = stored.savepoint(for_types=True)
        judgement = Judgement(self.job, self.options, self.how, savepoint, before, may_end=stored.all_ran)
        slots = self.job.slots or before.slots
        if not judgement.changes and slots == before.slots:
            return before, False
        if self.drains and slots != before.slots:  # Spark does not know the new slots before there are rows
            raise DeclarationError(
                f"a query cannot be drained with {slots} slots where its state has {before.slots}",
                advice=f"drain it with slots={before.slots}, and change the number at the next start",
                written="Nothing was written.",
            )
        epoch = self._recorded(self._next(judgement, slots))
        return epoch, bool(stored.ran) and slots == before.slots  # Spark knows other slots when they have rows

    def _recorded(self, epoch: Epoch) -> Epoch:
        self._directory.begin_epoch(epoch)
        return epoch

    def _first(self, beginning: Beginning | None) -> Epoch:
        """Return the first epoch, with the savepoint that the query begins with: copied, or migrated."""
        number, slots = self._directory.next_epoch, self._first_slots
        epoch = Epoch(number, slots, self.partitions, slot_groups(slots, self.partitions), self.carriers)
        if beginning is None:
            return epoch
        judgement, base = beginning.judgement, str(number)
        place, roots = beginning.begun.savepoint, beginning.allow_roots
        history = write_beginning(self._directory, place, base, judgement, self._spark, allow_roots=roots)
        lazy, types = judgement.lazy, judgement.lazy_types
        digest = self._directory.digest_of_base(base)
        return attrs.evolve(
            epoch, base=base, begun=beginning.begun, history=history, lazy=lazy, types=types, base_sha256=digest
        )

    def _next(self, judgement: Judgement, slots: int) -> Epoch:
        """Return a further epoch, with the present state as it is migrated."""
        number = self._directory.next_epoch
        base = str(number)
        history = write_base(self._directory, self.stored.savepoint(), base, judgement, self._spark)
        return Epoch(
            number,
            slots,
            self.partitions,
            slot_groups(slots, self.partitions),
            self.carriers,
            self.stored.batch,
            base,
            history,
            judgement.lazy,
            judgement.lazy_types,
            base_sha256=self._directory.digest_of_base(base),
        )

    def _require_drainable(self, before: Epoch) -> None:
        if self.drains and before.base and not (self.stored.ran and self.stored.all_ran):
            raise DeclarationError(
                "the query cannot be drained: some of its state has had no batch since the query began or was upgraded",
                advice="run it until a batch with rows is committed: it runs all slots",
                written="Nothing was written.",
            )
