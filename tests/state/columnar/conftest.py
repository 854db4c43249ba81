"""Tables of states, and what their columns must hold: derived from the objects that `read_entries` gives."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal

import pytest

from stateshift import (
    Either,
    GlobalWindow,
    KryoBytes,
    Left,
    PickledValue,
    Record,
    Row,
    SqlDate,
    SqlTime,
    Symbol,
    TimeWindow,
    TtlValue,
    VoidNamespace,
)
from stateshift.compat.description import StateKind
from stateshift.serializers.sql.values import RowData, TimestampData
from stateshift.serializers.temporal.values import TemporalValue
from stateshift.state.columnar.table import StateTable


def same(told, value):  # noqa: C901, PLR0912 - a case a type
    """Whether a column's value is that of an object; by the objects alone, without codecs or serializers."""
    match value:
        case None | VoidNamespace() | GlobalWindow():
            return told is None
        case Record():
            fields = {name: item for name, item in told.items() if name != "class"}
            own = value._asdict()
            named = told.get("class", value._type_name) == value._type_name
            others = [item for name, item in fields.items() if name not in own]
            return named and not any(others) and all(same(fields[name], item) for name, item in own.items())
        case RowData() if isinstance(told, str):  # one without fields is no struct, but JSON
            return {"$sqlrow": {"kind": "+I", "fields": list(value)}} == json.loads(told)
        case Row():
            items = dict(told)
            kind = items.pop("row_kind", "INSERT")
            return kind == value._kind.name and len(items) == len(value) and all(map(same, items.values(), value))
        case tuple():
            return len(told) == len(value) and all(map(same, told.values(), value))
        case TtlValue():
            return told["last_access_ms"] == value.last_access_ms and same(told["value"], value.value)
        case TimeWindow():
            return told == {"start": value.start, "end": value.end}
        case Either():
            side = "left" if isinstance(value, Left) else "right"
            return told["is_left"] == (side == "left") and same(told[side], value.value)
        case SqlDate() | SqlTime():
            return told == value.parts[0]
        case TimestampData():
            return value.to_datetime() == (dt.datetime.fromisoformat(told) if isinstance(told, str) else told)
        case TemporalValue():
            return told == (str(value) if isinstance(told, str) else value.to_python())
        case Symbol():
            return told == value.name
        case KryoBytes() | PickledValue():
            return told == value.data
        case dict():
            pairs = list(told)
            return len(pairs) == len(value) and all(
                any(same(key, name) and same(item, one) for key, item in pairs) for name, one in value.items()
            )
        case frozenset() | set():
            return len(told) == len(value) and all(any(same(one, item) for one in told) for item in value)
        case list():
            return len(told) == len(value) and all(map(same, told, value))
        case float():
            return told == value or (math.isnan(told) and math.isnan(value))
        case bytes() | bytearray():
            return told == bytes(value)
        case int() if isinstance(told, dt.date):  # a DATE of SQL
            return told == dt.date(1970, 1, 1) + dt.timedelta(days=value)
        case int() | Decimal():
            return (Decimal(told) if isinstance(told, str) else told) == value
        case _:
            return told == value


def rows_of(table, **how):
    """The rows of all slices, in order."""
    return [row for piece in table.slices(3) for batch in table.read(piece, **how) for row in batch.to_pylist()]


def expected_rows(state):
    """What `read_entries`, `read_timers` or `read_elements` give, a tuple a row of the table, without key groups."""
    if state.kind is StateKind.TIMERS:
        return [(timer.key, timer.namespace, timer.timestamp) for timer in state.read_timers()]
    if state.kind is StateKind.BROADCAST:
        return [pair for parts in state.read_elements()[:1] for one in parts for pair in one.items()]
    if not state.kind.is_keyed:
        return [(subtask, one) for subtask, parts in enumerate(state.read_elements()) for one in parts]
    if state.kind is StateKind.MAP:
        return [(e.key, e.namespace, name, item) for e in state.read_entries() for name, item in e.value.items()]
    return [(entry.key, entry.namespace, entry.value) for entry in state.read_entries()]


def is_all_of(rows, expected, kind):
    """Whether rows of a table are the expected ones, in any order of the entries of a map."""
    if len(rows) != len(expected):
        return False

    def fits(row, items):
        told = list({name: item for name, item in row.items() if name != "key_group"}.values())
        has_namespace = kind.is_keyed and "namespace" not in row
        items = [item for index, item in enumerate(items) if not (has_namespace and index == 1)]
        return len(told) == len(items) and all(map(same, told, items))

    if all(map(fits, rows, expected)):
        return True
    left = list(expected)
    for row in rows:
        found = next((index for index, items in enumerate(left) if fits(row, items)), None)
        if found is None:
            return False
        del left[found]
    return True


@pytest.fixture(scope="session", name="same")
def _same():
    return same


@pytest.fixture(scope="session", name="rows_of")
def _rows_of():
    return rows_of


@pytest.fixture(scope="session")
def table_of():
    """`table_of(savepoint, uid, state)`: a table."""
    return lambda savepoint, uid, state, **how: StateTable.of(savepoint.operator(uid), state, **how)


@pytest.fixture(scope="session")
def holds():
    """`holds(rows, state)`: whether rows of a table are all that a state holds, according to objects."""
    return lambda rows, state: is_all_of(rows, expected_rows(state), state.kind)
