"""The values that are stored: one of every public class of values, alone and within containers and a user's class."""

from __future__ import annotations

import pickle

import stored_shop
from stored_shop import Basket

import stateshift as ss
from stateshift.serializers import errors
from stateshift.serializers.kryo import KryoBytes
from stateshift.serializers.symbols import Symbol
from stateshift.serializers.ttl import TtlValue

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
    "TtlValue": TtlValue(1_700_000_000_123, "kept"),
    "PickledValue": ss.PickledValue("builtins.int", pickle.dumps(7)),
    "Symbol": Symbol("HIGH", "fx.Level"),
    "KryoBytes": KryoBytes("fx.Order", b"\1\2\3"),
}
"""By name: one value of each class."""

WITHIN = {
    "in a list": list(ALONE.values()),
    "in a dict": ALONE,
    "as keys": {value: name for name, value in ALONE.items() if name != "Right"},
    "in each other": ss.Row(ss.Left(ss.Timer(1, ss.Record("fx.A", {"at": ss.Instant(1)}), WINDOW)), ss.RowKind.INSERT),
    "in a class of a user": Basket("ada", list(ALONE.values()), ALONE),
}
VALUES = ALONE | WITHIN

STORED_IN_STATE = {name: value for name, value in ALONE.items() if isinstance(value, stored_shop.HELD)}
BASKET = Basket("ada", list(STORED_IN_STATE.values()), STORED_IN_STATE)
"""What a pickled state holds; a `Row` could not be in one of version 0.1."""


def _leaves(cls):
    yield cls
    for sub in cls.__subclasses__():
        if sub.__module__ == cls.__module__:
            yield from _leaves(sub)


FACTS = {
    "UnknownSnapshot": {"snapshot_id": "acme/one"},
    "SnapshotVersionError": {"found": 9, "readable": (1, 2)},
    "OldReaderUnavailable": {"reasons": ("one", "two"), "ways_out": ("three",)},
    "UntrustedPlace": {"roots": ("/data/other place",)},
    "PlanChanged": {"differences": ("$.a: 1 in the plan, 2 now",)},
}
"""Of errors that have facts of their own."""

ERRORS = {
    cls.__name__: cls(
        "what happened", advice="what to do", written="Nothing was written.", state="s", path="$.a", **more
    )
    for cls in _leaves(errors.StateShiftError)
    for more in [FACTS.get(cls.__name__, {})]
}
