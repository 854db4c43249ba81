"""The entries of a store, converted by columns and written to the partitions that Spark's hash has for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from xxhash import xxh3_64_intdigest

from ....serializers.errors import located
from ..rows import decode_rows
from .merging import merge_values
from .partitioning import partitions_of, require_placed
from .row_encoder import encode_rows, rows_of
from .store_writer import stored_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from .plan import StorePlan
    from .providers import Provider
    from .row_encoder import Encoded

    Numbers = NDArray[Any]

_PART_BYTES = 32 << 20


@attrs.define
class EntryCopy:
    """The conversion of the entries of a store, from and to the files of its provider."""

    provider: Provider
    _counts: dict[int, int] = attrs.field(factory=dict, init=False)

    @property
    def plan(self) -> StorePlan:
        """What is done with the store."""
        return self.provider.plan

    def run(self) -> tuple[tuple[int, ...], int]:
        """Convert the entries; return how many each partition had, and how many were merged."""
        store = self.plan.store
        missing = [one for one in range(store.partitions) if not self.provider.is_written(one)]
        if self.plan.may_collide:
            return self._merge()
        if self.plan.key.convert is None:
            for partition in missing:
                self._route([partition], [partition])
        else:
            for targets in self._together(missing):
                self._route(list(range(store.partitions)), targets)
        return tuple(map(self._count, range(store.partitions))), 0

    def _count(self, partition: int) -> int:
        """Return the number of entries of a partition; one that an earlier run has converted is read for it."""
        if partition not in self._counts:
            self._counts[partition] = self.plan.store.count(partition)
        return self._counts[partition]

    def _route(self, sources: list[int], targets: list[int]) -> None:
        """Convert the entries of some partitions, and write those that belong to others."""
        with self.provider.open(targets) as write:
            for source in sources:
                count = 0
                for keys, values in self.provider.blocks(source):
                    with located(file=f"state/{self.plan.store.operator}/{source}"):
                        block = self._converted(source, keys, values)
                    write(*block)
                    count += len(keys)
                self._counts[source] = count

    def _merge(self) -> tuple[tuple[int, ...], int]:
        """Convert the entries of a store whose keys may become equal, a part of the keys at a time."""
        store = self.plan.store
        sizes = store.measure()
        parts = 1 + sum(one.size_bytes for one in sizes) // _PART_BYTES
        merged = 0
        for targets in self._together(list(range(store.partitions))):
            with self.provider.open(targets) as write:
                for part in range(parts):
                    block, fewer = self._merged_part(targets, part, parts)
                    merged += fewer
                    write(*block)
        return tuple(one.entries for one in sizes), merged

    def _merged_part(self, targets: list[int], part: int, parts: int) -> tuple[tuple[Encoded, Encoded, Numbers], int]:
        """Return the entries of some partitions, of a part of the keys, and how many were merged."""
        wanted, group_of = set(targets), dict[bytes, int]()
        partitions: list[int] = []
        values: list[bytes] = []
        groups: list[int] = []
        for source in range(self.plan.store.partitions):
            for blocks in self.provider.blocks(source):
                keys, new_values, partition = self._converted(source, *blocks)
                for key, value, of in zip(rows_of(keys), rows_of(new_values), partition.tolist(), strict=True):
                    if of in wanted and xxh3_64_intdigest(key) % parts == part:
                        group = group_of.setdefault(key, len(group_of))
                        if group == len(partitions):
                            partitions.append(of)
                        values.append(value)
                        groups.append(group)
        if not values:
            rows: Sequence[bytes] = ()
        else:
            rows = merge_values(values, groups, self.plan.schema.value, self.plan.changes.merges)
        at = np.asarray(partitions, np.int64)
        return (stored_rows([*group_of]), stored_rows(rows), at), len(values) - len(rows)

    def _together(self, partitions: list[int]) -> Iterator[list[int]]:
        """Yield partitions whose files are written at the same time."""
        most = self.provider.most_open
        for start in range(0, len(partitions), most):
            yield partitions[start : start + most]

    def _converted(
        self, source: int, keys: Sequence[bytes], values: Sequence[bytes]
    ) -> tuple[Encoded, Encoded, Numbers]:
        """Return new keys, new values, and the partition of each."""
        store, old = self.plan.store, self.plan.store.schema
        assert old is not None  # noqa: S101 - it was compared
        partition = np.full(len(keys), source, np.int64)
        new_keys = stored_rows(keys)
        if self.plan.key.convert is not None:
            column = decode_rows(keys, old.key)
            require_placed(column, self.plan.grouping(old.key), store.partitions, source)
            column = self.plan.key.convert(column)
            partition = partitions_of(column, self.plan.grouping(self.plan.schema.key), store.partitions)
            new_keys = encode_rows(column, self.plan.schema.key)
        new_values = stored_rows(values)
        if self.plan.value.convert is not None:
            column = self.plan.value.convert(decode_rows(values, old.value))
            for fill in self.plan.filled:
                column = fill.into(column, rows_of(new_keys))
            new_values = encode_rows(column, self.plan.schema.value)
        return new_keys, new_values, partition
