"""The logical types of Flink SQL, as its snapshots hold them: in Java serialization, which is parsed as structure.

Every type has a root, which names it, and says whether it is nullable. What else it has is by root:

    CHAR, VARCHAR, BINARY, VARBINARY                       length
    DECIMAL                                                precision, scale
    TIME…, TIMESTAMP…                                      precision; of a time stamp also its kind
    INTERVAL_YEAR_MONTH, INTERVAL_DAY_TIME                 resolution, precisions
    ARRAY, MULTISET; MAP                                   the type of the elements; those of keys and values
    ROW, STRUCTURED_TYPE                                   fields
    RAW                                                    the Java class, and that of its serializer

A new type is written from a table of the classes, `java_classes.json`, made with real Flink 2.3; those of 1.20 are the
same. Types that need objects of other classes (structured, raw, distinct, symbols) are read, and kept, but not made.

Source: native snapshot notes, 6.1; `LogicalType` of Flink 2.3.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import CorruptSavepoint, UnsupportedFormat
from .java_objects import (
    JavaArray,
    JavaClass,
    JavaClassObject,
    JavaEnum,
    JavaField,
    JavaObject,
    JavaString,
    read_java_object,
    write_java_object,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..views import DataInputView, DataOutputView

_LISTS = ("java.util.", "java.lang.")
_INNER_LISTS = ("list", "c", "a")
_PARTS = {"ARRAY": ("elementType",), "MULTISET": ("elementType",), "MAP": ("keyType", "valueType")}
_FIELDS = {"ROW": "fields", "STRUCTURED_TYPE": "attributes"}
_OWN = {"isNullable", "typeRoot", *_FIELDS.values(), *(name for names in _PARTS.values() for name in names)}
_SQL_NAMES = {
    "INTEGER": "INT", "TIME_WITHOUT_TIME_ZONE": "TIME", "TIMESTAMP_WITHOUT_TIME_ZONE": "TIMESTAMP",
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": "TIMESTAMP_LTZ", "STRUCTURED_TYPE": "STRUCTURED",
}  # fmt: skip
_LARGEST_LENGTH = 2**31 - 1
_REGULAR, _DESCRIBED = "REGULAR", " '...'"
_UNBOUNDED = {"VARCHAR": "STRING", "VARBINARY": "BYTES"}
_INTERVALS = frozenset({"INTERVAL_YEAR_MONTH", "INTERVAL_DAY_TIME"})
_PRECISIONS = {"YEAR": "yearPrecision", "DAY": "dayPrecision", "SECOND": "fractionalPrecision"}
_ROW_FIELD, _LIST = "org.apache.flink.table.types.logical.RowType$RowField", "java.util.Collections$UnmodifiableList"
_ARRAY_LIST = "java.util.ArrayList"


OPAQUE = "OPAQUE"
"""The root of a type that holds objects of Java: a plan has its `summary`, the whole of it is stored alone."""


_CLASS = frozenset({"className", "implementationClass"})
"""What a structured type calls its class; Flink 1.20 has the second alone."""


@attrs.frozen
class LogicalField:
    """A field of a row or of a structured type; the element of an array; the key or the value of a map.

    Attributes:
        name: The name; of a part that has none, what it is: `elementType`, `keyType`, `valueType`.
        type: The type.
        description: What is said of the field of a row; types are equal with the same descriptions only.
    """

    name: str
    type: LogicalType
    description: str | None = None

    def describe(self) -> str:
        """Return the field as SQL spells it; its description is not shown."""
        return f"`{self.name}` {self.type.describe()}{'' if self.description is None else _DESCRIBED}"


@attrs.frozen
class LogicalType:
    """A type.

    Attributes:
        root: The name of the root, such as `INTEGER` or `TIMESTAMP_WITHOUT_TIME_ZONE`.
        is_nullable: Whether a value may be null.
        parameters: What else makes the type, by the names that its Java class has for it.
        fields: The types within it.
    """

    root: str
    is_nullable: bool = True
    parameters: tuple[tuple[str, int | str], ...] = ()
    fields: tuple[LogicalField, ...] = ()

    def parameter(self, name: str) -> int:
        """Return a number that makes the type, such as its precision; 0 where it has none."""
        found = dict(self.parameters).get(name, 0)
        return found if isinstance(found, int) else 0

    @property
    def types(self) -> tuple[LogicalType, ...]:
        """The types of the fields."""
        return tuple(field.type for field in self.fields)

    def within(self) -> Iterator[LogicalType]:
        """Yield the type and all types within it."""
        yield self
        for field in self.fields:
            yield from field.type.within()

    def describe(self) -> str:
        """Return the type as Flink's `asSummaryString` spells it."""
        kind = dict(self.parameters).get("kind", _REGULAR)
        return self._words() + ("" if self.is_nullable else " NOT NULL") + ("" if kind == _REGULAR else f" *{kind}*")

    def _words(self) -> str:
        name = _SQL_NAMES.get(self.root, self.root)
        if self.root in _FIELDS:
            of = dict.fromkeys(f"'{text}'" for parameter, text in self.parameters if parameter in _CLASS)
            return f"{name}<{', '.join([*of, *(field.describe() for field in self.fields)])}>"
        if self.root == OPAQUE:
            return str(dict(self.parameters)["summary"])
        if self.root == "RAW":
            return f"RAW('{dict(self.parameters)['clazz']}', '...')"
        if self.root in _INTERVALS:
            return f"INTERVAL {' TO '.join(map(self._unit, str(dict(self.parameters)['resolution']).split('_TO_')))}"
        if self.fields:
            return f"{name}<{', '.join(of.describe() for of in self.types)}>"
        if self.root in _UNBOUNDED and self.parameter("length") == _LARGEST_LENGTH:
            return _UNBOUNDED[self.root]
        numbers = [str(value) for _, value in self.parameters if isinstance(value, int)]
        texts = [value for name, value in self.parameters if isinstance(value, str) and name != "kind"]
        shown = numbers or [f"'{text}'" for text in texts]
        return f"{name}({', '.join(shown)})" if shown else name

    def _unit(self, unit: str) -> str:
        """Return a unit of an interval, with its precision where it has one."""
        precision = _PRECISIONS.get(unit)
        return f"{unit}({self.parameter(precision)})" if precision else unit


def read_logical_type(source: DataInputView) -> LogicalType:
    """Read a type in Java serialization.

    Raises:
        CorruptSavepoint: The bytes are none, or hold something else.
    """
    start = source.position
    return logical_type_of(read_java_object(source), start)


def logical_type_of(found: Any, start: int) -> LogicalType:
    """Return the type that an object of Java is.

    Raises:
        CorruptSavepoint: It is none.
    """
    root = found.get("typeRoot") if isinstance(found, JavaObject) else None
    nullable = found.get("isNullable") if isinstance(found, JavaObject) else None
    if not isinstance(root, JavaEnum) or root.constant is None or not isinstance(nullable, bool):
        raise CorruptSavepoint("an object in Java serialization is no type of SQL", offset=start)
    name = root.constant.text
    if name in _FIELDS:
        members = items_of(found.get(_FIELDS[name]), start)
        fields = [_field(one, start) for one in members]
    else:
        fields = [LogicalField(part, logical_type_of(found.get(part), start)) for part in _PARTS.get(name, ())]
    parameters = []
    for described, values, _ in found.parts:
        for field, value in zip(described.fields, values, strict=True):
            word = _word(value)
            if field.name not in _OWN and word is not None:
                parameters.append((field.name, word))
    return LogicalType(name, nullable, tuple(parameters), tuple(fields))


def _field(found: Any, start: int) -> LogicalField:
    name = found.get("name") if isinstance(found, JavaObject) else None
    if not isinstance(name, str):
        raise CorruptSavepoint("a field of a type of SQL has no name", offset=start)
    return LogicalField(name, logical_type_of(found.get("type"), start), found.get("description"))


def _word(value: Any) -> int | str | None:
    """Return a value of a field as what it says: a number, a text, a constant, the name of a class."""
    if isinstance(value, JavaString):
        return value.text
    if isinstance(value, JavaEnum) and value.constant is not None:
        return value.constant.text
    if isinstance(value, JavaClassObject):
        return value.of.name if value.of else ""
    if isinstance(value, JavaObject):
        return value.of.name
    return value if isinstance(value, int) else None


def items_of(found: Any, start: int) -> list[Any]:
    """Return the items of a list of Java: an `ArrayList`, an immutable list, or one around it.

    Raises:
        CorruptSavepoint: It is no list.
    """
    for _ in range(len(_INNER_LISTS)):
        if isinstance(found, JavaArray):
            return found.items
        if not isinstance(found, JavaObject) or not found.of.name.startswith(_LISTS):
            break
        inner = next((one for one in map(found.get, _INNER_LISTS) if one is not None), None)
        if inner is None:
            return found.written()
        found = inner
    raise CorruptSavepoint("an object in Java serialization is no list", offset=start)


def write_logical_type(of: LogicalType, target: DataOutputView) -> None:
    """Write a type in Java serialization, as Flink does.

    Raises:
        UnsupportedFormat: This release cannot write the type, or a type within it.
    """
    write_java_object(_Java().of_type(of), target)


def write_serializer_of(of: LogicalType, target: DataOutputView) -> None:
    """Write the serializer of values of a type in Java serialization, as Flink does in snapshots of arrays and maps.

    Raises:
        UnsupportedFormat: It holds code of Java, as those of rows, arrays and maps do.
    """
    name = _table()["serializers"].get(of.root)
    if name is None:
        raise UnsupportedFormat(
            f"the serializer of {of.describe()} within an array or a map is only written as it was read",
            advice="take it from a savepoint that has it",
        )
    write_java_object(_Java().object(name, dict(of.parameters)), target)


@cache
def _table() -> dict[str, Any]:
    text = (files(__package__) / "java_classes.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


@attrs.frozen
class _Java:
    """Makes the objects of Java of one stream, where classes, constants and names of types occur once."""

    classes: dict[str, JavaClass] = attrs.field(factory=dict)
    constants: dict[tuple[str, str], JavaEnum] = attrs.field(factory=dict)
    names: dict[str, JavaString] = attrs.field(factory=dict)

    def _class(self, name: str) -> JavaClass:
        if name not in self.classes:
            row = _table()["classes"][name]
            fields = (JavaField(code, field, self._name(of) if of else None) for code, field, of in row["fields"])
            above = self._class(row["above"]) if row["above"] else None
            self.classes[name] = JavaClass(name, row["serial_version"], row["flags"], tuple(fields), above=above)
        return self.classes[name]

    def _name(self, text: str) -> JavaString:
        return self.names.setdefault(text, JavaString(text))

    def _constant(self, type_name: str, constant: str) -> JavaEnum:
        name = type_name[1:-1].replace("/", ".")
        if (name, constant) not in self.constants:
            self.constants[name, constant] = JavaEnum(self._class(name), JavaString(constant))
        return self.constants[name, constant]

    def object(self, name: str, values: dict[str, Any]) -> JavaObject:
        """Return an object of a class, with these values in its fields."""
        made = JavaObject(self._class(name))
        for described in made.of.chain():
            items = [self._value(field, values[field.name]) for field in described.fields]
            made.parts.append((described, items, ()))
        return made

    def _value(self, field: JavaField, value: Any) -> Any:
        return self._constant(field.type.text, value) if isinstance(value, str) and field.type else value

    def of_type(self, of: LogicalType) -> JavaObject:
        """Return the object that is a type."""
        name = _table()["roots"].get(of.root)
        if name is None:
            raise UnsupportedFormat(
                f"the type {of.describe()} is only written as it was read",
                advice="take it from a savepoint that has it",
            )
        values: dict[str, Any] = {"isNullable": of.is_nullable, "typeRoot": of.root, **dict(of.parameters)}
        if of.root in _FIELDS:
            values[_FIELDS[of.root]] = self._list([self._field(field) for field in of.fields])
        else:
            values |= {field.name: self.of_type(field.type) for field in of.fields}
        return self.object(name, values)

    def _field(self, field: LogicalField) -> JavaObject:
        told = None if field.description is None else JavaString(field.description)
        return self.object(
            _ROW_FIELD, {"name": JavaString(field.name), "type": self.of_type(field.type), "description": told}
        )

    def _list(self, items: list[Any]) -> JavaObject:
        """Return an immutable list: one around an `ArrayList`, which writes its size, once more, and its items."""
        inner = JavaObject(self._class(_ARRAY_LIST))
        size = len(items)
        inner.parts.append((inner.of, [size], (size.to_bytes(4, "big"), *items)))
        return self.object(_LIST, {"c": inner, "list": inner})
