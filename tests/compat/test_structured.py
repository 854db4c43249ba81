"""Data from a file becomes an object only if it has its shape."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from stateshift.compat.plain_data import plain, structured
from stateshift.serializers.errors import CorruptFile


@attrs.frozen
class Inner:
    name: str
    size: int = 0


@attrs.frozen
class Outer:
    one: Inner
    some: tuple[Inner, ...] = ()
    pair: tuple[int, str] = (0, "")
    by_name: dict[str, int] = attrs.field(factory=dict)
    may_be: Inner | None = None
    is_so: bool = False
    rest: Any = None


def test_what_plain_gives_comes_back():
    value = Outer(Inner("a", 1), (Inner("b"),), (2, "c"), {"d": -(1 << 63)}, Inner("e"), True, {"f": [1.5]})
    assert value == structured(Outer, plain(value), "the file")


def test_fields_with_defaults_may_be_missing():
    assert Outer(Inner("a")) == structured(Outer, {"one": {"name": "a"}}, "the file")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"one": None}, "'one' of the file is None, but should be an object"),
        ({"one": {}}, "'one' of the file lacks 'name'"),
        ({"one": {"name": 1}}, "'name' of 'one' of the file is 1, but should be a string"),
        ({"one": {"name": "a", "size": True}}, "is True, but should be a number"),
        ({"one": {"name": "a", "size": 1 << 63}}, "but should be a number below 2\\^63"),
        ({"some": {}}, "'some' of the file is {}, but should be a list"),
        ({"some": [1]}, "an item of 'some' of the file is 1, but should be an object"),
        ({"pair": [1]}, "'pair' of the file has 1 items, but should have 2"),
        ({"by_name": {"x": "y"}}, "'x' of 'by_name' of the file is 'y', but should be a number"),
        ({"is_so": 1}, "is 1, but should be true or false"),
        ({"other": 1}, "the file has 'other', which this release does not know"),
    ],
)
def test_another_shape_is_refused_and_named(changed, why):
    with pytest.raises(CorruptFile, match=why):
        structured(Outer, {"one": {"name": "a"}, **changed}, "the file")
