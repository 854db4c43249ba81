"""Columns of operator state.

subtask, value  list state, split or union: one row for each element
key, value      broadcast state: one row for each entry of its map
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from ...compat.description import StateKind
from ...serializers.columns.bytes_at import MOST_BYTES, padded
from ...serializers.columns.codec import Cells, told_at
from ...serializers.errors import StateShiftError, shown
from ..entry_keys import decode
from ..formats.flink.entries import read_broadcast
from ..formats.flink.value_readers import value_reader
from .json_codec import all_codecs
from .machine_code import flat_decoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...serializers.columns.codec import ColumnCodec
    from ...serializers.snapshot import TypeSerializerConfigSnapshot
    from ..transcode.choice import ExecutorName


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
