"""Recipes of Avro values: what a stored schema's bytes become as those of a present one.

Values in between are Python's, and some of them do not tell all that the bytes did: which of two alike branches a
number was of, in what case a uuid was written. Where that is so there is no recipe: maps, whose keys may come twice,
logical types, unions of more than null and one type, numbers that become floats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import avro_codec, recipe
from .avro_defaults import default_value
from .avro_rules import pair_fields
from .avro_schema import NOTHING
from .views import DataOutputView

if TYPE_CHECKING:
    from .avro_schema import AvroField, Node
    from .recipe import Recipe

_PLAIN: dict[tuple[str, str], Recipe] = {
    ("null", "null"): recipe.Sequence(()),
    ("boolean", "boolean"): recipe.Boolean(),
    ("int", "int"): recipe.Varint(32),
    ("int", "long"): recipe.Varint(32),
    ("long", "long"): recipe.Varint(64),
    ("float", "float"): recipe.LittleFloat(),
    ("double", "double"): recipe.Float(8),
    ("bytes", "bytes"): recipe.VarBlob(),
    ("bytes", "string"): recipe.VarText(),
    ("string", "string"): recipe.VarText(),
    ("string", "bytes"): recipe.VarText(),
}
_BRANCH_BYTES = (b"\0", b"\2")
"""The places of two branches, as Avro's numbers."""


def avro_recipe(old: Node, new: Node, within: frozenset[int] = frozenset()) -> Recipe | None:
    """Give the recipe for two schemas that resolve; None where there is none.

    Args:
        old: The stored schema.
        new: The present one.
        within: The records around both, of the stored schema: in one that contains itself there is no end.
    """
    if old.logical or new.logical or id(old) in within:
        return None
    if "union" in {old.type, new.type}:
        return _union(old, new, within)
    if old.type == new.type == "record":
        return _record(old, new, within | {id(old)})
    if old.type == new.type == "array" and old.inner.least_bytes:
        item = avro_recipe(old.inner, new.inner, within)
        return None if item is None else recipe.VarCounted(item)
    if old.type == new.type == "enum":
        places = {symbol: place for place, symbol in enumerate(new.symbols)}
        default = places.get(new.default, -1)
        return recipe.VarOrdinal(tuple(places.get(symbol, default) for symbol in old.symbols))
    if old.type == new.type == "fixed" and old.size == new.size:
        return recipe.Fixed(old.size) if old.size else recipe.Sequence(())
    return _PLAIN.get((old.type, new.type))


def _union(old: Node, new: Node, within: frozenset[int]) -> Recipe | None:
    """Null and one type, before or after: then a value tells which of the two it is."""
    was, becomes = _optional(old), _optional(new)
    if was is None or becomes is None:
        return None
    value = avro_recipe(was[1], becomes[1], within)
    if value is None:
        return None
    null = None if becomes[0] is None else _BRANCH_BYTES[becomes[0]]
    present = b"" if becomes[0] is None else _BRANCH_BYTES[1 - becomes[0]]
    if was[0] is None:
        return recipe.Sequence((value,), (present, 0)) if present else value
    null_flag, value_flag = (_BRANCH_BYTES[place][0] for place in (was[0], 1 - was[0]))
    return recipe.Nullable(value, 0, null_flag, present, null, value_flag)


def _optional(node: Node) -> tuple[int | None, Node] | None:
    """Give the place of null among two branches (None: no union), and the other type; None for any other union."""
    if node.type != "union":
        return None, node
    types = [branch.type for branch in node.branches]
    if len(types) != 2 or "null" not in types:
        return None
    place = types.index("null")
    return place, node.branches[1 - place]


def _record(old: Node, new: Node, within: frozenset[int]) -> Recipe | None:
    places = {field.name: place for place, field in enumerate(old.fields)}
    pairs = pair_fields(old, new)
    takers = {stored.name: field for field, stored in pairs if stored is not None}
    parts = []
    for stored in old.fields:
        taker = takers.get(stored.name, stored)
        part = avro_recipe(stored.node, taker.node, within)
        if part is None:
            return None
        parts.append(part)
    emitted: list[int | bytes] = []
    for field, taken in pairs:
        piece = _default(field) if taken is None else places[taken.name]
        if piece is None:
            return None
        emitted.append(piece)
    return recipe.Sequence(tuple(parts), None if emitted == list(range(len(parts))) else tuple(emitted))


def _default(field: AvroField) -> bytes | None:
    if field.default is NOTHING:
        return None
    target = DataOutputView()
    avro_codec.write(field.node, default_value(field), target)
    return target.getvalue()
