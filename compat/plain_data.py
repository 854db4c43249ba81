"""Objects to plain data, for JSON files and `--json`, and back.

The data of an object has the attributes that are listed, in that order; without a list, all fields of its class. Data
that is read was written by others: `Fields` takes each field by name and type, and messages name what was expected.
"""

from __future__ import annotations

import datetime as dt
import enum
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

import attrs

from ..serializers.compatibility import Flagged, Verdict
from ..serializers.errors import CorruptFile, shown
from ..serializers.ways_out import WayOut
from .reference_time import time_text

if TYPE_CHECKING:
    from collections.abc import Callable

    T = TypeVar("T")

_LARGEST = (1 << 63) - 1


def fields_of(one: object, names: str) -> dict[str, Any]:
    """Return some attributes of an object as plain data.

    Args:
        one: The object.
        names: The names, separated by blanks: `kind` for an attribute; `verdict=result.verdict` for another one, null
            if there is no result; `note?` for one that is null where it is empty or 0.
    """
    data = {}
    for title, steps, has_null in _parsed(names):
        value: Any = one
        for step in steps:
            value = None if value is None else getattr(value, step)
        data[title] = None if has_null and not value else _form(value.__class__)(value)
    return data


@cache
def _parsed(names: str) -> list[tuple[str, list[str], bool]]:
    """Return the names of `fields_of`, each with the attributes that lead to it, and whether it is null if empty."""
    parts = [(name.rstrip("?").rpartition("="), name.endswith("?")) for name in names.split()]
    return [(title or path, path.split("."), has_null) for (title, _, path), has_null in parts]


def plain(value: Any, names: str = "") -> Any:
    """Return a value as plain data.

    Args:
        value: The value; for a tuple or a list, the result is a list.
        names: The attributes of an object, as in `fields_of`; by default all fields of its attrs class.
    """
    if not names:
        return _form(value.__class__)(value)
    if isinstance(value, list | tuple):
        return [fields_of(one, names) for one in value]
    return None if value is None else fields_of(value, names)


@cache
def _form(kind: type) -> Callable[[Any], Any]:
    """Return the function that turns values of a class into plain data."""
    if issubclass(kind, WayOut | Flagged):
        return str
    if attrs.has(kind):
        names = " ".join(field.name for field in attrs.fields(kind))
        return lambda value: fields_of(value, names)
    return next((form for one, form in _FORMS if issubclass(kind, one)), lambda value: value)


_FORMS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((list, tuple), lambda items: [plain(item) for item in items]),
    (dict, lambda facts: {plain(name): plain(fact) for name, fact in facts.items()}),
    (frozenset, lambda items: [plain(item) for item in sorted(items)]),
    (Verdict, lambda verdict: verdict.label),
    (enum.StrEnum, str),
    (dt.datetime, time_text),
    (dt.date, dt.date.isoformat),
    (dt.timedelta, dt.timedelta.total_seconds),
    (bytes, bytes.hex),
)
"""The functions that return values of other classes as plain data; the first one that fits is used."""


def structured(kind: Any, data: Any, title: str) -> Any:
    """Return a value of a type that `plain` turned into data, which was read from a file.

    Args:
        kind: The type: an attrs class, a tuple, `dict[str, T]`, `T | None`, a plain type, or Any.
        data: The data.
        title: Its name in messages.

    Raises:
        CorruptFile: The data has another shape: a field that is missing and has no default, one that is not known, or
            a value of another type.
    """
    if kind is Any:
        return data
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        (present,) = (one for one in inner if one is not NoneType)
        return None if data is None else structured(present, data, title)
    if origin is tuple:
        items = _of(list, data, title)
        kinds = [inner[0]] * len(items) if inner[-1] is Ellipsis else inner
        if len(kinds) != len(items):
            raise CorruptFile(f"{title} has {len(items)} items, but should have {len(kinds)}")
        return tuple(structured(one, item, f"an item of {title}") for one, item in zip(kinds, items, strict=True))
    if origin is dict:
        named = _of(dict, data, title).items()
        return {name: structured(inner[1], value, f"{name[:80]!r} of {title}") for name, value in named}
    if not attrs.has(kind):
        return _of(kind, data, title)
    facts, fields = _of(dict, data, title), attrs.fields_dict(kind)
    if lacking := [name for name, field in fields.items() if name not in facts and field.default is attrs.NOTHING]:
        raise CorruptFile(f"{title} lacks {lacking[0]!r}")
    if unknown := next((name for name in facts if name not in fields), None):
        raise CorruptFile(
            f"{title} has {unknown[:80]!r}, which this release does not know",
            advice="use the release of stateshift that wrote the file",
        )
    hints = _hints(kind)
    return kind(**{name: structured(hints[name], value, f"{name!r} of {title}") for name, value in facts.items()})


_hints = cache(get_type_hints)
_WORDS = {str: "a string", int: "a number below 2^63", bool: "true or false", list: "a list", dict: "an object"}


def _of(kind: Any, data: Any, title: str) -> Any:
    """Return data of a plain type; a boolean is no number."""
    is_number = kind is not int or (type(data) is int and -_LARGEST - 1 <= data <= _LARGEST)
    if not (isinstance(data, kind) and is_number):
        raise CorruptFile(f"{title} is {shown(data)}, but should be {_WORDS[kind]}")
    return data


class Fields:
    """The fields of an object in a file, taken one by one; fields that were not taken are refused at the end."""

    def __init__(self, facts: dict[str, Any], title: str) -> None:
        """Wrap an object; `title` is its name in messages."""
        self._facts = dict(facts)
        self._title = title
        self._seals = ("", "")

    def __contains__(self, name: str) -> bool:
        return name in self._facts

    def seal(self, said: str, found: str) -> None:
        """Store the document's digest as it is written in it, and as computed."""
        self._seals = (said, found)

    def require_unedited(self) -> None:
        """Refuse a sealed document that was edited.

        Call it last: an error about a particular field says more.

        Raises:
            CorruptFile: The document was edited.
        """
        said, found = self._seals
        if said != found:
            raise CorruptFile(
                "its content does not match its seal: it was edited after it was written",
                advice="take the file as it was written, or record it again",
            )

    def names(self) -> tuple[str, ...]:
        """Return the names of the remaining fields."""
        return tuple(self._facts)

    def text(self, name: str, *, optional: bool = False) -> str:
        """Take a text; null is "" if it is optional."""
        value = self._take(name, str, "a string", optional=optional)
        return "" if value is None else value

    def take_null(self, name: str) -> bool:
        """Take a null, and return whether there was one; any other value is left.

        Raises:
            CorruptFile: The field does not exist.
        """
        if name not in self._facts:
            raise self._lacks(name)
        if self._facts[name] is not None:
            return False
        del self._facts[name]
        return True

    def number(self, name: str) -> int:
        """Take a whole number that is not negative and fits a Java long; null is 0."""
        value = self._take(name, int, "a number", optional=True)
        if isinstance(value, bool) or (value is not None and not 0 <= value <= _LARGEST):
            raise CorruptFile(f"{name!r} of {self._title} is {shown(value)}, but should be a number from 0 to 2^63 - 1")
        return value or 0

    def flag(self, name: str) -> bool:
        """Take a boolean."""
        return bool(self._take(name, bool, "true or false"))

    def date(self, name: str) -> dt.date:
        """Take a date in ISO 8601."""
        text = self.text(name)
        try:
            return dt.date.fromisoformat(text)
        except ValueError as error:
            raise CorruptFile(f"{text!r} is not a date") from error

    def texts(self, name: str) -> tuple[str, ...]:
        """Take a list of texts."""
        items = self.items(name)
        if not all(isinstance(item, str) for item in items):
            raise CorruptFile(f"{name!r} of {self._title} should be a list of strings")
        return tuple(items)

    def items(self, name: str) -> list[Any]:
        """Take a list with items of any type."""
        found: list[Any] = self._take(name, list, "a list")
        return found

    def optional(self, name: str) -> Fields | None:
        """Take an object or null, which is None."""
        value = self._take(name, dict, "an object", optional=True)
        return None if value is None else Fields(value, repr(name))

    def required(self, name: str) -> Fields:
        """Take an object that must exist."""
        return Fields(self._take(name, dict, "an object"), repr(name))

    def objects(self, name: str) -> tuple[Fields, ...]:
        """Take a list of objects."""
        items = self.items(name)
        if not all(isinstance(item, dict) for item in items):
            raise CorruptFile(f"{name!r} of {self._title} should be a list of objects")
        return tuple(Fields(item, f"an item of {name!r}") for item in items)

    def rest(self) -> dict[str, Any]:
        """Take all remaining fields, unchecked."""
        left, self._facts = self._facts, {}
        return left

    def require_empty(self) -> None:
        """Refuse unknown fields.

        Raises:
            CorruptFile: There is a field that was not taken.
        """
        if self._facts:
            name = next(iter(self._facts))
            raise CorruptFile(
                f"{self._title} has {name[:80]!r}, which this release does not know",
                advice="use the release of stateshift that wrote the file, or write it again",
            )

    def _take(self, name: str, kind: type[T], words: str, *, optional: bool = False) -> Any:
        if name not in self._facts:
            raise self._lacks(name)
        value = self._facts.pop(name)
        if (value is None and optional) or isinstance(value, kind):
            return value
        raise CorruptFile(f"{name!r} of {self._title} is {shown(value)}, but should be {words}")

    def _lacks(self, name: str) -> CorruptFile:
        return CorruptFile(f"{self._title} lacks {name!r}")
