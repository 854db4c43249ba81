"""Types as a program declares them: hints, and classes that are made on the fly."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, NamedTuple, Optional, get_args, get_origin

import attrs
from evolution.avro_shapes import avro_object, schema_of
from evolution.shapes import (
    NOTHING,
    ArrayOf,
    Avro,
    EitherOf,
    EnumOf,
    Leaf,
    ListOf,
    MapOf,
    Maybe,
    RecordOf,
    RowOf,
    SetOf,
    Stamped,
    TupleOf,
)
from evolution.values import IDENTITY, LEAF_HINTS, SCHEMA, typed

from stateshift import (
    Array,
    AvroSerializer,
    Either,
    Field,
    Float32,
    Int32,
    Row,
    record,
    row_of,
)
from stateshift.compat.testing.strategies.hints import enum_class


@attrs.frozen
class Declared:
    """A type as a program has it.

    Attributes:
        shape: As plain data.
        hint: The type hint.
        classes: The classes made for it, by the id of the part of the shape that each stands for.
    """

    shape: object
    hint: object
    classes: dict

    @classmethod
    def of(cls, shape):
        classes = {SHAPES: {}}
        return cls(shape, _hint(shape, classes), classes)

    @property
    def shapes(self):
        """The shapes of classes and serializers that were made, by their ids."""
        return self.classes[SHAPES]

    def value(self, tagged, shape=None):
        """Give plain data as this program would hold it: of the whole type, or of a part."""
        return typed(self.shape if shape is None else shape, tagged, self.classes)


SHAPES = "shapes"


def _hint(shape, classes):
    """Make the type hint of a shape, and keep which shape it stands for where the hint alone does not show it."""
    hint = _made(shape, classes)
    if isinstance(shape, RecordOf | RowOf | Avro):
        made = get_args(hint)[1] if get_origin(hint) is Annotated else hint
        classes[SHAPES][id(made)] = shape
    return hint


def _made(shape, classes):  # noqa: PLR0912 - a case for each type
    match shape:
        case Leaf(kind):
            return LEAF_HINTS[kind]
        case Stamped(inner):
            return _hint(inner, classes)  # from the state's descriptor
        case Maybe(inner):
            return Optional[_hint(inner, classes)]  # noqa: UP045 - of anything
        case ListOf(element):
            return list[_hint(element, classes)]
        case Avro():
            return Annotated[object, _schema(shape, classes)]
        case ArrayOf(element):
            return Array[_hint(element, classes)]
        case SetOf(element):
            return frozenset[_hint(element, classes)]
        case MapOf(key, value):
            return dict[_hint(key, classes), _hint(value, classes)]
        case TupleOf(items):
            return tuple[tuple(_hint(item, classes) for item in items)]
        case EitherOf(left, right):
            return Either[_hint(left, classes), _hint(right, classes)]
        case EnumOf():
            classes[id(shape)] = made = _enum(shape)
            return made
        case RecordOf():
            return _record(shape, classes)
        case RowOf():
            return _row(shape, classes)
    raise TypeError(shape)


IN_AVRO = {"int": Int32, "long": int, "float": Float32, "double": float, "string": str, "bytes": bytes, "boolean": bool}


def _schema(shape, classes):
    """The serializer of a schema: of dicts, or of a class that stands next to it or implies it."""
    if shape.bound == "dict":
        return AvroSerializer(schema_of(shape))
    hints, defaults, enums = {}, {}, {}
    for field in shape.fields:
        hint = _in_avro(field, field.shape, enums)
        hints[field.name] = Annotated[hint, Field(aliases=field.aliases)]
        if field.default is not NOTHING:
            defaults[field.name] = avro_object(field.default)
    made = _named(shape.name, _FORMS[shape.form], hints, defaults)
    setattr(made, IDENTITY, SCHEMA)
    made = record(aliases=shape.aliases, retired=shape.retired)(made)

    def build(value):
        items = {name: avro_object(item) for (_, name), item in value[1]}
        return made(**{name: enums[name][item] if name in enums else item for name, item in items.items()})

    classes[id(shape)], classes[id(shape), "class"] = build, made
    return AvroSerializer.of(made) if shape.bound == "of" else AvroSerializer(schema_of(shape), made)


def _in_avro(field, kind, enums):
    match kind:
        case ("optional", inner):
            return Optional[_in_avro(field, inner, enums)]  # noqa: UP045 - of anything
        case ("array", items):
            return list[_in_avro(field, items, enums)]
        case ("enum", name, symbols, _):
            enums[field.name] = enum.Enum(name, symbols, module="shop", qualname=name)
            return enums[field.name]
    return IN_AVRO[kind[0]]


def _enum(shape):
    module, _, name = shape.name.rpartition(".")
    more = {"aliases": shape.aliases, "symbol_aliases": shape.renamed, "default": shape.default}
    return enum_class(name, shape.symbols, module=module, **more)


def _row(shape, classes):
    if not shape.names:
        return Row[tuple(_hint(column.shape, classes) for column in shape.columns)]
    columns = _class("shop.Columns", shape.columns, "attrs", classes)
    return Annotated[object, row_of(columns, stored=shape.stored)]


def _record(shape, classes):
    """Make the class and its subclasses; `classes` has them by the id of the part and their identity."""
    made = _decorated(shape, _class(shape.name, shape.fields, shape.form, classes))
    classes[id(shape), shape.identity] = made
    for one in shape.subclasses:
        fields = shape.own_fields(one)
        subclass = _class(one.name, fields, shape.form, classes, base=made)
        classes[id(shape), one.identity] = _decorated(one, subclass)
    return made


def _decorated(shape, cls):
    setattr(cls, IDENTITY, shape.identity)
    if not shape.is_registered:
        return cls
    return record(java_class=shape.java, aliases=shape.aliases, retired=shape.retired)(cls)


def _class(qualified, fields, form, classes, base=None):
    hints, defaults = {}, {}
    for field in fields:
        options = {"aliases": field.aliases}
        hint = _hint(field.shape, classes)
        if field.on_none is not NOTHING:
            options["on_none"] = typed(field.shape, field.on_none, classes)
        if field.default is not NOTHING:
            defaults[field.name] = typed(field.shape, field.default, classes)
        hints[field.name] = Annotated[hint, Field(**options)]
    return _named(qualified, _FORMS[form], hints, defaults, *([base] if base else []))


def _named(qualified, form, hints, defaults, *bases):
    module, _, name = qualified.rpartition(".")
    made = form(name, hints, defaults, *bases)
    made.__module__, made.__qualname__ = module, name
    return made


def _is_constant(value):
    """Whether a value cannot change, so that records may share it; what holds a list is made again for each."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _attrs_class(name, hints, defaults, *bases):
    def field(attribute):
        if attribute not in defaults:
            return attrs.field(type=hints[attribute])
        value = defaults[attribute]
        if not _is_constant(value):
            return attrs.field(type=hints[attribute], factory=lambda: value)
        return attrs.field(type=hints[attribute], default=value)

    made = {attribute: field(attribute) for attribute in hints}
    return attrs.make_class(name, made, bases or (object,), kw_only=True, frozen=True)


def _dataclass(name, hints, defaults, *bases):
    fields = [
        (attribute, hint)
        if attribute not in defaults
        else (attribute, hint, dataclasses.field(default_factory=lambda value=defaults[attribute]: value))
        for attribute, hint in hints.items()
    ]
    return dataclasses.make_dataclass(name, fields, bases=bases, kw_only=True, frozen=True)


def _named_tuple(name, hints, defaults):
    made = NamedTuple(name, list(hints.items()))
    made._field_defaults = defaults
    return made


_FORMS = {"attrs": _attrs_class, "dataclass": _dataclass, "namedtuple": _named_tuple}
