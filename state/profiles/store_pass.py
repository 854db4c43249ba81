"""The pass over the state stores of a Spark query, partition by partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

import attrs
import numpy as np
import pyarrow as pa

from ...compat.description import StateKind
from ...compat.queries.columns import group_of, hashed_fields
from ...serializers.spark_rows.json_values import json_values
from ...serializers.wording import json_text, many
from ..runner import Independent
from .key_weights import HEAVIEST, KeyWeights, Weights, heaviest_rows
from .plans import StatePlan
from .tallies import OperatorTally, StateTally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...serializers.columns.bytes_at import Places
    from ...serializers.spark_rows.spark_types import SparkType
    from ..formats.spark.reader import Block, SparkCheckpoint, SparkOperator, SparkStore
    from ..runner import Conditions, Take

_EXPIRES = "ttlExpirationMs"


@attrs.frozen
class StoreTask:
    """A partition of an operator's stores.

    Attributes:
        operator: The index of the operator.
        partition: The partition.
    """

    operator: int
    partition: int

    size_bytes: ClassVar[int] = 0
    """It is not known before the partition is read."""


@attrs.frozen
class StoreProfiling(Independent[StoreTask, OperatorTally]):
    """The pass over a checkpoint.

    Attributes:
        operators: The operators, each with the stores to read.
        reference_ms: The time to which ages are counted.
    """

    operators: tuple[tuple[SparkOperator, tuple[SparkStore, ...]], ...]
    reference_ms: int

    again: ClassVar[str] = "run it again; nothing was written"

    @classmethod
    def of(
        cls,
        checkpoint: SparkCheckpoint,
        operators: Sequence[tuple[SparkOperator, tuple[SparkStore, ...]]],
        reference_ms: int,
    ) -> Self:
        """Return the pass over some stores of a checkpoint."""
        tasks = tuple(
            StoreTask(index, partition)
            for index, (_, stores) in enumerate(operators)
            for partition in range(max((store.partitions for store in stores), default=0))
        )
        what = f"profiling {checkpoint.place}, {many(len(tasks), 'task')}"
        return cls(tasks, checkpoint.folder, "profiling", what, tuple(operators), reference_ms)

    def title(self, task: StoreTask) -> str:
        return self.operators[task.operator][0].title

    def entries(self, result: OperatorTally) -> int:
        return sum(state.entries for state in result.states.values())

    def perform(self, task: StoreTask, conditions: Conditions, take: Take) -> OperatorTally:
        operator, stores = self.operators[task.operator]
        weights = KeyWeights(is_alone=sum(not store.is_index for store in stores) == 1)
        found, part = OperatorTally(), range(task.partition, task.partition + 1)
        for store in stores:
            plan = plan_of(operator, store)
            tally = found.states[plan.place] = StateTally.of(plan, self.reference_ms, part)
            look = _StoreLook(operator, store, tally, weights)
            for block in store.blocks_of(task.partition) if task.partition < store.partitions else ():
                take(look.add(block))
        weights.settle()
        for (_, name), state in found.states.items():
            state.top = weights.tops.get(name, state.top)
        found.top = weights.result()
        return found


def plan_of(operator: SparkOperator, store: SparkStore) -> StatePlan:
    """Return what is read of a store."""
    return StatePlan(store.name, StateKind.VALUE, stores_expiry=store.name in operator.facts.expiring)


@attrs.frozen
class _StoreLook:
    """What looks at the entries of a store."""

    operator: SparkOperator
    store: SparkStore
    tally: StateTally
    weights: KeyWeights

    def add(self, block: Block) -> int:
        """Add a block; return its bytes."""
        rows = len(block.stored_keys)
        if not rows:
            return 0
        keys = np.fromiter(map(len, block.stored_keys), np.int64, rows)
        values = np.fromiter(map(len, block.stored_values), np.int64, rows)
        parts = np.full(rows, block.partition)
        self.tally.add_sizes(keys, values, parts)
        self.tally.fields.add("key", block.key)
        self.tally.fields.add("value", block.value)
        if self.tally.fields.ages.is_left:
            self.tally.fields.has_ages = True
            self.tally.fields.ages.add(block.value.field(_EXPIRES))
        if not self.store.is_index:
            self._add_keys(block, parts, keys + values)
        return int((keys + values).sum())

    def _add_keys(self, block: Block, parts: Places, sizes: Places) -> None:
        """Add the grouping keys as JSON; only those of the heaviest entries where each key has one."""
        schema = self.store.require_schema()
        group = group_of(schema.key, self.operator.kind)
        is_within = group is not schema.key
        is_unique = not is_within and self.store.kind == "value" and self._names(group) == tuple(group.names)
        rows = np.arange(len(sizes))
        if is_unique:
            above = self.weights.needed_above(self.store.name)
            rows = rows if above is None else heaviest_rows(sizes, HEAVIEST, above)
        column = block.key.field(0) if is_within else block.key
        texts = self._texts(column.take(pa.array(rows)), group)
        weights = Weights(pa.array(texts, pa.binary()), parts[rows], np.ones(len(rows), np.int64), sizes[rows])
        self.weights.add(self.store.name, weights, is_unique=is_unique)

    def _names(self, group: SparkType) -> tuple[str, ...]:
        return tuple(hashed_fields(group, self.operator.kind))

    def _texts(self, column: pa.Array, group: SparkType) -> list[bytes]:
        names = self._names(group)
        found = json_values(column, group)
        if not group.names:
            return [json_text(one).encode() for one in found]
        return [json_text({name: one[name] for name in names}).encode() for one in found]
