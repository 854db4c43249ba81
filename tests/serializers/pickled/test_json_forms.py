"""Pickled values as JSON: of trusted classes with what is inside, and no object of theirs is made."""

from __future__ import annotations

import collections
import dataclasses
import json
import pickle

import pytest

from stateshift import CorruptSavepoint, PickledValue, StateShiftError, UntrustedCode
from stateshift.serializers.pickled.abilities import tagged_pickle
from stateshift.serializers.pickled.trust import trusting


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int


@dataclasses.dataclass(slots=True)
class Line:
    start: Point


NAMES = [f"{__name__}.{name}" for name in ("Point", "Line")]


def shown(value, *trust, name="builtins.dict"):
    with trusting([name, *trust]):
        tagged = tagged_pickle(PickledValue(name, pickle.dumps(value)))
    assert json.loads(json.dumps(tagged)) == tagged
    return tagged["$pickle"]["value"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (1 << 62, 1 << 62),
        (-(1 << 63), {"$bigint": str(-(1 << 63))}),
        (1.5, 1.5),
        (float("inf"), {"$double": "inf"}),
        ("é", "é"),
        (b"\0\xff", {"$bytes": "00ff"}),
        ([1, (2, "x")], [1, {"$tuple": [2, "x"]}]),
        ({2, 1}, {"$set": [1, 2]}),
        ({1: {"a": None}}, {"$map": [[1, {"$map": [["a", None]]}]]}),
        (collections.Counter("aab"), {"$map": [["a", 2], ["b", 1]]}),
        (1j, {"$opaque": "1j"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_of_the_library(value, expected):
    assert expected == shown(value)


def test_integers_of_any_length():
    assert len(shown(1 << 40_000)["$bigint"]) > 12_000


def test_objects_show_their_attributes_by_name_or_in_order():
    point = {"$object": {"class": NAMES[0], "arguments": [[1, 2]]}}
    found = shown(Line(Point(1, 2)), *NAMES)

    assert {"$object": {"class": NAMES[1], "attributes": {"start": point}}} == found


def test_what_is_not_trusted_stays_unopened_or_is_refused():
    value = PickledValue("shop.Account", b"no pickle")
    expected = {"$pickle": {"class": "shop.Account", "bytes": value.data.hex()}}
    by_value = PickledValue("shop.Account", b"no pickle", by_value=True)

    assert expected == tagged_pickle(value)
    with trusting(["shop.Account", "by-value:shop.Account"]):
        assert expected == tagged_pickle(by_value)
        with pytest.raises(CorruptSavepoint):
            tagged_pickle(value)
    with pytest.raises(UntrustedCode, match="Point"):
        shown(Point(1, 2))


def test_a_value_that_contains_itself_is_an_error():
    value = {}
    value["me"] = value
    with pytest.raises(StateShiftError, match="contains itself"):
        shown(value)
