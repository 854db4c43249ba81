"""Avro schemas as a graph of nodes: parsed once, with resolved names; defaults stay JSON.

All references to a named type share its node, so a recursive schema is a cycle. Source: Avro 1.12 specification,
"Schema Declaration" and "Names"; rules AV-2, AV-8, AV-11.

And aliases that are added to a schema: names that later schemas gave to what it declares.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import attrs

from ..defaults import NO_VALUE
from ..errors import DeclarationError, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "enum", "fixed"})

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOGICAL = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "local-timestamp-nanos": "long",
}
_LEAST = {"null": 0, "float": 4, "double": 8}
SCHEMAS_KEPT = 2048


@attrs.frozen
class Decimals:
    """Digits of a decimal: all of them, and those after the decimal point."""

    precision: int
    scale: int


@attrs.define(eq=False)
class AvroField:
    """A field of a record; `default` is the JSON in the schema, or `NO_VALUE`."""

    name: str
    node: Node
    default: Any = NO_VALUE
    aliases: tuple[str, ...] = ()


@attrs.define(eq=False)
class Node:
    """One type of a schema.

    Attributes:
        type: `long`, `record`, `union`, ...
        name: Full name of a named type.
        aliases: Former full names of a named type.
        logical: Name of the logical type, if it is one of Avro's and fits; "" otherwise.
        decimals: The digits of a decimal.
        fields: The fields of a record.
        symbols: The symbols of an enum.
        default: An enum's symbol for unknown ones, or "".
        items: The items of an array, or the values of a map.
        size: The number of bytes of a fixed.
        branches: The branches of a union.
        tagged: The branches of a union whose values another branch could hold, too; they are read as (name, value).
        least_bytes: The smallest size of a value.
    """

    type: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    logical: str = ""
    decimals: Decimals | None = None
    fields: tuple[AvroField, ...] = ()
    symbols: tuple[str, ...] = ()
    default: str = ""
    items: Node | None = None
    size: int = 0
    branches: tuple[Node, ...] = ()
    tagged: frozenset[int] = frozenset()
    least_bytes: int = 0

    def describe(self) -> str:
        """Return the type's name: `shop.Click`, `array<long>`, `long(timestamp-millis)`."""
        if self.type in {"array", "map"}:
            return f"{self.type}<{self.inner.describe()}>"
        if self.type == "union":
            return f"union<{', '.join(branch.describe() for branch in self.branches)}>"
        words = {"enum": f"enum {self.name}", "fixed": f"fixed({self.size}) {self.name}"}.get(self.type, self.type)
        if self.decimals is not None:
            return f"{words}(decimal {self.decimals.precision}.{self.decimals.scale})"
        words = self.name if self.type == "record" else words
        return f"{words}({self.logical})" if self.logical else words

    @property
    def inner(self) -> Node:
        """The items of an array, the values of a map."""
        assert self.items is not None  # noqa: S101 - set by the parser
        return self.items

    @property
    def is_optional(self) -> bool:
        """Whether it is a union of null and one type."""
        return len(self.branches) == 2 and "null" in {branch.type for branch in self.branches}

    def step(self, place: int) -> str:
        """Return the path step to a branch of a union: `?` if null is the only other branch, else `|place`."""
        return "?" if self.is_optional and self.branches[place].type != "null" else f"|{place}"

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]


@lru_cache(maxsize=SCHEMAS_KEPT)
def parse(text: str) -> Node:
    """Parse a schema's JSON text; the same text is parsed once (AV-11).

    Raises:
        DeclarationError: It is not an Avro schema; the message says where.
    """
    try:
        node = _Parser().node(json.loads(text), "", "$")
    except RecursionError as error:
        raise DeclarationError("an Avro schema is nested too deeply") from error
    except ValueError as error:
        raise DeclarationError(f"an Avro schema is not JSON: {error}") from error
    _measure(node)
    return node


def schema_text(schema: Any) -> str:
    """Return a schema as JSON text, from text, the name of a primitive type, or dicts and lists."""
    if isinstance(schema, str):
        return json.dumps(schema) if schema in PRIMITIVES else schema
    return json.dumps(
        {k: v for k, v in schema.items() if not k.startswith("__")} if isinstance(schema, dict) else schema
    )


@lru_cache(maxsize=SCHEMAS_KEPT)
def fingerprint(text: str) -> str:
    """Return the CRC-64-AVRO fingerprint of the parsing canonical form, in hex (AV-12)."""
    from fastavro.schema import fingerprint as fastavro_fingerprint

    found: str = fastavro_fingerprint(_canonical(parse(text), set()), "CRC-64-AVRO")
    return found


def _canonical(node: Node, met: set[str]) -> str:
    """Return the parsing canonical form of a schema; a named type is written in full at its first occurrence.

    Source: Avro 1.12 specification, "Parsing Canonical Form for Schemas".
    """
    if node.type == "union":
        return f"[{','.join(_canonical(branch, met) for branch in node.branches)}]"
    if node.type in {"array", "map"}:
        word = "items" if node.type == "array" else "values"
        return f'{{"type":"{node.type}","{word}":{_canonical(node.inner, met)}}}'
    if not node.name:
        return f'"{node.type}"'
    if node.name in met:
        return f'"{node.name}"'
    met.add(node.name)
    if node.type == "enum":
        inside = f'"symbols":{json.dumps(node.symbols, separators=(",", ":"))}'
    elif node.type == "record":
        fields = (f'{{"name":"{field.name}","type":{_canonical(field.node, met)}}}' for field in node.fields)
        inside = f'"fields":[{",".join(fields)}]'
    else:
        inside = f'"size":{node.size}'
    return f'{{"name":"{node.name}","type":"{node.type}",{inside}}}'


class _Parser:
    """Walks the JSON once; `where` is a path as in findings."""

    def __init__(self) -> None:
        self.named: dict[str, Node] = {}

    def node(self, schema: Any, namespace: str, where: str) -> Node:
        if isinstance(schema, str):
            return self._reference(schema, namespace, where)
        if isinstance(schema, list):
            return self._union(schema, namespace, where)
        if not isinstance(schema, dict) or "type" not in schema:
            raise _wrong(where, f"{shown(schema)} is not a schema")
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.node(kind, namespace, where)
        if kind == "error":
            kind = "record"
        if kind in NAMED:
            return self._named(kind, schema, namespace, where)
        if kind == "array":
            return Node("array", items=self._part(schema, "items", namespace, where + "[]"))
        if kind == "map":
            return Node("map", items=self._part(schema, "values", namespace, where + "{}"))
        if kind in PRIMITIVES:
            return _annotate(Node(kind), schema)
        return self._reference(kind, namespace, where)

    def _part(self, schema: dict[str, Any], key: str, namespace: str, where: str) -> Node:
        if key not in schema:
            raise _wrong(where, f"{key!r} is missing")
        return self.node(schema[key], namespace, where)

    def _reference(self, name: Any, namespace: str, where: str) -> Node:
        if name in PRIMITIVES:
            return Node(name)
        found = self.named.get(_full(str(name), namespace)) or self.named.get(str(name))
        if found is None:
            raise _wrong(where, f"the type {name!r} is not defined before it is used")
        return found

    def _union(self, schema: list[Any], namespace: str, where: str) -> Node:
        branches = tuple(self.node(part, namespace, f"{where}|{i}") for i, part in enumerate(schema))
        kinds = [branch.name or branch.type for branch in branches]
        if "union" in kinds:
            raise _wrong(where, "a union is nested directly in a union")
        twice = next((kind for kind in kinds if kinds.count(kind) > 1), None)
        if twice is not None:
            raise _wrong(where, f"the union has two branches {twice}")
        shapes = [_shape(branch) for branch in branches]
        tagged = (i for i, branch in enumerate(branches) if branch.name and shapes.count(shapes[i]) > 1)
        return Node("union", branches=branches, tagged=frozenset(tagged))

    def _named(self, kind: str, schema: dict[str, Any], namespace: str, where: str) -> Node:
        given = schema.get("name")
        if not isinstance(given, str):
            raise _wrong(where, f"the {kind} has no name")
        full = given if "." in given else _full(given, schema.get("namespace", namespace) or "")
        if not all(_NAME.fullmatch(part) for part in full.split(".")):
            raise _wrong(
                where, f"{full!r} is not a valid name in Avro: use letters, digits and _, parts joined by dots"
            )
        if full in self.named or full in PRIMITIVES:
            raise _wrong(where, f"the name {full!r} is taken")
        inner = full.rpartition(".")[0]
        aliases = tuple(_full(alias, inner) for alias in _texts(schema, "aliases", where))
        node = self.named[full] = Node(kind, full, aliases)
        if kind == "record":
            node.fields = self._fields(schema.get("fields"), inner, where)
        elif kind == "enum":
            node.symbols, node.default = _texts(schema, "symbols", where), schema.get("default", "")
            odd = next((symbol for symbol in node.symbols if not _NAME.fullmatch(symbol)), None)
            if odd is not None:
                raise _wrong(where, f"{odd!r} is not a valid symbol of an enum in Avro: use letters, digits and _")
            if len(set(node.symbols)) < len(node.symbols):
                raise _wrong(where, f"the enum {full} has a symbol twice")
            if node.default and node.default not in node.symbols:
                raise _wrong(where, f"the default {node.default!r} is not a symbol of the enum {full}")
        else:
            node.size = schema.get("size", -1)
            if type(node.size) is not int or node.size < 0:
                raise _wrong(where, f"the size of the fixed {full} is {node.size!r}")
            _annotate(node, schema)
        return node

    def _fields(self, fields: Any, namespace: str, where: str) -> tuple[AvroField, ...]:
        if not isinstance(fields, list):
            raise _wrong(where, "the record has no list of fields")
        parsed = []
        for field in fields:
            if not isinstance(field, dict) or not _NAME.fullmatch(str(field.get("name", ""))):
                raise _wrong(where, f"{shown(field)} is not a field")
            name, below = field["name"], f"{where}.{field['name']}"
            node = self._part(field, "type", namespace, below)
            if not isinstance(field["type"], dict | list) and node.type in PRIMITIVES and "logicalType" in field:
                raise _wrong(below, "logicalType next to the type has no effect; put it into the type")
            parsed.append(AvroField(name, node, field.get("default", NO_VALUE), _texts(field, "aliases", below)))
        names = [field.name for field in parsed]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise _wrong(where, f"the record has two fields {twice!r}")
        return tuple(parsed)


def _wrong(where: str, what: str) -> DeclarationError:
    return DeclarationError(f"an Avro schema cannot be used: {what}", path=where)


def _full(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def _texts(schema: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    found = schema.get(key, [] if key == "aliases" else None)
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise _wrong(where, f"{key!r} should be a list of names")
    return tuple(found)


def _annotate(node: Node, schema: dict[str, Any]) -> Node:
    """Set the node's logical type, if it fits; Avro ignores any other."""
    logical = schema.get("logicalType")
    if logical == "decimal" and node.type in {"bytes", "fixed"}:
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        most = len(str(2 ** (8 * node.size - 1) - 1)) - 1 if node.type == "fixed" and node.size else precision
        if type(precision) is int and type(scale) is int and 0 <= scale <= precision and 0 < precision <= (most or 0):
            node.logical, node.decimals = "decimal", Decimals(precision, scale)
    elif logical == "uuid" and (node.type == "string" or (node.type == "fixed" and node.size == 16)):
        node.logical = "uuid"
    elif isinstance(logical, str) and _LOGICAL.get(logical) == node.type:
        node.logical = logical
    return node


def _shape(node: Node) -> str:
    """Return the kind of a branch's values in Python."""
    if node.logical in {"decimal", "uuid"}:
        return node.logical
    return {"map": "record", "enum": "string", "fixed": "bytes"}.get(node.type, node.type)


def _measure(root: Node) -> None:
    """Set `least_bytes` of all nodes; a record inside itself counts as 0."""
    seen: set[int] = set()

    def visit(node: Node) -> int:
        if id(node) in seen:
            return node.least_bytes
        seen.add(id(node))
        for part in (*node.branches, *([node.items] if node.items else [])):
            visit(part)
        if node.type == "record":
            node.least_bytes = sum(visit(field.node) for field in node.fields)
        else:
            node.least_bytes = node.size if node.type == "fixed" else _LEAST.get(node.type, 1)
        return node.least_bytes

    visit(root)


_NAMED = {"record", "enum", "fixed", "error"}


def with_aliases(text: str, aliases: Mapping[tuple[str, str], Sequence[str]]) -> str:
    """Return a schema's JSON text with further aliases.

    Args:
        text: The text.
        aliases: The aliases of each named type, by (full name, ""), and of fields, by (full name, field).
    """
    schema = json.loads(text)
    _add(schema, "", aliases)
    return json.dumps(schema, ensure_ascii=False)


def _add(schema: Any, namespace: str, aliases: Mapping[tuple[str, str], Sequence[str]]) -> None:
    """Add the aliases of a type and of all that is within it; names without a dot are in the namespace around."""
    if isinstance(schema, list):
        for branch in schema:
            _add(branch, namespace, aliases)
    if not isinstance(schema, dict):
        return
    kind = schema.get("type")
    if kind not in _NAMED:
        for part in ("type", "items", "values"):
            _add(schema.get(part), namespace, aliases)
        return
    name, around = str(schema["name"]), schema.get("namespace", namespace) or ""
    full = name if "." in name or not around else f"{around}.{name}"
    _extend(schema, aliases.get((full, ""), ()))
    for field in schema.get("fields", ()):
        _extend(field, aliases.get((full, field["name"]), ()))
        _add(field["type"], full.rpartition(".")[0], aliases)


def _extend(of: dict[str, Any], names: Sequence[str]) -> None:
    if names:
        of["aliases"] = [*of.get("aliases", ()), *names]
