"""Differences between two types declared in code that snapshots do not hold: defaults, aliases, retired names, nulls.

A savepoint does not hold them, so only two sides that are code, or records of code, are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..serializers.defaults import Default
from ..serializers.errors import shown
from ..serializers.records.classes import RecordField
from ..serializers.serializer import DECLARED
from .type_difference import Change, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..serializers.serializer import TypeSerializer

_STEPS = {"element": "[]", "key": "<key>", "value": "{}"}
_DEEPEST = 60


def compare_declared(a: TypeSerializer[Any], b: TypeSerializer[Any], path: str = "$") -> tuple[Change, ...]:
    """Return what two serializers of the same shape declare differently, except for fields that only one of them has.

    Args:
        a: The first serializer.
        b: The second serializer.
        path: Their path within the state's value.
    """
    return tuple(_changes(a, b, path, ()))


def _changes(a: Any, b: Any, path: str, above: tuple[tuple[int, int], ...]) -> Iterator[Change]:
    if a is b or (id(a), id(b)) in above or len(above) >= _DEEPEST:
        return
    if type(a) is not type(b) or not attrs.has(type(a)) or isinstance(a, type):
        return
    inner = (*above, (id(a), id(b)))
    for field in attrs.fields(type(a)):
        one, other = getattr(a, field.name), getattr(b, field.name)
        if DECLARED.items() <= field.metadata.items():
            if not field.eq:
                continue  # derived from the type, not declared by a person
            words = _words(one), _words(other)
            if one != other and words[0] != words[1]:
                title = field.name.replace("_", " ")
                yield Change(path, Kind.DECLARED, f"{title}: {words[0]}", f"{title}: {words[1]}")
        elif isinstance(one, tuple) and isinstance(other, tuple):
            for step, here, there in _paired(one, other):
                yield from _changes(here, there, path + step, inner)
        else:
            step = b.step.removeprefix(f".{b.name}") if isinstance(b, RecordField) else _STEPS.get(field.name, "")
            yield from _changes(one, other, path + step, inner)


def _paired(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> Iterator[tuple[str, Any, Any]]:
    """Pair fields by name, and other parts by position."""
    fields = {field.name: field for field in theirs if isinstance(field, RecordField)}
    for index, one in enumerate(ours):
        if isinstance(one, RecordField):
            if one.name in fields:
                yield f".{one.name}", one, fields[one.name]
        elif index < len(theirs):
            yield f"({index})", one, theirs[index]


def _words(value: Any) -> str:
    """Return the text for a declared value; for a factory, for the value that it makes."""
    if isinstance(value, Default):
        try:
            return shown(value.make())
        except Exception:  # noqa: BLE001 - a user's factory may fail in any way; its name is printed then
            return value.describe()
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return {None: "none", True: "yes", False: "no"}.get(value, str(value))
