"""The entries that a copy should have: those of the source, converted once more by columns, and not encoded.

What both sides share with the copy that was written is the conversion of columns, and Spark's hash of keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
from xxhash import xxh3_64_intdigest

from ....serializers.errors import UnsupportedFormat
from ....serializers.spark_rows.row_encoder import encode_rows, longs_of, rows_of
from ...formats.spark.reader import ROCKSDB
from .merged_values import equal_keys, merge_columns
from .texts import texts_of
from .variable_entries import VariableConversion, moved_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from ...formats.spark.reader import Block, SparkStore
    from .operator_copy import OperatorCopy, StoreCopy
    from .preparation import PreparedCopy

    Numbers = NDArray[Any]
    Source = Callable[[], Iterator["Rows"]]

_PART_BYTES = 32 << 20


@attrs.frozen
class Rows:
    """Some entries.

    Attributes:
        key: Their keys.
        value: Their values.
        partition: The partition of each.
        odd: Whether the key of each is stored in other bytes than Spark writes, which never finds it; None: none is.
    """

    key: pa.StructArray
    value: pa.StructArray
    partition: Numbers
    odd: Numbers | None = None

    def take(self, at: Numbers) -> Rows:
        """Return some of them, by their numbers."""
        numbers = longs_of(at)
        odd = None if self.odd is None else self.odd[at]
        return Rows(self.key.take(numbers), self.value.take(numbers), self.partition[at], odd)


def of_store(plan: StoreCopy, merges: Mapping[str, str]) -> Iterator[Rows]:
    """Yield the entries that a store should have; keys that became equal are merged again, a part of them at a time."""
    if not plan.may_collide:
        for partition in range(plan.was.partitions):
            yield from _converted(plan, partition)
        return
    parts = 1 + sum(one.size_bytes for one in plan.was.measure()) // _PART_BYTES
    for part in range(parts):
        found = [one for one in _of_part(plan, part, parts) if len(one.key)]
        if found:
            yield _with_merged(plan, merges, found)


def _converted(plan: StoreCopy, partition: int) -> Iterator[Rows]:
    for block in plan.was.blocks_of(partition):
        key, at = moved_keys(plan, partition, block.key)
        at = np.full(len(key), partition, np.int64) if at is None else at
        value = block.value if plan.value.convert is None else plan.value.convert(block.value)
        yield Rows(key, value, at, odd_keys(plan.was, block) if plan.key.convert is None else None)


def odd_keys(store: SparkStore, block: Block) -> Numbers | None:
    """Return which keys of a block have other bytes than Spark writes for them, though they are read as the same.

    Spark looks keys up by their bytes, also those that no value is in. Blocks of RocksDB have checksums: there none is
    looked for, nor among keys of types that this release does not write.
    """
    planned, schema = store.log.last, store.schema
    if planned is None or planned.provider == ROCKSDB or schema is None:
        return None
    try:
        written = rows_of(encode_rows(block.key, schema.key))
    except UnsupportedFormat:
        return None
    odd = np.fromiter((one != other for one, other in zip(block.stored_keys, written, strict=True)), bool, len(written))
    return odd if odd.any() else None


def _of_part(plan: StoreCopy, part: int, parts: int) -> Iterator[Rows]:
    for partition in range(plan.was.partitions):
        for one in _converted(plan, partition):
            keys = texts_of(one.key)
            at = [number for number, key in enumerate(keys) if xxh3_64_intdigest(key) % parts == part]
            yield one.take(np.asarray(at, np.int64))


def _with_merged(plan: StoreCopy, merges: Mapping[str, str], found: list[Rows]) -> Rows:
    """Merge the values of keys that became equal."""
    rows = Rows(
        pa.concat_arrays([one.key for one in found]),
        pa.concat_arrays([one.value for one in found]),
        np.concatenate([one.partition for one in found]),
    )
    if plan.key.by_function:
        return rows  # which of them became equal is not known
    groups, firsts = equal_keys(rows.key)
    if len(firsts) == len(groups):
        return rows
    value = merge_columns(rows.value, groups, plan.value_type, merges)
    return Rows(rows.key.take(longs_of(firsts)), value, rows.partition[firsts])


def of_variable(plan: PreparedCopy, operator: OperatorCopy, variable: StoreCopy, store: SparkStore) -> Source:
    """Return a function that yields the entries that a store of a variable should have."""
    converting = VariableConversion(plan.settings, operator, variable)

    def expected() -> Iterator[Rows]:
        for source in range(operator.partitions):
            for to, key, value, partition in converting.columns(source):
                if to.name == store.name:
                    yield Rows(key, value, np.full(len(key), source, np.int64) if partition is None else partition)

    return expected
