"""Python classes as Avro records: the schema of a class, and conversions between its objects and generic values.

int long, Int32/Int16/Int8 int, float double, Float32 float, bool, str, bytes, UUID, date, time-micros,
datetime timestamp-micros, NaiveDatetime local-timestamp-micros, list[T] array, dict[str, T] map, T | None a union
with null, enum classes, attrs classes, dataclasses, named tuples; Annotated[T, AvroSerializer(schema)] for all else
"""

from __future__ import annotations

import datetime as dt
import enum
import json
import uuid
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import attrs

from ..errors import DeclarationError, StateShiftError, ValueNotConvertible, cause_text, shown
from ..hints import strip_none
from ..primitives.numeric import ByteSerializer, FloatSerializer, IntSerializer, ShortSerializer
from ..records.classes import Field, class_fields, is_record_class, options_of
from ..records.rules import came_back as refused_again
from ..serializer import TypeSerializer
from ..stored_names import qualified_name
from ..temporal.serializers import InstantSerializer, LocalDateTimeSerializer
from . import logical_types as avro_logical
from .schema import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..compatibility import Finding
    from ..defaults import Default
    from .schema import Node

    Turn = Callable[[Any], Any]

_PLAIN: dict[object, Any] = {
    int: "long",
    float: "double",
    bool: "boolean",
    str: "string",
    bytes: "bytes",
    uuid.UUID: {"type": "string", "logicalType": "uuid"},
    dt.date: {"type": "int", "logicalType": "date"},
    dt.time: {"type": "long", "logicalType": "time-micros"},
    dt.datetime: {"type": "long", "logicalType": "timestamp-micros"},
}
_GIVEN: dict[type, Any] = {
    IntSerializer: "int",
    ShortSerializer: "int",
    ByteSerializer: "int",
    FloatSerializer: "float",
    InstantSerializer: _PLAIN[dt.datetime],
    LocalDateTimeSerializer: {"type": "long", "logicalType": "local-timestamp-micros"},
}


@attrs.frozen
class _Hint:
    """The parts of a type hint: the bare type, what `Annotated` adds, and whether it may be None."""

    bare: Any
    given: TypeSerializer[Any] | None
    options: Field
    optional: bool


def _peel(hint: Any) -> _Hint:
    given, options, optional = None, Field(), False
    while True:
        bare, nullable = strip_none(hint)
        if bare is not hint:
            hint, optional = bare, optional or nullable
        elif get_origin(hint) is Annotated:
            hint, *metadata = get_args(hint)
            given = given or next((item for item in metadata if isinstance(item, TypeSerializer)), None)
            options = next((item for item in metadata if isinstance(item, Field)), options)
        else:
            return _Hint(hint, given, options, optional)


def schema_of(cls: type) -> str:
    """Return the schema of a record class, as JSON text.

    Raises:
        DeclarationError: A field's type has no counterpart in Avro.
    """
    return json.dumps(_Deriver().record(cls))


@attrs.define
class _Deriver:
    met: dict[type, str] = attrs.field(factory=dict)

    def record(self, cls: type) -> Any:
        if cls in self.met:
            return self.met[cls]
        name = self.met[cls] = _legal(qualified_name(cls), cls)
        schema: dict[str, Any] = {"type": "record", "name": name}
        if aliases := options_of(cls).aliases:
            schema["aliases"] = list(aliases)
        schema["fields"] = [self.field(cls, field.attribute, field.hint, field.default) for field in class_fields(cls)]
        return schema

    def field(self, cls: type, attribute: str, hint: Any, default: Default | None) -> dict[str, Any]:
        peeled = _peel(hint)
        where = f"{qualified_name(cls)}.{attribute}"
        kind = self.kind(peeled, where)
        field: dict[str, Any] = {"name": peeled.options.name or attribute}
        value = default.make() if default is not None else None
        if peeled.optional:
            # The branch of the default comes first, where readers older than Avro 1.12 look for it.
            kind = ["null", kind] if value is None else [kind, "null"]
        field["type"] = kind
        if default is not None:
            field["default"] = _json(value, where)
        if peeled.options.aliases:
            field["aliases"] = list(peeled.options.aliases)
        return field

    def kind(self, hint: _Hint, where: str) -> Any:
        bare, given = hint.bare, hint.given
        if given is not None:
            schema = getattr(given, "schema", None)
            kind = json.loads(schema) if isinstance(schema, str) else _GIVEN.get(type(given))
            if kind is not None:
                return kind
        elif isinstance(bare, type) and issubclass(bare, enum.Enum):
            if bare in self.met:
                return self.met[bare]
            name = self.met[bare] = _legal(qualified_name(bare), bare)
            return {"type": "enum", "name": name, "symbols": [symbol.name for symbol in bare]}
        elif is_record_class(bare):
            return self.record(bare)
        elif get_origin(bare) is list:
            return {"type": "array", "items": self.item(get_args(bare)[0], where)}
        elif get_origin(bare) is dict and get_args(bare)[0] is str:
            return {"type": "map", "values": self.item(get_args(bare)[1], where)}
        elif bare in _PLAIN:
            return _PLAIN[bare]
        raise DeclarationError(
            f"{where}: {shown(bare)} has no default type in Avro",
            advice="specify one: Annotated[…, AvroSerializer(schema)]; a decimal needs a precision and a scale",
        )

    def item(self, hint: Any, where: str) -> Any:
        peeled = _peel(hint)
        kind = self.kind(peeled, where)
        return ["null", kind] if peeled.optional else kind


def _legal(name: str, cls: type) -> str:
    if "<" in name:
        raise DeclarationError(
            f"{name} has no name in Avro",
            advice=f"declare {cls.__name__} at the top level of a module, or pass a schema",
        )
    return name


def _json(value: Any, where: str) -> Any:
    """Return a default as JSON: bytes as text with one code point per byte, times as the numbers that are stored."""
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, enum.Enum)):
        return value
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, list):
        return [_json(item, where) for item in value]
    if isinstance(value, dict):
        return {key: _json(item, where) for key, item in value.items()}
    kind = _PLAIN.get(type(value))
    if isinstance(kind, dict):
        return avro_logical.to_raw(parse(json.dumps(kind)), value)
    raise DeclarationError(
        f"{where}: the default {shown(value)} cannot be expressed in a schema", advice="pass a schema"
    )


@lru_cache(maxsize=256)
def came_back(schema: str, cls: type) -> tuple[Finding, ...]:
    """Return findings for fields that the class has retired, unless they have their former type (REC-16)."""
    return tuple(_came_back(parse(schema), cls, "$", set()))


def _came_back(node: Node, hint: Any, path: str, met: set[Any]) -> Iterator[Finding]:
    bare = _peel(hint).bare
    if node.type == "union":
        others = [place for place, branch in enumerate(node.branches) if branch.type != "null"]
        if len(others) == 1:
            yield from _came_back(node.branches[others[0]], bare, path + node.step(others[0]), met)
    elif node.type == "array" and get_origin(bare) is list:
        yield from _came_back(node.inner, get_args(bare)[0], path + "[]", met)
    elif node.type == "map" and get_origin(bare) is dict:
        yield from _came_back(node.inner, get_args(bare)[1], path + "{}", met)
    elif node.type == "record" and is_record_class(bare) and bare not in met:
        met.add(bare)
        options, nodes = options_of(bare), {field.name: field.node for field in node.fields}
        types = dict(options.retired_types)
        for field in class_fields(bare):
            name = _peel(field.hint).options.name or field.attribute
            if name not in nodes:
                continue
            now = nodes[name].describe()
            was = _words(types[name], f"the retired {name!r} of {qualified_name(bare)}") if name in types else ""
            if name in options.retired and was not in {now, _without_null(nodes[name]).describe()}:
                yield refused_again(path, name, was, now, now)
            yield from _came_back(nodes[name], field.hint, f"{path}.{name}", met)


def _words(hint: Any, where: str) -> str:
    return parse(json.dumps(_Deriver().kind(_peel(hint), where))).describe()


def _without_null(node: Node) -> Node:
    others = [branch for branch in node.branches if branch.type != "null"]
    return others[0] if node.is_optional else node


@lru_cache(maxsize=256)
def binding(schema: str, cls: type) -> tuple[Turn, Turn]:
    """Return two functions: one converts generic values to objects of a class, the other one converts them back.

    Raises:
        DeclarationError: The schema has a field that the class lacks, or lacks one without a default.
    """
    node = parse(schema)
    if node.type != "record":
        raise DeclarationError(f"{qualified_name(cls)} cannot be stored as {node.describe()}, which is not a record")
    return _Binder().record(node, cls)


@attrs.define
class _Binder:
    """Makes both functions for each (node, class) once; a recursive node refers to its own through `made`."""

    made: dict[tuple[int, type], tuple[Turn, Turn] | None] = attrs.field(factory=dict)

    def record(self, node: Node, cls: type) -> tuple[Turn, Turn]:
        key = (id(node), cls)
        if key in self.made:
            return self._later(key, 0), self._later(key, 1)
        self.made[key] = None
        found = self.made[key] = self._record(node, cls)
        return found

    def _later(self, key: tuple[int, type], way: int) -> Turn:
        def turn(value: Any) -> Any:
            made = self.made[key]
            assert made is not None  # noqa: S101 - made by the time of the first value
            return made[way](value)

        return turn

    def _record(self, node: Node, cls: type) -> tuple[Turn, Turn]:
        kinds = {field.name: field.node for field in node.fields}
        parts, unwritten = [], []
        for field in class_fields(cls):
            name = _peel(field.hint).options.name or field.attribute
            if name in kinds:
                build, take = self.value(kinds.pop(name), field.hint)
                parts.append((name, field.attribute, field.init_name, build, take))
            elif field.default is None:
                raise DeclarationError(f"the schema of {node.name} lacks {name!r}, which {qualified_name(cls)} needs")
            else:
                unwritten.append((field.attribute, field.default))
        if kinds:
            raise DeclarationError(
                f"{qualified_name(cls)} has no field for {', '.join(kinds)} of the schema {node.name}",
                advice="add it: Annotated[…, Field(name=…)] if the name differs",
            )

        def build_object(values: Any) -> Any:
            arguments = {init: build(values[name]) for name, _, init, build, _ in parts}
            try:
                return cls(**arguments)
            except StateShiftError:
                raise
            except Exception as error:
                raise ValueNotConvertible(
                    f"{qualified_name(cls)} cannot be built from its stored fields: {cause_text(error)}"
                ) from error

        def take_fields(value: Any) -> Any:
            if not isinstance(value, cls):
                return value
            if type(value) is not cls:
                raise ValueNotConvertible(
                    f"{type(value).__qualname__} is a subclass of {qualified_name(cls)}, but the schema is for the "
                    "base class",
                    advice=f"store {qualified_name(cls)} itself, or give the subclass a state of its own",
                )
            for attribute, default in unwritten:
                if (found := getattr(value, attribute)) != default.make():
                    raise ValueNotConvertible(
                        f"{shown(found)} in {attribute!r} of {qualified_name(cls)}, for which the schema of {node.name}"
                        " has no field",
                        advice=f"add {attribute!r} to the schema, or leave its default",
                        path=f"$.{attribute}",
                    )
            return {name: take(getattr(value, attribute)) for name, attribute, _, _, take in parts}

        return build_object, take_fields

    def value(self, node: Node, hint: Any) -> tuple[Turn, Turn]:
        peeled = _peel(hint)
        bare = peeled.bare
        if node.type == "union":
            others = [branch for branch in node.branches if branch.type != "null"]
            if len(others) != 1:
                return _same, _same
            build, take = self.value(others[0], bare)
            return _unless_none(build), _unless_none(take)
        if node.type == "enum" and isinstance(bare, type) and issubclass(bare, enum.Enum):
            symbols = bare
            return lambda name: _member(symbols, name), lambda value: getattr(value, "name", value)
        if node.type == "record" and is_record_class(bare):
            return self.record(node, bare)
        if node.type == "array" and get_origin(bare) is list:
            build, take = self.value(node.inner, get_args(bare)[0])
            return lambda values: [build(item) for item in values], lambda values: [take(item) for item in values]
        if node.type == "map" and get_origin(bare) is dict:
            build, take = self.value(node.inner, get_args(bare)[1])
            return (
                lambda values: {key: build(item) for key, item in values.items()},
                lambda values: {key: take(item) for key, item in values.items()},
            )
        return _same, _same


def _same(value: Any) -> Any:
    return value


def _unless_none(turn: Turn) -> Turn:
    return lambda value: None if value is None else turn(value)


def _member(symbols: type[enum.Enum], name: str) -> enum.Enum:
    try:
        return symbols[name]
    except KeyError:
        raise ValueNotConvertible(f"{shown(name)} is not a member of {symbols.__qualname__}") from None
