"""What is registered for Avro: byte rewrites and JSON.

There is no byte rewrite where the Python values in between lose information (to which of two similar branches a number
belonged), for schemas that contain themselves, and for decimals whose scale changes.

The JSON form is Avro's own JSON encoding, which exports show.

Bytes are text with one code point per byte; a non-null value of a union is an object with the branch's name; values of
logical types are the numbers or text that are stored. Source: Avro 1.12 specification, "JSON Encoding".
"""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING, Any

from .. import rewrite
from ..defaults import NO_VALUE
from ..views import DataOutputView
from . import codec as avro_codec
from . import logical_types as avro_logical
from .codec import choose_branch
from .resolution import AvroConversion, default_value, unit_factor
from .rules import choose_reader, pair_fields
from .schema import parse
from .serializers import AvroSerializer, AvroSnapshot

if TYPE_CHECKING:
    from ..json_forms import JsonFormTable
    from ..rewrite import ByteRewrite, Conversion, RewriteTable
    from ..serializer import TypeDeserializer
    from .schema import AvroField, Node

_BITS = {"int": 32, "long": 64}
_PLAIN: dict[tuple[str, str], ByteRewrite] = {
    ("null", "null"): rewrite.Sequence(()),
    ("boolean", "boolean"): rewrite.Boolean(),
    ("int", "int"): rewrite.Varint(32),
    ("int", "long"): rewrite.Varint(32),
    ("int", "float"): rewrite.VarToFloat(32, 4),
    ("int", "double"): rewrite.VarToFloat(32, 8),
    ("long", "long"): rewrite.Varint(64),
    ("long", "float"): rewrite.VarToFloat(64, 4),
    ("long", "double"): rewrite.VarToFloat(64, 8),
    ("float", "float"): rewrite.LittleFloat(),
    ("float", "double"): rewrite.VarToFloat(0, 8),
    ("double", "double"): rewrite.Float(8),
    ("bytes", "bytes"): rewrite.VarBlob(),
    ("bytes", "string"): rewrite.VarText(),
    ("string", "string"): rewrite.VarText(),
    ("string", "bytes"): rewrite.VarText(),
}
_MOST_BRANCHES = 64
"""Their indexes are one byte each."""
_LOOKS = {
    "int": "integer",
    "long": "integer",
    "float": "floating",
    "double": "floating",
    "enum": "string",
    "fixed": "bytes",
    "map": "record",
}
"""Type -> the kind of its values in Python; types of the same kind cannot be distinguished by their values."""

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - local times are counted from it, without a zone
_MILLISECOND, _MICROSECOND = dt.timedelta(milliseconds=1), dt.timedelta(microseconds=1)
_MOMENTS = dt.datetime.min - _EPOCH, dt.datetime.max - _EPOCH  # noqa: DTZ901 - as above
_DAY = dt.timedelta(), dt.timedelta(days=1) - _MICROSECOND
_UNITS = {"millis": _MILLISECOND, "micros": _MICROSECOND}


def _avro_rewrite(
    writer: AvroSerializer[Any], reader: TypeDeserializer[Any], conversion: Conversion
) -> ByteRewrite | None:
    if not isinstance(reader, AvroSerializer) or reader.python_class is not None:
        return None
    schemas = (reader.schema, reader.schema) if conversion is None else None
    if isinstance(conversion, AvroConversion):
        schemas = (conversion.old, conversion.new)
    if schemas != (reader.schema, writer.schema):
        return None
    return _resolved(parse(reader.schema), parse(writer.schema))


def _resolved(old: Node, new: Node, within: frozenset[int] = frozenset()) -> ByteRewrite | None:
    """Return the byte rewrite for two schemas that resolve; None where there is none.

    Args:
        old: The stored schema.
        new: The present one.
        within: The ids of the enclosing records of the stored schema, by which a record that contains itself is found.
    """
    if id(old) in within:
        return None
    if "union" in {old.type, new.type}:
        return _union(old, new, within)
    if old.type == new.type == "record":
        return _record(old, new, within | {id(old)})
    if old.type == new.type and old.type in {"array", "map"}:
        return _items(old, new, within)
    if old.type == new.type == "enum":
        places = {symbol: place for place, symbol in enumerate(new.symbols)}
        default = places.get(new.default, -1)
        return rewrite.VarOrdinal(tuple(places.get(symbol, default) for symbol in old.symbols))
    if old.logical or new.logical:
        return _logical(old, new)
    if old.type == new.type == "fixed" and old.size == new.size:
        return rewrite.Fixed(old.size) if old.size else rewrite.Sequence(())
    return _PLAIN.get((old.type, new.type))


def _items(old: Node, new: Node, within: frozenset[int]) -> ByteRewrite | None:
    item = _resolved(old.inner, new.inner, within)
    if item is None:
        return None
    if old.type == "map":
        return rewrite.VarCounted(item, rewrite.VarText())
    return rewrite.VarCounted(item) if old.inner.least_bytes else None


# ---- unions --------------------------------------------------------------------------------------------------------


def _union(old: Node, new: Node, within: frozenset[int]) -> ByteRewrite | None:
    branches: list[tuple[ByteRewrite, bytes]] = []
    for branch in old.branches if old.type == "union" else (old,):
        place = choose_reader(branch, new) if new.type == "union" else 0
        if place is None:
            return None
        value = _resolved(branch, new.branches[place] if new.type == "union" else new, within)
        if value is None:
            return None
        branches.append((value, bytes([2 * place]) if new.type == "union" else b""))
    if not (_tells_branches(old) and _tells_branches(new)):
        return None
    if old.type != "union":
        value, head = branches[0]
        return rewrite.Sequence((value,), (head, 0))
    kinds = [branch.type for branch in old.branches]
    if len(branches) == 2 and "null" in kinds:
        null = kinds.index("null")
        value, head = branches[1 - null]
        return rewrite.Nullable(value, 0, 2 * null, head, branches[null][1], 2 * (1 - null))
    return rewrite.VarChoice(tuple(branches))


def _tells_branches(node: Node) -> bool:
    """Whether a value in Python shows to which branch it belongs: by its type, or by the name that is read with it."""
    looks = [_look(branch) for place, branch in enumerate(node.branches) if place not in node.tagged]
    return len(node.branches) <= _MOST_BRANCHES and len(set(looks)) == len(looks)


def _look(node: Node) -> str:
    """Return the kind of a branch's values; two branches of the same kind cannot be distinguished by their values."""
    if node.logical and avro_logical.python_type(node) is not None:
        return node.logical.rpartition("-")[0] or node.logical
    return _LOOKS.get(node.type, node.type)


# ---- logical types -------------------------------------------------------------------------------------------------


def _logical(old: Node, new: Node) -> ByteRewrite | None:
    """Return the byte rewrite for values that Python's class represents exactly, and that have only one encoding."""
    numbers = [node.decimals for node in (old, new) if node.decimals is not None]
    if numbers:
        if (old.type, old.size) != (new.type, new.size) or len({one.scale for one in numbers}) > 1:
            return None
        return rewrite.Unscaled(numbers[-1].precision, old.size)
    if "uuid" in {old.logical, new.logical}:
        if old.type != new.type:
            return None
        return rewrite.VarUuid() if old.type == "string" else rewrite.Fixed(old.size)
    if old.type not in _BITS or new.type not in _BITS:
        return None
    factor = unit_factor(old, new)
    least, most = _range(old)
    new_least, new_most = _range(new)
    return rewrite.Varint(_BITS[old.type], max(least, -(-new_least // factor)), min(most, new_most // factor), factor)


def _range(node: Node) -> tuple[int, int]:
    """Return the least and the greatest number of a type."""
    bits = _BITS[node.type]
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    kind, _, unit = node.logical.rpartition("-")
    if node.logical == "date":
        return _MOMENTS[0].days, _MOMENTS[1].days
    if unit in _UNITS:
        least, most = (moved // _UNITS[unit] for moved in (_DAY if kind == "time" else _MOMENTS))
    return least, most


# ---- records -------------------------------------------------------------------------------------------------------


def _record(old: Node, new: Node, within: frozenset[int]) -> ByteRewrite | None:
    places = {field.name: place for place, field in enumerate(old.fields)}
    pairs = pair_fields(old, new)
    takers = {stored.name: field for field, stored in pairs if stored is not None}
    parts = []
    for stored in old.fields:
        taker = takers.get(stored.name, stored)
        part = _resolved(stored.node, taker.node, within)
        if part is None:
            return None
        parts.append(part)
    emitted: list[int | bytes] = []
    for field, taken in pairs:
        piece = _default(field) if taken is None else places[taken.name]
        if piece is None:
            return None
        emitted.append(piece)
    return rewrite.Sequence(tuple(parts), None if emitted == list(range(len(parts))) else tuple(emitted))


def _default(field: AvroField) -> bytes | None:
    if field.default is NO_VALUE:
        return None
    target = DataOutputView()
    avro_codec.write(field.node, default_value(field), target)
    return target.getvalue()


REWRITES: RewriteTable = {AvroSerializer: _avro_rewrite}


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


JSON_FORMS: JsonFormTable = {
    AvroSnapshot: lambda snapshot: lambda value: {"$avro": to_json(parse(snapshot.schema), value)}
}
