"""What the strategies of the machine draw."""

from __future__ import annotations

import pytest
from evolution.book import BITS
from evolution.shapes import EnumOf, Leaf, ListOf, MapOf, Maybe, SetOf
from evolution.shipped import values_of
from hypothesis import Phase, find, settings

EDGES = {
    "empty list": (ListOf(Leaf("int")), ("list", ())),
    "empty set": (SetOf(Leaf("int")), ("set", frozenset())),
    "empty map": (MapOf(Leaf("string"), Leaf("int")), ("map", frozenset())),
    "None": (Maybe(Leaf("int")), None),
    "empty text": (Leaf("string"), ("str", "")),
    "zero below zero": (Leaf("double"), ("float", "-0x0.0p+0")),
    **{f"symbol {name}": (EnumOf("E", ("A", "B", "C")), ("symbol", name)) for name in "ABC"},
    **{f"least {kind}": (Leaf(kind), ("int", -(1 << bits))) for kind, bits in BITS.items()},
    **{f"most {kind}": (Leaf(kind), ("int", (1 << bits) - 1)) for kind, bits in BITS.items()},
}
WIDE = {
    "text beyond ASCII": ("string", lambda value: not value.isascii()),
    "a big integer beyond 64 bits": ("bigint", lambda value: abs(value) > 1 << 63),
    "a double beyond a float": ("double", lambda value: abs(float.fromhex(value)) > 3.5e38),
}
many = settings(max_examples=3000, derandomize=True, database=None, phases=[Phase.generate])


@pytest.mark.parametrize("edge", [*EDGES, *WIDE])
def test_strategies_cover_edges(edge):
    """K14: empty containers, every symbol of an enum, None, extreme numbers, and text beyond ASCII are drawn."""
    if edge in EDGES:
        shape, expected = EDGES[edge]
        assert expected == find(values_of(shape), lambda value: value == expected, settings=many)
    else:
        kind, is_there = WIDE[edge]
        assert is_there(find(values_of(Leaf(kind)), lambda value: is_there(value[1]), settings=many)[1])
