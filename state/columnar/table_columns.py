"""Columns of a state: runs of keyed entries or timers, or elements of operator state, as record batches.

    key_group, key, [namespace], value            value, list, reducing and aggregating state: one row for each key
    key_group, key, [namespace], user_key, value  map state: one row for each entry of a map
    key_group, key, [namespace], timestamp_ms     timers
    subtask, value                                list state, split or union: one row for each element
    key, value                                    broadcast state: one row for each entry of its map

The namespace column exists where a namespace has content: for time windows, but not for plain keyed state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

import attrs
import numpy as np
import pyarrow as pa

from ...compat.description import StateKind, ValueFraming
from ...serializers.columns.bytes_at import MOST_BYTES, none, number_array, numbers_at, padded
from ...serializers.columns.codec import Cells, told_at
from ...serializers.columns.nested import OptionalCodec
from ...serializers.columns.scalars import NothingCodec
from ...serializers.containers.columns import list_state_codec
from ...serializers.errors import StateShiftError, located, shown
from ...serializers.primitives.columns import long_codec
from ..entry_keys import decode
from ..formats.flink.entries import EntryDecoder, read_broadcast
from ..formats.flink.value_readers import value_reader
from ..key_groups import prefix_size
from .column_values import all_codecs
from .runs import flat_decoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...serializers.columns.bytes_at import Flags, Places
    from ...serializers.columns.codec import ColumnCodec
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from ..entry_keys import EntryKeyFormat
    from ..transcode.executor_choice import ExecutorName
    from .runs import Run

_SIGN = -(1 << 63)
_OF_KEYS = ("key", "namespace", "user_key", "timestamp_ms")


@attrs.frozen
class KeySpans:
    """Where the keys of entries lie in their run.

    Attributes:
        starts: Where each key begins.
        ends: Where it ends.
        places: Where key and namespace end: what follows is the key within a map.
    """

    starts: Places
    ends: Places
    places: Places

    @classmethod
    def unknown(cls, count: int) -> KeySpans:
        """Return places for so many keys, which are not known yet."""
        return cls(*(np.zeros(count, np.int64) for _ in range(3)))

    def put(self, row: int, begin: int, data: bytes, keys: EntryKeyFormat) -> None:
        """Find the key of an entry in the bytes of the entry's key, which begin at `begin`."""
        parts = keys.split(data)
        self.starts[row] = begin + keys.key_start
        self.ends[row] = self.starts[row] + len(parts.key)
        self.places[row] = begin + len(data) - len(parts.user_key)


@attrs.frozen
class KeyedColumns:
    """The columns of a keyed state. Created with `of`.

    Attributes:
        reader: Reads an entry as objects.
        key: The codec of the keys.
        namespace: The codec of the namespaces.
        user_key: The codec of the keys within a map; None for other kinds of state.
        value: The codec of the values; None for timers.
        max_parallelism: The number of key groups.
        wanted: The names of the columns that are read; None: all.
    """

    reader: EntryDecoder
    key: ColumnCodec
    namespace: ColumnCodec
    user_key: ColumnCodec | None
    value: ColumnCodec | None
    max_parallelism: int
    wanted: frozenset[str] | None = None

    @classmethod
    def of(
        cls,
        kind: StateKind,
        key: TypeSerializerConfigSnapshot[Any],
        namespace: TypeSerializerConfigSnapshot[Any] | None,
        value: TypeSerializerConfigSnapshot[Any],
        max_parallelism: int,
        *,
        exact: bool = False,
    ) -> KeyedColumns:
        """Return the columns of a state; raises `OldReaderUnavailable` where no serializer reads its values.

        Args:
            kind: The kind of the state.
            key: The snapshot of the operator's keys.
            namespace: The snapshot of the state's namespaces; for timers None, as it is within `value`.
            value: The snapshot in the state's metadata; for list and map state that of the whole list or map.
            max_parallelism: The number of key groups.
            exact: As in `Codecs`.
        """
        codecs = all_codecs(exact=exact)
        reader = entry_reader(kind, key, namespace, value, max_parallelism)
        whole: Any = reader.value
        user_key: ColumnCodec | None = None
        told: ColumnCodec | None = None
        match kind.row.framing:
            case ValueFraming.SEPARATED:
                told = list_state_codec(codecs, whole)
            case ValueFraming.NULLABLE:
                user_key, told = codecs.of(whole.key), OptionalCodec(whole.value, codecs.of(whole.value))
            case ValueFraming.WHOLE:
                told = codecs.of(whole)
            case None:
                pass
            case _:
                assert_never(kind.row.framing)
        return cls(reader, codecs.of(reader.key), codecs.of(reader.namespace), user_key, told, max_parallelism)

    @property
    def is_namespaced(self) -> bool:
        """Whether there is a column `namespace`."""
        return not isinstance(self.namespace, NothingCodec)

    @property
    def codecs(self) -> dict[str, ColumnCodec]:
        """The codecs of the columns after `key_group`, by name."""
        found = {"key": self.key}
        if self.is_namespaced:
            found["namespace"] = self.namespace
        if self.user_key is not None:
            found["user_key"] = self.user_key
        found |= {"timestamp_ms": long_codec()} if self.value is None else {"value": self.value}
        return {name: codec for name, codec in found.items() if self._reads(name)}

    def _reads(self, *names: str) -> bool:
        """Whether one of some columns is read."""
        return self.wanted is None or not self.wanted.isdisjoint(names)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the columns."""
        fields = [pa.field(name, codec.kind) for name, codec in self.codecs.items()]
        return pa.schema([*([pa.field("key_group", pa.int32())] if self._reads("key_group") else ()), *fields])

    def batch(self, run: Run, *, singly: bool = False) -> pa.RecordBatch:
        """Decode a run.

        Args:
            run: The entries of the state.
            singly: Whether to read each entry as objects, instead of decoding blocks.

        Raises:
            ValueNotConvertible: A column cannot represent a value; the error has key and path.
            CorruptSavepoint: The bytes are damaged; the error has key and path.
        """
        if singly or len(run.raw) > MOST_BYTES:
            columns: list[pa.Array] = []
            odd = ~none(len(run))
        else:
            columns, odd = self._decoded(run)
        return self._batch(run, columns, odd)

    def batch_and_spans(self, run: Run, *, singly: bool = False) -> tuple[pa.RecordBatch, KeySpans]:
        """Return the batch of a run, and where the keys lie in it; arguments and errors as in `batch`."""
        spans = KeySpans.unknown(len(run))
        if singly or len(run.raw) > MOST_BYTES:
            columns: list[pa.Array] = []
            odd = ~none(len(run))
        else:
            columns, odd = self._decoded(run, spans)
        batch = self._batch(run, columns, odd)
        for row in np.flatnonzero(odd).tolist():
            spans.put(row, int(run.key_starts[row]), run.item(row)[0], self.reader.keys)
        return batch, spans

    def _batch(self, run: Run, columns: list[pa.Array], odd: Flags) -> pa.RecordBatch:
        if odd.any():
            columns = self._with_odd(run, columns, odd)
        if self._reads("key_group"):
            columns = [number_array(pa.int32(), run.key_groups.astype(np.int32)), *columns]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _decoded(self, run: Run, spans: KeySpans | None = None) -> tuple[list[pa.Array], Flags]:
        """Decode what is read of the whole block; return the columns and the odd rows."""
        columns, odd = self._decoded_keys(run, spans) if self._reads(*_OF_KEYS) else ([], none(len(run)))
        if self.value is None or not self._reads("value"):
            return columns, odd
        found = self.value.decode(run.values)
        return [*columns, found.column], odd | found.odd | (found.ends != run.value_ends)

    def _decoded_keys(self, run: Run, spans: KeySpans | None) -> tuple[list[pa.Array], Flags]:
        """Decode the columns of the keys of entries; each begins where the one before ends."""
        columns = []
        cells, odd = run.keys.skipped_to(prefix_size(self.max_parallelism))
        stamps = cells.starts
        if self.value is None:
            stamps = numbers_at(cells.data, cells.starts, ">i8") ^ _SIGN
            cells, short = cells.skipped_to(8)
            odd |= short
        for name, codec in (("key", self.key), ("namespace", self.namespace)):
            found = codec.decode(cells)
            odd |= found.odd
            if spans is not None and name == "key":
                spans.starts[:], spans.ends[:] = cells.starts, found.ends
            begins, cells = cells.starts, cells.moved(found.ends)
            if self.reader.keys.is_ambiguous:
                cells, wrong = _behind_length(cells, found.ends - begins)
                odd |= wrong
            if name in self.codecs:
                columns.append(found.column)
        if spans is not None:
            spans.places[:] = cells.starts
        if self.user_key is not None:
            found = self.user_key.decode(cells)
            odd |= found.odd
            cells = cells.moved(found.ends)
            if self._reads("user_key"):
                columns.append(found.column)
        odd |= cells.starts != cells.limits
        if self.value is None and self._reads("timestamp_ms"):
            columns.append(number_array(pa.int64(), stamps))
        return columns, odd

    def _with_odd(self, run: Run, columns: list[pa.Array], odd: Flags) -> list[pa.Array]:
        """Return the columns with the odd rows replaced, which are read as objects."""
        rows = np.flatnonzero(odd)
        told = [self._entry_columns(*run.item(row)) for row in rows.tolist()]
        order = np.arange(len(run))
        order[rows] = len(run) + np.arange(len(rows))
        found = []
        for index, (name, codec) in enumerate(self.codecs.items()):
            others = codec.array([one[name] for one in told])
            found.append(pa.concat_arrays([columns[index], others]).take(pa.array(order)) if columns else others)
        return found

    def _entry_columns(self, key_bytes: bytes, value_bytes: bytes) -> dict[str, Any]:
        """Read one entry as objects; return their converted values by column."""
        if self.value is None:
            return self._told_timer(key_bytes)
        key, namespace, user_key = self.reader.place(key_bytes)
        try:
            value = self.reader.read_value(user_key, value_bytes)
            name, space = self.reader.read_key(key, namespace)
            told = {"key": told_at(self.key, name, "<key>"), "namespace": told_at(self.namespace, space, "<namespace>")}
            if self.user_key is None:
                return told | {"value": self.value.tell(value)}
            user_name, item = value
            told["user_key"] = told_at(self.user_key, user_name, "<key>")
            return told | {"value": told_at(self.value, item, "{}")}
        except StateShiftError as error:
            self.reader.add_place(error, key)
            raise

    def _told_timer(self, key_bytes: bytes) -> dict[str, Any]:
        with located(key=shown(key_bytes.hex())):
            timer = decode(self.reader.value, key_bytes[prefix_size(self.max_parallelism) :])
            return {
                "key": told_at(self.key, timer.key, "<key>"),
                "namespace": told_at(self.namespace, timer.namespace, "<namespace>"),
                "timestamp_ms": timer.timestamp,
            }


def entry_reader(
    kind: StateKind,
    key: TypeSerializerConfigSnapshot[Any],
    namespace: TypeSerializerConfigSnapshot[Any] | None,
    value: TypeSerializerConfigSnapshot[Any],
    max_parallelism: int,
) -> EntryDecoder:
    """Return a reader of entries as objects, by the snapshots of their stream; arguments as in `KeyedColumns.of`."""
    if namespace is not None:
        return EntryDecoder.of(kind, key, namespace, value, max_parallelism)
    timer: Any = value.restore_serializer()
    return EntryDecoder.of_parts(kind, timer.key, timer.namespace, timer, max_parallelism)


def _behind_length(cells: Cells, sizes: Places) -> tuple[Cells, Flags]:
    """Skip the length after a key or namespace, lowest byte first; return also the rows in which it is wrong."""
    wrong = none(len(cells))
    left, going = sizes, ~wrong
    while going.any():
        wrong |= going & ((cells.starts >= cells.limits) | (cells.data[cells.starts] != (left & 0xFF)))
        cells = cells.moved(np.minimum(cells.starts + going, cells.limits))
        left = left >> 8
        going = going & (left > 0)
    return cells, wrong


@attrs.frozen
class ListColumns:
    """The columns of an operator's list state."""

    value: ColumnCodec

    @property
    def schema(self) -> pa.Schema:
        """The schema of the columns."""
        return pa.schema([pa.field("subtask", pa.int32()), pa.field("value", self.value.kind)])

    def batch(
        self, subtask: int, elements: Sequence[bytes], executor: ExecutorName, *, singly: bool = False
    ) -> pa.RecordBatch:
        """Decode the elements of a subtask; raises as `KeyedColumns.batch`, with the index of the element."""
        raw, data = padded(*elements)
        ends = np.cumsum([len(element) for element in elements], dtype=np.int64)
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
        cells = Cells(raw, data, starts, ends, flat_decoder(executor))
        singly = singly or len(raw) > MOST_BYTES
        found = self.value.decode_singly(cells) if singly else self.value.decode(cells)
        odd = found.odd | (found.ends != ends)
        column = found.column
        if odd.any():
            rows = np.flatnonzero(odd)
            told = [self._element_value(index, elements[index]) for index in rows.tolist()]
            order = np.arange(len(elements))
            order[rows] = len(elements) + np.arange(len(rows))
            column = pa.concat_arrays([column, self.value.array(told)]).take(pa.array(order))
        subtasks = pa.array(np.full(len(elements), subtask, dtype=np.int32))
        return pa.RecordBatch.from_arrays([subtasks, column], schema=self.schema)

    def _element_value(self, index: int, element: bytes) -> Any:
        try:
            return told_at(self.value, decode(self.value.serializer, element), "")
        except StateShiftError as error:
            error.where["path"] = f"$[{index}]" + str(error.where.get("path", "$")).removeprefix("$")
            raise


@attrs.frozen
class BroadcastColumns:
    """The columns of a broadcast state."""

    key: ColumnCodec
    value: ColumnCodec

    @property
    def schema(self) -> pa.Schema:
        """The schema of the columns."""
        return pa.schema([pa.field("key", self.key.kind), pa.field("value", self.value.kind)])

    def batch(self, data: bytes) -> pa.RecordBatch:
        """Decode the map, which is small because every subtask has it; raises as `KeyedColumns.batch`."""
        entries = read_broadcast(data, self.key.serializer, self.value.serializer)
        keys, values = [], []
        for name, item in entries.items():
            try:
                keys.append(told_at(self.key, name, "<key>"))
                values.append(told_at(self.value, item, "{}"))
            except StateShiftError as error:
                error.where.setdefault("key", shown(name))
                raise
        return pa.RecordBatch.from_arrays([self.key.array(keys), self.value.array(values)], schema=self.schema)


def list_columns(kind: StateKind, value: TypeSerializerConfigSnapshot[Any], *, exact: bool = False) -> ListColumns:
    """Return the columns of a list state; raises `OldReaderUnavailable` where no serializer reads its values."""
    return ListColumns(all_codecs(exact=exact).of(value_reader(kind, value)))


def broadcast_columns(
    key: TypeSerializerConfigSnapshot[Any], value: TypeSerializerConfigSnapshot[Any], *, exact: bool = False
) -> BroadcastColumns:
    """Return the columns of a broadcast state; raises as `list_columns`."""
    codecs = all_codecs(exact=exact)
    reader = value_reader(StateKind.BROADCAST, value)
    return BroadcastColumns(codecs.of(key.restore_serializer()), codecs.of(reader))
