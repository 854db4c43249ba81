"""State of Flink SQL: its types, and its entries as they are stored, since no table is written as binary rows.

Rows have five fields that may be null: an INT becomes a BIGINT, and a sixth is added, which begins as null. They are
compared with POJOs of the same fields under the same keys.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import mmh3
import numpy as np
import pyarrow as pa

from stateshift import DataOutputView, ValueStateDescriptor
from stateshift.serializers.sql.row_changes import RowColumn
from stateshift.serializers.sql.serializers import RowDataSerializer, RowDataSerializerSnapshot
from stateshift.state.key_groups import key_group
from stateshift.state.plans.column_types import type_of

if TYPE_CHECKING:
    from collections.abc import Iterable

SIDE = ("BIGINT", "INT", "STRING", "DOUBLE", "TIMESTAMP(3)")
TOTALS = ("BIGINT", "INT", "BIGINT", "DOUBLE", "DECIMAL(18, 2)")
ADDED, STATE = "BIGINT", "s"
_KEY, _SLOTS, _SIZE = struct.Struct("<qq"), struct.Struct("<qqqqqq"), struct.Struct(">i")
_ONE = b"\0\0\0\0\1"
"""A value of a map: that it is not null, and the count."""
_MOST_IN_A_SLOT, _ROW_SEED, _MASK = 7, 42, 0xFFFFFFFF


def rows(types: Iterable[str], columns: tuple[RowColumn, ...] = (), *, counted: bool = False) -> RowDataSerializer:
    """Give the serializer of rows of types."""
    snapshot = RowDataSerializerSnapshot.of(type_of(one, "") for one in types)
    return RowDataSerializer(snapshot, columns, tuple(map(str, range(len(columns) - 1))), counted)


def widened(types: tuple[str, ...], *, counted: bool = False) -> RowDataSerializer:
    """Give that of rows whose INT is a BIGINT, with a column more."""
    columns = (*(RowColumn(str(at), at) for at in range(len(types))), RowColumn("added", why="it is new"))
    new = ("BIGINT" if one == "INT" else one for one in types)
    return rows((*new, ADDED), columns, counted=counted)


def sides(columns: dict[str, pa.Array], numbers: Any, key_groups: int, *, counted: bool = False) -> dict[str, Any]:
    """Give entries of a side of a join; where `counted` the row is a user key, and the value a count."""
    items = columns["item"].to_pylist()
    others = [columns[name].to_numpy(zero_copy_only=False).view(np.int64).tolist() for name in ("id", "price", "time")]
    customers = columns["customer"].to_numpy().tolist()
    made = [_side(*one) for one in zip(others[0], customers, items, *others[1:], strict=True)]
    return _entries(numbers, made, key_groups, counted=counted)


def _side(number: int, customer: int, item: str | None, price: int, time: int) -> bytes:
    text = (item or "").encode()
    slot, rest = 0, b""
    if len(text) > _MOST_IN_A_SLOT:
        slot, rest = _SLOTS.size << 32 | len(text), text + bytes(-len(text) % 8)
    elif item is not None:
        slot = int.from_bytes(text.ljust(7, b"\0") + bytes([0x80 | len(text)]), "little", signed=True)
    row = _SLOTS.pack((item is None) << 10, number, customer & _MASK, slot, price, time) + rest
    return _SIZE.pack(len(row)) + row


def totals(columns: dict[str, pa.Array], numbers: Any, key_groups: int) -> dict[str, Any]:
    """Give entries of an aggregate."""
    found = [columns[name].to_numpy().view(np.int64).tolist() for name in ("count", "seen", "highest", "paid")]
    units = (columns["units"].to_numpy().astype(np.int64) & _MASK).tolist()
    size = _SIZE.pack(_SLOTS.size)
    made = [
        size + _SLOTS.pack(0, count, unit, seen, highest, paid)
        for count, seen, highest, paid, unit in zip(*found, units, strict=True)
    ]
    return _entries(numbers, made, key_groups)


def records(
    columns: dict[str, pa.Array], numbers: Any, key_groups: int, *, of: type, counted: bool = False
) -> dict[str, Any]:
    """Give entries of POJOs of a class, under the same keys; where `counted` each is a user key, as in `sides`."""
    serializer, made = ValueStateDescriptor(STATE, of).value_serializer, []
    for row in zip(*(column.to_pylist() for column in columns.values()), strict=True):
        target = DataOutputView()
        serializer.serialize(of(**dict(zip(columns, row, strict=True))), target)
        made.append(target.getvalue())
    return _entries(numbers, made, key_groups, counted=counted)


def _entries(numbers: Any, made: list[bytes], key_groups: int, *, counted: bool = False) -> dict[str, Any]:
    others = [_ONE if counted else b""] * len(made)
    user_keys, values = (made, others) if counted else (others, made)
    groups, keys = [], []
    size = _SIZE.pack(_KEY.size)
    for number, user_key in zip((numbers * 7919).tolist(), user_keys, strict=True):
        key = _KEY.pack(0, number)
        group = key_group(mmh3.hash(key, _ROW_SEED), key_groups)
        groups.append(group)
        keys.append(bytes([group]) + size + key + b"\0" + user_key)
    return {"key_group": pa.array(groups, pa.int32()), "key": keys, "value": values}
