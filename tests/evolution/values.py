"""Values as plain data: each is tagged by what it is, so that 1, 1.0 and True differ, and all of them can be hashed.

("int", 1), ("float", "0x1.8p+0"), ("list", (…)), ("record", pairs of a field and its value as a frozenset), and None
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
from typing import Annotated

import attrs
from evolution.avro_shapes import avro_object
from evolution.sealed import OpenedSerializer, SealedSerializer
from evolution.shapes import (
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

from stateshift import (
    BigInt,
    Char,
    Float32,
    Int8,
    Int16,
    Int32,
    JavaDate,
    Left,
    LocalDate,
    LocalDateTime,
    LocalTime,
    NaiveDatetime,
    Record,
    Right,
    Row,
    RowKind,
    SqlDate,
    SqlTime,
    SqlTimestamp,
    Symbol,
    TtlValue,
)
from stateshift.serializers.stored_names import qualified_name
from stateshift.serializers.temporal.values import Moment

LONG_AGO, LATELY, REFERENCE = 1_700_000_000_000, 1_700_000_010_000, 1_700_000_020_000
"""Last accesses, and the reference time of all runs: milliseconds since 1970."""

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
IDENTITY, SCHEMA = "evolution_identity", "avro"
"""The attribute of a class that says what it stands for: the name of a record, or that it is a schema's."""
SUBCLASSES = ("Click", "Refund", "Sale", "Visit")
"""What subclasses are called, and nothing else is."""
MICROSECOND = dt.timedelta(microseconds=1)


LEAF_HINTS = {
    "byte": Int8,
    "short": Int16,
    "int": Int32,
    "long": int,
    "bigint": BigInt,
    "float": Float32,
    "double": float,
    "boolean": bool,
    "string": str,
    "bytes": bytes,
    "char": Char,
    "decimal": decimal.Decimal,
    "instant": dt.datetime,
    "javadate": JavaDate,
    "sqltimestamp": SqlTimestamp,
    "localdatetime": NaiveDatetime,
    "localdate": dt.date,
    "localtime": dt.time,
    "sqldate": SqlDate,
    "sqltime": SqlTime,
    "sealed": Annotated[object, SealedSerializer()],
    "opened": Annotated[object, OpenedSerializer()],
}


def plain(value):
    """Give a value that the library has read, typed or generic, as plain data."""
    if hasattr(type(value), IDENTITY):
        return _record(fields_of_object(value), getattr(type(value), IDENTITY))
    for kind, tagged in _TAGS.items():
        if isinstance(value, kind):
            return tagged(value)
    return _record(fields_of_object(value), qualified_name(type(value)))


def fields_of_object(value):
    """What the fields of an object of a class hold, by name."""
    cls = type(value)
    if hasattr(cls, "_fields"):
        return value._asdict()
    found = attrs.fields(cls) if attrs.has(cls) else dataclasses.fields(cls)
    return {field.name: getattr(value, field.name) for field in found}


def _record(fields, identity):
    """Give a record, in which a subclass is known by its name; an object of a schema is what it is without a class."""
    if identity == SCHEMA:
        return ("map", frozenset((("str", name), _of_schema(item)) for name, item in fields.items()))
    found = frozenset((name, plain(item)) for name, item in fields.items())
    return ("subclass", found, identity) if identity.rpartition(".")[2] in SUBCLASSES else ("record", found)


def _of_schema(value):
    return ("str", value.name) if isinstance(value, enum.Enum) else plain(value)


def _moment(value):
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            return ("datetime", value.isoformat(timespec="microseconds"))
        return ("moment", (value - EPOCH) // MICROSECOND * 1000)
    seconds, nanos = value.moment
    return ("moment", seconds * 10**9 + nanos)


_TAGS = {  # the first that fits, so that special ones come first
    type(None): lambda _: None,
    bool: lambda value: ("bool", value),
    enum.Enum: lambda value: ("symbol", value.name),
    Symbol: lambda value: ("symbol", value.name),
    int: lambda value: ("int", value),
    float: lambda value: ("float", value.hex()),
    str: lambda value: ("str", value),
    bytes: lambda value: ("bytes", value),
    decimal.Decimal: lambda value: ("decimal", str(value)),
    Moment: _moment,
    dt.datetime: _moment,
    dt.date: lambda value: ("date", value.isoformat()),
    dt.time: lambda value: ("time", value.isoformat(timespec="microseconds")),
    LocalDateTime: lambda value: _moment(value.to_python()),
    LocalDate: lambda value: ("date", value.to_python().isoformat()),
    LocalTime: lambda value: plain(value.to_python()),
    SqlDate: lambda value: ("sqldate", value.millis),
    SqlTime: lambda value: ("sqltime", value.millis),
    Record: lambda value: _record(value._asdict(), value._type_name),
    Row: lambda value: ("row", value._kind.name, tuple(plain(item) for item in value)),
    Left: lambda value: ("left", plain(value.value)),
    Right: lambda value: ("right", plain(value.value)),
    TtlValue: lambda value: ("stamped", value.last_access_ms, plain(value.value)),
    list: lambda value: ("list", tuple(plain(item) for item in value)),
    tuple: lambda value: ("tuple", tuple(plain(item) for item in value)),
    frozenset: lambda value: ("set", frozenset(plain(item) for item in value)),
    set: lambda value: ("set", frozenset(plain(item) for item in value)),
    dict: lambda value: ("map", frozenset((plain(key), plain(item)) for key, item in value.items())),
}

_OBJECTS = {
    "float": float.fromhex,
    "decimal": decimal.Decimal,
    "datetime": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "time": dt.time.fromisoformat,
    "sqldate": SqlDate,
    "sqltime": SqlTime,
}


def typed(shape, value, classes):  # noqa: PLR0912 - a case for each type
    """Give plain data as the value that a program would hold; `classes` knows the class of a record or enum."""
    if value is None:
        return None
    match shape:
        case Maybe(inner):
            return typed(inner, value, classes)
        case Stamped(inner):
            return TtlValue(value[1], typed(inner, value[2], classes))
        case Avro():
            return classes[id(shape)](value) if shape.bound != "dict" and value is not None else avro_object(value)
        case Leaf(kind):
            return _leaf(kind, value)
        case EnumOf():
            return classes[id(shape)][value[1]]
        case ListOf(element) | ArrayOf(element):
            return [typed(element, item, classes) for item in value[1]]
        case SetOf(element):
            return frozenset(typed(element, item, classes) for item in value[1])
        case MapOf(of_key, of_value):
            return {typed(of_key, key, classes): typed(of_value, item, classes) for key, item in value[1]}
        case TupleOf(items):
            return tuple(typed(one, item, classes) for one, item in zip(items, value[1], strict=True))
        case EitherOf(left, right):
            return (
                Left(typed(left, value[1], classes)) if value[0] == "left" else Right(typed(right, value[1], classes))
            )
        case RecordOf():
            items, of = dict(value[1]), shape.subclass_of(value) or shape
            made = classes[id(shape), of.identity]
            return made(**{f.name: typed(f.shape, items[f.name], classes) for f in of.fields})
        case RowOf(columns=columns):
            items = [typed(c.shape, item, classes) for c, item in zip(columns, value[2], strict=True)]
            return Row._of(items, shape.names, RowKind[value[1]])
    raise TypeError(shape)


def _leaf(kind, value):
    tag, data = value
    if tag != "moment":
        return _OBJECTS.get(tag, lambda it: it)(data)
    if kind == "instant":
        return EPOCH + data // 1000 * MICROSECOND
    return {"javadate": JavaDate, "sqltimestamp": SqlTimestamp}[kind].at(*divmod(data, 10**9))


def as_python_sees(value):
    """What makes two keys one for Python: 0.0 and -0.0 are equal, 1.0 and 1.00 as decimals too."""
    if value is None:
        return None
    if value[0] == "float":
        return float.fromhex(value[1])
    if value[0] == "decimal":
        return decimal.Decimal(value[1])
    return (value[0], tuple(map(as_python_sees, value[1]))) if value[0] == "tuple" else value
