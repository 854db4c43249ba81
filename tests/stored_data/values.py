"""One value of every public class of values."""

from __future__ import annotations

import pickle

import stateshift as ss

WINDOW = ss.TimeWindow(0, 60_000)
ALONE = {
    "Row": ss.Row(7, "seven", None),
    "Row with names": ss.Row(id=7, title="seven"),
    "Row with a kind": ss.Row(7)._with_kind(ss.RowKind.DELETE),
    "RowKind": ss.RowKind.UPDATE_AFTER,
    "Record": ss.Record("fx.Account", {"name": "ada", "visits": 3}),
    "Instant": ss.Instant(-1, 999_999_999),
    "LocalDate": ss.LocalDate(-44, 3, 15),
    "LocalTime": ss.LocalTime(23, 59, 59, 1),
    "LocalDateTime": ss.LocalDateTime(12_000, 2, 29, 1, 2, 3, 4),
    "JavaDate": ss.JavaDate(1_700_000_000_123),
    "SqlDate": ss.SqlDate(-86_400_000),
    "SqlTime": ss.SqlTime(3_600_000),
    "SqlTimestamp": ss.SqlTimestamp.at(1_700_000_000, 123_456_789),
    "Left": ss.Left("left"),
    "Right": ss.Right([1, 2]),
    "TimeWindow": WINDOW,
    "GlobalWindow": ss.GlobalWindow(),
    "VoidNamespace": ss.VoidNamespace(),
    "Timer": ss.Timer(5, "ada", WINDOW),
    "TtlValue": ss.TtlValue(1_700_000_000_123, "kept"),
    "PickledValue": ss.PickledValue("builtins.int", pickle.dumps(7)),
    "Symbol": ss.Symbol("HIGH", "fx.Level"),
    "KryoBytes": ss.KryoBytes("fx.Order", b"\1\2\3"),
}
"""By name: one value of each class."""
LATER = {
    "CountWindow": ss.CountWindow(3),
    "RowData": ss.RowData(7, "seven", None),
    "TimestampData": ss.TimestampData(-1, 999_999),
}
"""The same of classes that came after the stored data of version 0.1 were written."""
