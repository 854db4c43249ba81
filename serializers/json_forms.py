"""JSON forms: values as JSON; what JSON has no form for carries a tag, such as `{"$bytes": "00ff"}`.

The structure and the tags are those of the test fixtures, which record the values that Flink itself read:

    $tuple  fields                            $bytes            hexadecimal
    $pojo   class, and fields by name         $bigint, $bigdec  digits; [unscaled digits, scale]
    $map    pairs, sorted by their JSON text  $enum             name of the constant
    $set    elements, sorted by JSON text     $double           NaN, Infinity, -Infinity (also of a float)
    $row    kind, and fields by position      $left, $right     the side of an either
    $window [start, end]                      $void, $global    the void namespace, the global window
    $count_window number
    $date, $sqldate, $sqltime       milliseconds since 1970
    $sqltimestamp, $instant         [milliseconds, nanoseconds of the second]; [seconds, nanoseconds]
    $localdate, $localtime, $localdatetime   their numeric fields, in order
    $pickle the class that the state declares, and the pickle in hexadecimal; or opened: see `pickled.json_forms`
    $avro   a value in Avro's JSON encoding
    $sqlrow, $decimal, $timestamp   of Flink SQL: kind and fields; [unscaled digits, scale]; [milliseconds, nanoseconds]
    $opaque text of a value whose type has no form; for a value that only Kryo reads, its bytes in hexadecimal

A list and an array become lists. A TTL value is written without its time stamp. Null is null.

Each family has the forms of its types, in the table of `Ability.JSON_FORMS`. A subclass has the form of its base: a
form is of values, as their serializer returns them, and not of their bytes.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from .families import Ability, families

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .snapshot import TypeSerializerConfigSnapshot

    Tagger = Callable[[Any], Any]
    """Converts a value, as the generic reader returns it, to a value that `json.dumps` takes."""
    JsonFormTable = Mapping[type, Callable[[Any], Tagger]]
    """The table of `Ability.JSON_FORMS`."""


def tagger_of(snapshot: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    """Return the function that converts values of a type to JSON.

    Args:
        snapshot: The snapshot of the type; the value alone does not show whether an integer is a long or a
            `BigInteger`.
    """
    make: Callable[[Any], Tagger] = families.find_nearest(Ability.JSON_FORMS, type(snapshot)) or opaque
    convert = make(snapshot)
    return lambda value: None if value is None else convert(value)


def sorted_by_text(values: Iterable[Any]) -> list[Any]:
    """Return JSON values sorted by their text, so that sets, maps and entries have a defined order."""
    return sorted(values, key=lambda value: json.dumps(value, sort_keys=True))


def as_is(_: object) -> Tagger:
    """Return the tagger of values that JSON has."""
    return lambda value: value


def tagged_float(value: float) -> Any:
    """Return a float, or a tag where it is not finite."""
    if math.isfinite(value):
        return value
    return {"$double": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}


def opaque(snapshot: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    """Return the tagger of values whose snapshot has no form: they have the form of their own class, or their text."""
    taggers: dict[type, Tagger] = {}

    def convert(value: Any) -> Any:
        cls = type(value)
        if cls not in taggers:
            taggers[cls] = _tagger_of_class(cls, snapshot)
        return taggers[cls](value)

    return convert


def _tagger_of_class(cls: type, snapshot: TypeSerializerConfigSnapshot[Any]) -> Tagger:
    if issubclass(cls, int | str):
        return as_is(snapshot)
    if issubclass(cls, float):
        return tagged_float
    if issubclass(cls, bytes):
        return lambda value: {"$bytes": value.hex()}
    for table in families.tables(Ability.JSON_FORMS):
        for base in cls.__mro__:
            if base in table:
                tagger: Tagger = table[base](snapshot)
                return tagger
    return lambda value: {"$opaque": repr(value)}
