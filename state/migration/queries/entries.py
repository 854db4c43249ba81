"""The entries of a store, converted by columns and written to the partitions that Spark's hash has for them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from xxhash import xxh3_64_intdigest

from ....compat.queries.problems import unmerged
from ....serializers.errors import IncompatibleState, located
from ....serializers.spark_rows.row_encoder import encode_rows, rows_of
from ....serializers.spark_rows.rows import decode_rows
from ....serializers.ways_out import Option, WayOut
from ...formats.spark.store_writer import stored_rows
from .merged_values import merge_values
from .providers import require_all, routes
from .variable_entries import VariableConversion, moved_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from ....serializers.spark_rows.row_encoder import Encoded
    from ...formats.spark.reader import SparkStore
    from .operator_copy import StoreCopy
    from .providers import Entry, Provider
    from .report import Counts

    Numbers = NDArray[Any]

_PART_BYTES = 32 << 20


@attrs.define
class EntryCopy:
    """The conversion of the entries of stores that have the same files, from and to those of their provider."""

    provider: Provider
    _read: dict[tuple[str, int], int] = attrs.field(factory=dict, init=False)
    _merged: Counter[str] = attrs.field(factory=Counter, init=False)

    def run(self) -> Iterator[tuple[str, Counts]]:
        """Convert the entries, and count what was written; yield the name of each store, with its counts.

        Raises:
            MigrationFailed: Entries were lost.
        """
        operator, provider = self.provider.operator, self.provider
        stores, count = operator.stores, operator.partitions
        collide = any(one.may_collide for one in stores)
        if collide and not operator.has_variables:
            for one in stores:
                self._merge(one)
        else:
            # where entries are merged, they are counted as they are written
            missing = [one for one in range(count) if collide or not provider.is_written(one)]
            moves = any(one.moves for one in stores)
            for sources, targets in routes(count, missing, moves=moves, most_open=provider.most_open):
                self._route(sources, targets)
        copied = provider.copied()
        for one in stores:
            with located(state=one.was.name):
                yield one.now.name, self._counted(one, copied)
        for store in operator.dropped:
            yield store.name, (tuple(one.entries for one in store.measure()), (), 0)

    def _counted(self, plan: StoreCopy, copied: Callable[[SparkStore], SparkStore]) -> Counts:
        """Count the entries of a store in the copy, and compare with those that were read."""
        details, is_lost = list[str](), False
        if self.provider.operator.has_variables:
            sizes = [[part.entries for part in one.measure()] for one in (plan.was, copied(plan.now))]
            indexes = {word: sum(one.entries for one in copied(of).measure()) for word, of in plan.indexes.items()}
            # a list has one entry in each of its indexes for each key
            is_lost = len({*indexes.values(), *([] if plan.was.kind == "list" else [sum(sizes[1])])}) > 1
            details = [f"  in ${word}: {count:,}" for word, count in indexes.items()]
        else:
            partitions, now = range(plan.was.partitions), copied(plan.now)
            sizes = [[self._count(plan, one) for one in partitions], [now.count(one) for one in partitions]]
        read, written = map(tuple, sizes)
        counts = read, written, self._merged[plan.now.name]
        moves = plan.moves or plan.may_collide
        return require_all(plan.now.name, counts, moves=moves, details=details, is_lost=is_lost)

    def _count(self, plan: StoreCopy, partition: int) -> int:
        """Return the number of entries of a partition; one that an earlier run has converted is read for it."""
        at = plan.was.name, partition
        if at not in self._read:
            self._read[at] = plan.was.count(partition)
        return self._read[at]

    def _route(self, sources: list[int], targets: list[int]) -> None:
        """Convert the entries of some partitions, and write those that belong to others."""
        with self.provider.open(targets) as write:
            for plan in self.provider.operator.stores:
                for source in sources:
                    with located(file=f"state/{plan.was.operator}/{source}", state=plan.was.name):
                        for entries in self._blocks(plan, source):
                            write(*entries)

    def _blocks(self, plan: StoreCopy, source: int) -> Iterator[tuple[SparkStore, Entry, Entry, Numbers | None]]:
        """Yield stores of the copy with new keys and values, and the partition of each; None: as it was."""
        if self.provider.operator.has_variables:
            converting = VariableConversion(self.provider.migration.settings, self.provider.operator, plan)
            yield from converting.entries(source)
            self._merged[plan.now.name] += converting.merged
            return
        count = 0
        for keys, values in self.provider.blocks(plan.was, source):
            yield plan.now, *self._converted(plan, source, keys, values)
            count += len(keys)
        self._read[plan.was.name, source] = count

    def _merge(self, plan: StoreCopy) -> None:
        """Convert the entries of a store whose keys may become equal, a part of the keys at a time."""
        sizes = plan.was.measure()
        self._read |= {(plan.was.name, partition): size.entries for partition, size in enumerate(sizes)}
        parts = 1 + sum(one.size_bytes for one in sizes) // _PART_BYTES
        every, most_open = plan.was.partitions, self.provider.most_open
        for _, targets in routes(every, list(range(every)), moves=True, most_open=most_open):
            with self.provider.open(targets) as write:
                for part in range(parts):
                    block, fewer = self._merged_part(plan, targets, part, parts)
                    self._merged[plan.now.name] += fewer
                    write(plan.now, *block)

    def _merged_part(
        self, plan: StoreCopy, targets: list[int], part: int, parts: int
    ) -> tuple[tuple[Encoded, Encoded, Numbers], int]:
        """Return the entries of some partitions, of a part of the keys, and how many were merged."""
        wanted, group_of = set(targets), dict[bytes, int]()
        partitions: list[int] = []
        values: list[bytes] = []
        groups: list[int] = []
        for source in range(plan.was.partitions):
            for blocks in self.provider.blocks(plan.was, source):
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
            of, merges = plan.value_type, self.provider.operator.changes.merges
            if missing := [*unmerged(of, "value", merges)]:
                raise IncompatibleState(
                    f"{len(values) - len(group_of):,} keys became equal to others by the function of"
                    f" {', '.join(plan.key.by_function)}, and no rule says how {', '.join(missing)} are merged",
                    advice=(
                        WayOut.telling("add rules, such as", Option.MERGE_FIELD, plan.was.operator, missing[0], "sum"),
                        "let the function return as many keys as it takes",
                    ),
                )
            rows = merge_values(values, groups, of, merges)
        at = np.asarray(partitions, np.int64)
        return (stored_rows([*group_of]), stored_rows(rows), at), len(values) - len(rows)

    def _converted(
        self, plan: StoreCopy, source: int, keys: Sequence[bytes], values: Sequence[bytes]
    ) -> tuple[Encoded, Encoded, Numbers]:
        """Return new keys, new values, and the partition of each."""
        old, new = plan.was.require_schema(), plan.now.require_schema()
        partition = np.full(len(keys), source, np.int64)
        new_keys = stored_rows(keys)
        if plan.key.convert is not None:
            column, at = moved_keys(plan, source, decode_rows(keys, old.key))
            partition = partition if at is None else at
            new_keys = encode_rows(column, new.key)
        new_values = stored_rows(values)
        if plan.value.convert is not None:
            column = plan.value.convert(decode_rows(values, old.value))
            for fill in plan.filled:
                column = fill.into(column, rows_of(new_keys))
            new_values = encode_rows(column, new.value)
        return new_keys, new_values, partition
