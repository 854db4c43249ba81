"""The entries of a store, converted by columns and written to the partitions that Spark's hash has for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from xxhash import xxh3_64_intdigest

from ....compat.queries.problems import unmerged
from ....serializers.errors import IncompatibleState, located
from ....serializers.spark_rows.row_encoder import encode_rows, rows_of
from ....serializers.spark_rows.rows import decode_rows
from ....serializers.ways_out import Option, WayOut
from ...formats.spark.partitioning import partitions_of, require_placed
from ...formats.spark.store_writer import stored_rows
from .merging import merge_values
from .providers import routes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from ....serializers.spark_rows.row_encoder import Encoded
    from .providers import Provider
    from .store_plan import StorePlan

    Numbers = NDArray[Any]

_PART_BYTES = 32 << 20


@attrs.define
class EntryCopy:
    """The conversion of the entries of stores that have the same files, from and to those of their provider."""

    provider: Provider
    _counts: dict[tuple[str, int], int] = attrs.field(factory=dict, init=False)

    def run(self) -> tuple[tuple[tuple[int, ...], int], ...]:
        """Convert the entries; return of each store how many each partition had, and how many were merged."""
        plans = self.provider.plans
        partitions = range(plans[0].store.partitions)
        missing = [one for one in partitions if not self.provider.is_written(one)]
        if any(plan.may_collide for plan in plans):  # a column family never does
            return tuple(map(self._merge, plans))
        moves = any(plan.key.convert is not None for plan in plans)
        for sources, targets in routes(len(partitions), missing, moves=moves, most_open=self.provider.most_open):
            self._route(sources, targets)
        return tuple((tuple(self._count(plan, one) for one in partitions), 0) for plan in plans)

    def _count(self, plan: StorePlan, partition: int) -> int:
        """Return the number of entries of a partition; one that an earlier run has converted is read for it."""
        at = plan.store.name, partition
        if at not in self._counts:
            self._counts[at] = plan.store.count(partition)
        return self._counts[at]

    def _route(self, sources: list[int], targets: list[int]) -> None:
        """Convert the entries of some partitions, and write those that belong to others."""
        with self.provider.open(targets) as write:
            for plan in self.provider.plans:
                for source in sources:
                    count = 0
                    for keys, values in self.provider.blocks(plan, source):
                        with located(file=f"state/{plan.store.operator}/{source}"):
                            block = self._converted(plan, source, keys, values)
                        write(plan, *block)
                        count += len(keys)
                    self._counts[plan.store.name, source] = count

    def _merge(self, plan: StorePlan) -> tuple[tuple[int, ...], int]:
        """Convert the entries of a store whose keys may become equal, a part of the keys at a time."""
        store = plan.store
        sizes = store.measure()
        parts = 1 + sum(one.size_bytes for one in sizes) // _PART_BYTES
        merged = 0
        every, most_open = store.partitions, self.provider.most_open
        for _, targets in routes(every, list(range(every)), moves=True, most_open=most_open):
            with self.provider.open(targets) as write:
                for part in range(parts):
                    block, fewer = self._merged_part(plan, targets, part, parts)
                    merged += fewer
                    write(plan, *block)
        return tuple(one.entries for one in sizes), merged

    def _merged_part(
        self, plan: StorePlan, targets: list[int], part: int, parts: int
    ) -> tuple[tuple[Encoded, Encoded, Numbers], int]:
        """Return the entries of some partitions, of a part of the keys, and how many were merged."""
        wanted, group_of = set(targets), dict[bytes, int]()
        partitions: list[int] = []
        values: list[bytes] = []
        groups: list[int] = []
        for source in range(plan.store.partitions):
            for blocks in self.provider.blocks(plan, source):
                keys, new_values, partition = self._converted(plan, source, *blocks)
                for key, value, of in zip(rows_of(keys), rows_of(new_values), partition.tolist(), strict=True):
                    if of in wanted and xxh3_64_intdigest(key) % parts == part:
                        group = group_of.setdefault(key, len(group_of))
                        if group == len(partitions):
                            partitions.append(of)
                        values.append(value)
                        groups.append(group)
        rows: Sequence[bytes] = values
        if len(group_of) < len(values):
            if missing := [*unmerged(plan.schema.value, "value", plan.changes.merges)]:
                raise IncompatibleState(
                    f"{len(values) - len(group_of):,} keys became equal to others by the function of"
                    f" {', '.join(plan.key.by_function)}, and no rule says how {', '.join(missing)} are merged",
                    advice=(
                        WayOut.telling("add rules, such as", Option.MERGE_FIELD, plan.number, missing[0], "sum"),
                        "let the function return as many keys as it takes",
                    ),
                )
            rows = merge_values(values, groups, plan.schema.value, plan.changes.merges)
        at = np.asarray(partitions, np.int64)
        return (stored_rows([*group_of]), stored_rows(rows), at), len(values) - len(rows)

    def _converted(
        self, plan: StorePlan, source: int, keys: Sequence[bytes], values: Sequence[bytes]
    ) -> tuple[Encoded, Encoded, Numbers]:
        """Return new keys, new values, and the partition of each."""
        old = plan.store.require_schema()
        partition = np.full(len(keys), source, np.int64)
        new_keys = stored_rows(keys)
        if plan.key.convert is not None:
            column, partition = moved_keys(plan, source, decode_rows(keys, old.key))
            new_keys = encode_rows(column, plan.schema.key)
        new_values = stored_rows(values)
        if plan.value.convert is not None:
            column = plan.value.convert(decode_rows(values, old.value))
            for fill in plan.filled:
                column = fill.into(column, rows_of(new_keys))
            new_values = encode_rows(column, plan.schema.value)
        return new_keys, new_values, partition


def moved_keys(plan: StorePlan, source: int, keys: pa.StructArray) -> tuple[pa.StructArray, Numbers]:
    """Return new keys, and the partition of each.

    Args:
        plan: What is done with the store.
        source: The partition of the old keys.
        keys: The old keys.

    Raises:
        UnsupportedFormat: Old keys do not lie where Spark's hash has them.
    """
    old, count = plan.store.require_schema(), plan.store.partitions
    if plan.key.convert is None:
        return keys, np.full(len(keys), source, np.int64)
    require_placed(keys, plan.grouping(old.key), count, source)
    keys = plan.key.convert(keys)
    return keys, partitions_of(keys, plan.grouping(plan.schema.key), count)
