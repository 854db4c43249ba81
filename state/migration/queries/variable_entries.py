"""The entries of variables, converted by columns and written to RocksDB, with the families that follow from them.

$ttl_NAME           the end of the time to live and the key, of each entry; of a list, of the element that ends first
$min_NAME           of a list that expires: when its first element does, by key
$count_NAME         of a list that expires: the number of its elements, by key
$rowCounter_NAME    of another list: the same
$…_timestampToKey   the time and the key of each timer
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from ....serializers.spark_rows.row_encoder import encode_rows, longs_of, numbers_of, rows_of, validity_of
from ....serializers.spark_rows.spark_types import SparkType
from ...formats.spark.layout_encoder import LayoutEncoder
from ...formats.spark.layouts import RowEncoding, joined
from ...formats.spark.partitioning import partitions_of, require_placed
from .merged_values import equal_keys, merge_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from ...formats.spark.logs import PlannedBatch
    from ...formats.spark.reader import SparkStore
    from ...formats.spark.store_files import Entries
    from .operator_copy import OperatorCopy, StoreCopy

    Numbers = NDArray[Any]
    EntryColumns = tuple[SparkStore, pa.StructArray, pa.StructArray, Numbers | None]
    """A store of the new query, keys, values, and the partition of each; None: as it was."""

_SIZE = struct.Struct("<i")
_LONG = SparkType("bigint")


def moved_keys(plan: StoreCopy, source: int, keys: pa.StructArray) -> tuple[pa.StructArray, Numbers | None]:
    """Return new keys, and the partition of each; None: as it was.

    Args:
        plan: What is done with the store.
        source: The partition of the old keys.
        keys: The old keys; of a variable, its grouping keys.

    Raises:
        UnsupportedFormat: Old keys do not lie where Spark's hash has them.
    """
    if plan.key.convert is None:
        return keys, None
    old, new = plan.groups
    require_placed(keys, old, plan.was.partitions, source)
    keys = plan.key.convert(keys)
    return keys, partitions_of(keys, new, plan.was.partitions)


@attrs.define
class _Rows:
    """Entries of a variable by columns.

    Attributes:
        key: The keys.
        value: The values, without their deadlines.
        deadline: The deadlines, in milliseconds since 1970; None: there are none.
        partition: The partition of each; None: as it was.
    """

    key: pa.StructArray
    value: pa.StructArray
    deadline: Numbers | None
    partition: Numbers | None


@attrs.define
class VariableConversion:
    """The conversion of the entries of a variable.

    Attributes:
        settings: Those of the last batch.
        operator: What is done with the operator.
        variable: What is done with the variable.
        merged: How many entries were merged so far.
    """

    settings: PlannedBatch
    operator: OperatorCopy
    variable: StoreCopy
    merged: int = 0

    @property
    def _is_avro(self) -> bool:
        return self.settings.encoding == "avro"

    def entries(self, source: int) -> Iterator[tuple[SparkStore, Sequence[bytes], Sequence[bytes], Numbers | None]]:
        """Yield the family of some entries, their keys and values, and the partition of each."""
        variable = self.variable
        if variable.is_same:
            for word, store in [("", variable.was), *variable.indexes.items()]:
                to, of = (variable.now, store) if not word else (store, self._old_index(store))
                for keys, values in of.stored_blocks(source):
                    yield to, keys, values, None
            return
        encoder = LayoutEncoder(self._is_avro)
        for store, key, value, partition in self._columns(source):
            keys, values = encoder.encode_keys(key, *_key_of(store)), encoder.encode(value, _value_of(store))
            yield store, keys, values, partition

    def columns(self, source: int) -> Iterator[EntryColumns]:
        """Yield a store of the new query, and some of its entries by columns: they are not encoded.

        Args:
            source: The partition of the old entries.
        """
        variable = self.variable
        if not variable.is_same:
            yield from self._columns(source)
            return
        for word, store in [("", variable.now), *variable.indexes.items()]:
            for block in (self._old_index(store) if word else variable.was).blocks_of(source):
                yield store, block.key, block.value, None

    def _columns(self, source: int) -> Iterator[EntryColumns]:
        """Yield the converted entries of a variable, and those of its indexes."""
        variable = self.variable
        for keys, values in _in_groups(variable.was.stored_blocks(source), _GROUPS[variable.was.kind]):
            rows = self._converted(source, keys, values)
            if variable.may_collide:
                rows = self._merged(rows)
            yield variable.now, rows.key, self._whole(rows), rows.partition
            yield from self._indexed(rows, keys)

    def _old_index(self, store: SparkStore) -> SparkStore:
        """Return the old family of an index, which has the name of the old variable."""
        name = store.name.removesuffix(self.variable.now.name) + self.variable.was.name
        name = store.name if self.variable.was.kind == "timers" else name
        assert self.operator.was is not None  # noqa: S101 - what starts empty has no entries
        return self.operator.was.index(name)

    def each(self, source: int, key: pa.StructArray, value: pa.StructArray) -> tuple[pa.StructArray, pa.StructArray]:
        """Return new keys and values of entries, of which none is merged: with those of the old ones, by columns.

        Args:
            source: The partition of the old entries.
            key: The old keys.
            value: The old values.
        """
        if self.variable.is_same:
            return key, value
        rows = self._of_columns(source, key, value)
        return rows.key, self._whole(rows)

    def _converted(self, source: int, keys: Sequence[bytes], values: Sequence[bytes]) -> _Rows:
        was = self.variable.was
        assert was.family is not None  # noqa: S101 - variables are column families
        encoding = RowEncoding(was.family.writers if self._is_avro else None)
        key = encoding.decode_keys(keys, *_key_of(was))
        return self._of_columns(source, key, encoding.decode_values(values, _value_of(was)))

    def _of_columns(self, source: int, key: pa.StructArray, value: pa.StructArray) -> _Rows:
        was, now, deadlines = self.variable.was, self.variable.now, self.variable.deadlines
        group, *rest = [key] if was.kind in {"value", "list"} else key.flatten()
        group, partition = moved_keys(self.variable, source, group)
        if was.kind == "map":
            rest = [_applied(self.variable.user_key.convert, rest[0])]
        key = joined([group, *rest], _key_of(now)[0]) if rest else group
        deadline = None
        if deadlines.were:
            value, ends = value.flatten()
            deadline = _longs(ends) + deadlines.later_ms
        if deadlines.are and not deadlines.were:
            deadline = np.full(len(value), deadlines.at_ms, np.int64)
        elif not deadlines.are:
            deadline = None
        value = _applied(self.variable.value.convert, value)
        for fill in self.variable.filled:
            value = fill.into(value, rows_of(encode_rows(group, self.variable.groups[1])))
        return _Rows(key, value, deadline, partition)

    def _merged(self, rows: _Rows) -> _Rows:
        """Merge the entries of a map whose keys became equal; the latest deadline stays."""
        variable = self.variable
        of, (groups, firsts) = variable.value_type, equal_keys(rows.key)
        if len(firsts) == len(groups):
            return rows
        self.merged += len(groups) - len(firsts)
        path = f"{variable.now.name}{{}}"
        rules = {f"value.{name}": self.operator.changes.merges.get(f"{path}.{name}", "") for name in of.names}
        value = merge_columns(rows.value, groups, of, rules)
        deadline = None
        if rows.deadline is not None:
            deadline = np.full(len(firsts), np.iinfo(np.int64).min)
            np.maximum.at(deadline, np.asarray(groups), rows.deadline)
        partition = None if rows.partition is None else rows.partition[firsts]
        return _Rows(rows.key.take(longs_of(firsts)), value, deadline, partition)

    def _whole(self, rows: _Rows) -> pa.StructArray:
        """Return values with their deadlines, if they have some."""
        if rows.deadline is None:
            return rows.value
        return joined([rows.value, longs_of(rows.deadline)], _value_of(self.variable.now))

    def _indexed(self, rows: _Rows, stored: Sequence[bytes]) -> Iterator[EntryColumns]:
        """Yield the entries of the families that follow from entries; `stored` are the old keys."""
        deadline, key, partition = rows.deadline, rows.key, rows.partition
        counts = np.ones(len(key), np.int64)
        if self.variable.now.kind == "list" and self.variable.indexes:
            firsts = np.asarray([at for at, one in enumerate(stored) if not at or one != stored[at - 1]], np.int64)
            counts = np.diff(firsts, append=len(stored))
            key = key.take(longs_of(firsts))
            deadline = None if deadline is None else np.minimum.reduceat(deadline, firsts)
            partition = None if partition is None else partition[firsts]
        for word, store in self.variable.indexes.items():
            of_key, _ = _key_of(store)
            columns: dict[str, Callable[[], tuple[Any, Any]]] = {
                "ttl": lambda: ([longs_of(_known(deadline)), key], None),
                "min": lambda: (key, longs_of(_known(deadline))),
                "count": lambda: (key, longs_of(counts)),
                "rowCounter": lambda: (key, longs_of(counts)),
                "timers": lambda: (key.flatten()[::-1], None),
            }
            keys, value = columns[word]()
            values = joined([pa.nulls(len(key)) if value is None else value], _value_of(store))
            whole = joined(keys, of_key) if isinstance(keys, list) else keys
            yield store, whole, values, partition


def _known(deadline: Numbers | None) -> Numbers:
    assert deadline is not None  # noqa: S101 - only what expires has such an index
    return deadline


def _applied(convert: Callable[[pa.Array], pa.Array] | None, column: pa.Array) -> pa.Array:
    return column if convert is None else convert(column)


def _longs(column: pa.Array) -> Numbers:
    numbers = numbers_of(column, _LONG, validity_of(column))
    assert numbers is not None  # noqa: S101 - it is one of the numbers
    return numbers.view(np.int64)


def _key_of(store: SparkStore) -> tuple[SparkType, Any]:
    """Return the type of keys, and how they are laid out."""
    return store.require_schema().key, store.key_layout


def _value_of(store: SparkStore) -> SparkType:
    return store.require_schema().value


def _in_groups(blocks: Iterable[Entries], group: Callable[[bytes], bytes] | None) -> Iterator[Entries]:
    """Yield blocks that end where a list does, or a map; None: as they are."""
    if group is None:
        yield from blocks
        return
    last: Entries = [], []
    for block in blocks:
        keys, values = [*last[0], *block[0]], [*last[1], *block[1]]
        end = len(keys)
        of_last = group(keys[-1])
        while end and group(keys[end - 1]) == of_last:
            end -= 1
        if end:
            yield keys[:end], values[:end]
        last = keys[end:], values[end:]
    if last[0]:
        yield last


def _of_prefix(key: bytes) -> bytes:
    return key[: _SIZE.size + _SIZE.unpack_from(key)[0]]


_GROUPS: dict[str, Callable[[bytes], bytes] | None] = {
    "value": None,
    "timers": None,
    "list": lambda key: key,
    "map": _of_prefix,
}
