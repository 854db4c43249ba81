"""The values that are stored: alone, within containers and in a user's class; and the errors."""

from __future__ import annotations

import stored_shop
from stored_data.values import ALONE, WINDOW
from stored_shop import Basket

import stateshift as ss
from stateshift.serializers import errors

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
