"""Type hints, as a program declares them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from ....serializers.defaults import Default
from ....serializers.primitives.abilities import BigInt, Char, Float32, Int8, Int16, Int32
from ....serializers.temporal.abilities import NaiveDatetime
from .hints import Attribute, RecordClass, enum_class, generic, optional, values_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import DrawFn, SearchStrategy

NUMBERS: tuple[Any, ...] = (Int8, Int16, Int32, int, BigInt, Float32, float)
"""The types of numbers from narrow to wide, whole numbers first."""

OTHERS: tuple[Any, ...] = (bool, str, Char, bytes, Decimal, dt.datetime, NaiveDatetime, dt.date, dt.time)
FIELD_NAMES = ("id", "name", "amount", "note", "color", "seen", "place", "owner")
SYMBOLS = ("OPEN", "PAID", "SENT", "LOST", "KEPT", "DONE")
leaves: SearchStrategy[Any] = st.sampled_from(NUMBERS + OTHERS)


def types(*, max_depth: int = 2, hashable: bool = False) -> SearchStrategy[Any]:
    """Draw type hints: numbers, text, bytes, decimals, times, enums, lists, sets, dicts, tuples, records, `T | None`.

    Records (attrs classes) and enums are created on the fly. They have stable names in a module `drawn`, which does not
    exist, so that their values cannot be pickled. A record prints with its fields: `Item(id: long, note: string)`.

    Args:
        max_depth: The maximum number of levels of containers and records; 0: none.
        hashable: Draw only types whose values can be keys: of an operator, a dict, a set.
    """
    return _types(max_depth, "Item", hashable=hashable)


@st.composite
def _types(draw: DrawFn, depth: int, name: str, *, hashable: bool = False) -> Any:
    """Draw a type; the names of its classes are unique, and begin with the given name."""
    kinds: list[Callable[..., Any]] = [_leaf, _leaf, _enum]
    if depth > 0:
        kinds += [_tuple] if hashable else [_record, _record, _record, _list, _set, _map, _tuple, _optional]
    return draw(st.sampled_from(kinds))(draw, depth - 1, name, hashable=hashable)


def _leaf(draw: DrawFn, _: int, __: str, **___: bool) -> Any:
    return draw(leaves)


def _enum(draw: DrawFn, _: int, name: str, **__: bool) -> Any:
    return enum_class(f"{name}Kind", draw(st.lists(st.sampled_from(SYMBOLS), min_size=1, max_size=4, unique=True)))


def _optional(draw: DrawFn, depth: int, name: str, **_: bool) -> Any:
    return optional(draw(_types(depth, name)))


def _list(draw: DrawFn, depth: int, name: str, **_: bool) -> Any:
    return generic(list, draw(_types(depth, name)))


def _set(draw: DrawFn, depth: int, name: str, **_: bool) -> Any:
    return generic(frozenset, draw(_types(depth, name, hashable=True)))


def _map(draw: DrawFn, depth: int, name: str, **_: bool) -> Any:
    key = draw(_types(depth, f"{name}Key", hashable=True))
    return generic(dict, key, draw(_types(depth, name)))


def _tuple(draw: DrawFn, depth: int, name: str, *, hashable: bool = False) -> Any:
    count = draw(st.integers(1, 3))
    return generic(tuple, *(draw(_types(depth, f"{name}{at}", hashable=hashable)) for at in range(count)))


def _record(draw: DrawFn, depth: int, name: str, **_: bool) -> Any:
    names = draw(st.lists(st.sampled_from(FIELD_NAMES), min_size=1, max_size=4, unique=True))
    attributes = [draw(attribute(field, _types(depth, f"{name}{field.title()}"))) for field in names]
    return RecordClass(name, tuple(attributes)).made()


@st.composite
def attribute(draw: DrawFn, name: str, hints: SearchStrategy[Any], *, has_default: bool | None = None) -> Attribute:
    """Draw a field of a record, optional in a third of the draws; without `has_default`, a fourth have a default."""
    hint = draw(hints)
    if draw(st.integers(0, 2)) == 2:
        hint = optional(hint)
    if not (draw(st.integers(0, 3)) == 3 if has_default is None else has_default):
        return Attribute(name, hint)
    value = draw(values_of(hint))
    return Attribute(name, hint, default=Default(value) if _is_constant(value) else Default(factory=lambda: value))


def _is_constant(value: Any) -> bool:
    """Whether records may share a value as a default; a value with a list needs a factory in attrs."""
    try:
        hash(value)
    except TypeError:
        return False
    return True
