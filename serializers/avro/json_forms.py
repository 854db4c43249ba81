"""The JSON form of Avro values: Avro's own JSON encoding, which exports show.

Bytes are text with one code point per byte; a non-null value of a union is an object with the branch's name; values of
logical types are the numbers or text that are stored. Source: Avro 1.12 specification, "JSON Encoding".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from . import logical_types as avro_logical
from .codec import choose_branch
from .schema import parse
from .serializers import AvroSnapshot

if TYPE_CHECKING:
    from ..json_forms import JsonFormTable, Tagger
    from .schema import Node


def _avro(snapshot: AvroSnapshot) -> Tagger:
    return lambda value: {"$avro": to_json(parse(snapshot.schema), value)}


def to_json(node: Node, value: Any) -> Any:
    """Return a value of a schema in a form for `json.dumps`; NaN and the infinities as text."""
    if node.type == "union":
        place, inner = choose_branch(node, value)
        branch = node.branches[place]
        return None if branch.type == "null" else {branch.name or branch.type: to_json(branch, inner)}
    if node.type == "record":
        return {field.name: to_json(field.node, value[field.name]) for field in node.fields}
    if node.type == "array":
        return [to_json(node.inner, item) for item in value]
    if node.type == "map":
        return {key: to_json(node.inner, item) for key, item in value.items()}
    raw = avro_logical.to_raw(node, value)
    if isinstance(raw, bytes | bytearray):
        return raw.decode("latin-1")
    if isinstance(raw, float) and not math.isfinite(raw):
        return "NaN" if math.isnan(raw) else "Infinity" if raw > 0 else "-Infinity"
    return raw


JSON_FORMS: JsonFormTable = {AvroSnapshot: _avro}
