"""Avro schemas as plain data: drawn at random, their values, and their changes.

A type within a schema is a tuple: ("int",), ("optional", type), ("array", type), ("enum", name, symbols, default).
"""

from __future__ import annotations

import attrs
from evolution.shapes import NOTHING, Avro, Field
from hypothesis import strategies as st

PLAIN = ("int", "long", "float", "double", "string", "bytes", "boolean")
BOUND = ("dict", "class", "of")
WIDER = {"int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",)}


def schema_of(shape):
    """The schema as its author would write it."""
    fields = []
    for field in shape.fields:
        given = {"name": field.name, "type": _written(field.shape), "aliases": list(field.aliases)}
        fields.append(given if field.default is NOTHING else {**given, "default": _as_json(field.default)})
    return {"type": "record", "name": shape.name, "aliases": list(shape.aliases), "fields": fields}


def _written(kind):
    match kind:
        case ("optional", inner):
            return ["null", _written(inner)]
        case ("array", items):
            return {"type": "array", "items": _written(items)}
        case ("enum", name, symbols, default):
            return {"type": "enum", "name": name, "symbols": list(symbols), **({"default": default} if default else {})}
    return kind[0]


def _as_json(value):
    if value is None:
        return None
    tag, data = value
    return [] if tag == "list" else float.fromhex(data) if tag == "float" else data


# ---- values --------------------------------------------------------------------------------------------------------

_VALUES = {
    "int": st.integers(-(2**31), 2**31 - 1).map(lambda it: ("int", it)),
    "long": st.integers(-(2**63), 2**63 - 1).map(lambda it: ("int", it)),
    "float": st.floats(width=32, allow_nan=False).map(lambda it: ("float", it.hex())),
    "double": st.floats(allow_nan=False).map(lambda it: ("float", it.hex())),
    "string": st.text(max_size=3).map(lambda it: ("str", it)),
    "bytes": st.sampled_from([b"", b"a", "é".encode(), b"\xff"]).map(lambda it: ("bytes", it)),
    "boolean": st.booleans().map(lambda it: ("bool", it)),
}


def avro_values(shape):
    """Draw values of a schema, as plain data."""
    items = st.fixed_dictionaries({("str", field.name): _values_of(field.shape) for field in shape.fields})
    return items.map(lambda found: ("map", frozenset(found.items())))


def _values_of(kind):
    match kind:
        case ("optional", inner):
            return st.none() | _values_of(inner)
        case ("array", items):
            return st.lists(_values_of(items), max_size=2).map(lambda found: ("list", tuple(found)))
        case ("enum", _, symbols, _):
            return st.sampled_from(symbols).map(lambda symbol: ("str", symbol))
    return _VALUES[kind[0]]


def avro_object(value):
    """Give plain data as the dict that a program holds."""
    if value is None:
        return None
    tag, data = value
    if tag == "map":
        return {name: avro_object(item) for (_, name), item in data}
    if tag == "list":
        return [avro_object(item) for item in data]
    return float.fromhex(data) if tag == "float" else data


# ---- changes -------------------------------------------------------------------------------------------------------


@st.composite
def avro_types(draw):
    kind = (draw(st.sampled_from(PLAIN)),)
    match draw(st.integers(0, 5)):
        case 1:
            return ("optional", kind)
        case 2:
            return ("array", kind)
        case 3:
            symbols = draw(st.lists(st.sampled_from("ABCD"), min_size=1, unique=True))
            return ("enum", f"E{draw(st.integers(0, 99))}", tuple(symbols), "")
    return kind


@st.composite
def avro_fields(draw, name, *, has_default=False):
    kind = draw(avro_types())
    if not has_default:
        return Field(name, kind)
    if kind[0] in {"enum", "bytes"}:
        kind = ("string",)
    default = None if kind[0] == "optional" else ("list", ()) if kind[0] == "array" else draw(_VALUES[kind[0]])
    return Field(name, kind, default=default)


@st.composite
def avro_schemas(draw):
    names = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True))
    form = draw(st.sampled_from(["attrs", "dataclass", "namedtuple"]))
    shape = Avro((), bound=draw(st.sampled_from(BOUND)), form=form)
    return _distinct([draw(avro_fields(name)) for name in names], shape)


def _distinct(fields, shape):
    """A schema of the fields, in which no name is claimed twice: of an enum (it becomes text), or as an alias.

    A class says of its enum's symbols which there are, and of none that stands for others.
    """
    taken, claimed, kept = set(), {field.name for field in fields}, []
    for given in fields:
        field = attrs.evolve(given, aliases=tuple(name for name in given.aliases if name not in claimed))
        claimed |= set(field.aliases)
        name = field.shape[1] if field.shape[0] == "enum" else None
        kept.append(attrs.evolve(field, shape=("string",), default=NOTHING) if name in taken else field)
        taken |= {name} - {None}
    if shape.bound == "of":
        kept = [attrs.evolve(one, shape=(*one.shape[:3], "")) if one.shape[0] == "enum" else one for one in kept]
    return attrs.evolve(shape, fields=tuple(kept))


def avro_changed(draw, shape):
    """Change one thing of a schema."""
    at = draw(st.integers(0, len(shape.fields) - 1))
    fields, chosen = list(shape.fields), shape.fields[at]
    free = [name for name in "abcdef" if name not in {field.name for field in fields}]
    ways = ["type", "type", "add", "remove", "order", "rename", "claim", "move", "bind", "retire", "form"]
    match draw(st.sampled_from(ways)):
        case "move":
            name = draw(st.sampled_from(["shop.Event", "store.Event", "shop.Happening"]))
            aliases = tuple(dict.fromkeys((*shape.aliases, shape.name))) if draw(st.integers(0, 3)) else ()
            return attrs.evolve(shape, name=name, aliases=tuple(one for one in aliases if one != name))
        case "bind":
            return _distinct(fields, attrs.evolve(shape, bound=draw(st.sampled_from(BOUND))))
        case "form":
            return attrs.evolve(shape, form=draw(st.sampled_from(["attrs", "dataclass", "namedtuple"])))
        case "retire" if shape.retired and free:
            back = [name for name in shape.retired if name in free]
            fields.append(draw(avro_fields(draw(st.sampled_from(back + free)), has_default=True)))
        case "retire" if len(fields) > 1:
            del fields[at]
            shape = attrs.evolve(shape, retired=tuple(dict.fromkeys((*shape.retired, chosen.name))))
        case "claim" if len(fields) > 1:
            other = draw(st.sampled_from([place for place in range(len(fields)) if place != at]))
            fields[at] = attrs.evolve(chosen, aliases=(fields[other].name,))
            if draw(st.booleans()):
                fields[other] = attrs.evolve(fields[other], aliases=(chosen.name,))
            return attrs.evolve(shape, fields=tuple(fields))  # with names that are claimed twice
        case "add" if free:
            fields.insert(at, draw(avro_fields(draw(st.sampled_from(free)), has_default=draw(st.integers(0, 3)) > 0)))
        case "remove" if len(fields) > 1:
            del fields[at]
        case "order":
            fields = draw(st.permutations(fields))
        case "rename" if free:
            aliases = tuple(dict.fromkeys((chosen.name, *chosen.aliases)))
            fields[at] = attrs.evolve(chosen, name=draw(st.sampled_from(free)), aliases=aliases)
        case _:
            fields[at] = attrs.evolve(chosen, shape=_type_changed(draw, chosen.shape), default=NOTHING)
    return _distinct(fields, shape)


def _type_changed(draw, kind):
    match kind:
        case ("array", items):
            return ("array", _type_changed(draw, items))
        case ("optional", inner):
            changed = _type_changed(draw, inner)
            return ("optional", inner if changed[0] == "optional" else changed) if draw(st.integers(0, 2)) else inner
        case ("enum", name, symbols, _):
            symbols = draw(st.permutations(symbols)) if draw(st.booleans()) else symbols
            more = [symbol for symbol in "ABCD" if symbol not in symbols][: draw(st.integers(0, 1))]
            fewer = [*symbols, *more][draw(st.integers(0, 1)) if len(symbols) > 1 else 0 :]
            return ("enum", name, tuple(fewer), draw(st.sampled_from(["", fewer[0]])))
    others = [
        (other,)
        for other in (*WIDER.get(kind[0], ()), *(["string", "bytes"] if kind[0] in {"string", "bytes"} else PLAIN[:1]))
    ]
    return draw(st.sampled_from([*others, ("optional", kind)]))
