"""The types of Spark SQL, as a checkpoint's schema files name them: in the JSON of `StructType.json`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import CorruptFile, cause_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_SQL_WORDS = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint", "null": "void"}
_PARAMETERS = re.compile(r"(\w+)\((\d+)(?:, ?(-?\d+))?\)")
_MOST_NESTING = 100
_WATERMARK = "spark.watermarkDelayMs"
_INTEGERS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""Integers, and the digits that the largest of them needs."""
_EXACT_IN = {"float": {"tinyint", "smallint"}, "double": {"tinyint", "smallint", "int", "float"}}


@attrs.frozen
class SparkField:
    """A field of a struct.

    Attributes:
        name: The name, which another field of the struct may have, too: two aggregates have a buffer `sum` each.
        type: The type.
        is_nullable: Whether it may be null.
        is_event_time: Whether a watermark is on it, in the query that wrote the schema; types are equal without it.
    """

    name: str
    type: SparkType
    is_nullable: bool = True
    is_event_time: bool = attrs.field(default=False, eq=False, repr=False)


@attrs.frozen
class SparkType:
    """A type.

    Attributes:
        word: The name in SQL, without parameters: `bigint`, `decimal`, `struct`, `array`, `map`.
        fields: The fields of a struct; `element` of an array; `key` and `value` of a map.
        precision: The digits of a decimal, or the length of a char.
        scale: The digits of a decimal behind the point.
    """

    word: str
    fields: tuple[SparkField, ...] = ()
    precision: int = 0
    scale: int = 0

    def describe(self) -> str:
        """Return the type as SQL spells it."""
        if self.word == "struct":
            return f"struct<{', '.join(f'{field.name}: {field.type.describe()}' for field in self.fields)}>"
        if self.fields:
            return f"{self.word}<{', '.join(field.type.describe() for field in self.fields)}>"
        if self.word == "decimal":
            return f"decimal({self.precision},{self.scale})"
        return f"{self.word}({self.precision})" if self.precision else self.word

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, each once: the second `sum` is `sum#2`."""
        seen: dict[str, int] = {}
        names = []
        for field in self.fields:
            seen[field.name] = number = seen.get(field.name, 0) + 1
            names.append(numbered(field.name, number))
        return tuple(names)

    def within(self) -> Iterator[SparkType]:
        """Yield the type and all types within it."""
        yield self
        for field in self.fields:
            yield from field.type.within()


def numbered(name: str, number: int) -> str:
    """Return the name of a field that is the first, the second… of this name in its struct."""
    return name if number == 1 else f"{name}#{number}"


def holds_all(new: SparkType, old: SparkType) -> bool:
    """Whether a type holds every value of another one, exactly."""
    if old.word == "void":
        return True
    if old.word in _INTEGERS and new.word in _INTEGERS:
        return _INTEGERS[old.word] < _INTEGERS[new.word]
    if new.word == "decimal":
        digits = _INTEGERS.get(old.word, old.precision - old.scale if old.word == "decimal" else 99)
        scale = old.scale if old.word == "decimal" else 0
        return new.scale >= scale and new.precision - new.scale >= digits
    return old.word in _EXACT_IN.get(new.word, set())


def parse_struct(text: str, *, file: str = "") -> SparkType:
    """Return the struct that a schema in JSON describes.

    Raises:
        CorruptFile: It is no schema.
    """
    try:
        parsed = _parse(json.loads(text), 0)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFile(f"a schema is damaged: {cause_text(error)}", file=file or None) from error
    if parsed.word != "struct":
        raise CorruptFile(f"a schema is {parsed.describe()}, and not a struct", file=file or None)
    return parsed


def _parse(said: Any, depth: int) -> SparkType:
    if depth > _MOST_NESTING:
        raise ValueError(f"types are nested more than {_MOST_NESTING} deep")
    if isinstance(said, str):
        found = _PARAMETERS.fullmatch(said)
        if found is None:
            return SparkType(_SQL_WORDS.get(said, said))
        return SparkType(found[1], precision=int(found[2]), scale=int(found[3] or 0))
    kind = said["type"]
    if kind == "struct":
        fields = (
            SparkField(
                str(field["name"]),
                _parse(field["type"], depth + 1),
                bool(field["nullable"]),
                _WATERMARK in (field.get("metadata") or ()),
            )
            for field in said["fields"]
        )
        return SparkType("struct", tuple(fields))
    if kind == "array":
        return SparkType("array", (_part("element", said["elementType"], depth, said["containsNull"]),))
    if kind == "map":
        key = _part("key", said["keyType"], depth, False)  # noqa: FBT003 - private
        return SparkType("map", (key, _part("value", said["valueType"], depth, said["valueContainsNull"])))
    if kind == "udt":  # its values are those of a type that Spark has
        return _parse(said["sqlType"], depth + 1)
    raise ValueError(f"the type {kind!r} is not known")


def _part(name: str, said: Any, depth: int, is_nullable: bool) -> SparkField:  # noqa: FBT001 - private
    return SparkField(name, _parse(said, depth + 1), bool(is_nullable))


def schema_text(of: SparkType) -> str:
    """Return a struct as JSON that `parse_struct` reads; equal structs give equal text."""
    return json.dumps(_said(of), ensure_ascii=False)


def _said(of: SparkType) -> Any:
    if of.word == "struct":
        fields = [{"name": one.name, "type": _said(one.type), "nullable": one.is_nullable} for one in of.fields]
        return {"type": "struct", "fields": fields}
    if of.word == "array":
        (element,) = of.fields
        return {"type": "array", "elementType": _said(element.type), "containsNull": element.is_nullable}
    if of.word == "map":
        key, value = of.fields
        names = {"keyType": _said(key.type), "valueType": _said(value.type)}
        return {"type": "map", **names, "valueContainsNull": value.is_nullable}
    return of.describe()


@attrs.frozen
class StoreSchema:
    """The types of a store's entries."""

    key: SparkType
    value: SparkType
