"""Serializers that are the likely cause of values that cannot be read: they fail on every entry of a state.

A damaged file fails in few places, so a reader that fails everywhere does not read what was written.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ....serializers.errors import CorruptSavepoint

_MOST = 100
"""The number of entries that are tried."""


def suspect(error: CorruptSavepoint, reader: object, read: Callable[[bytes], object], values: Iterable[bytes]) -> None:
    """Name a user's serializer in an error as its likely cause, if it reads none of the entries of the state.

    Args:
        error: The error about the first entry that could not be read.
        reader: The reader of the values. Those of stateshift alone read what is theirs: then the file is damaged.
        read: Reads the value of an entry by it.
        values: The values of the entries of the state.
    """
    name = _own_class(reader)
    if not name:
        return
    tried = 0
    for value in islice(values, _MOST):
        tried += 1
        try:
            read(value)
        except Exception:  # noqa: BLE001, S112 - a user's serializer may raise anything
            continue
        return  # so what it cannot read is damaged
    if tried:
        tried_ones = f"none of the {tried:,} entries that were tried" if tried > 1 else "not the only entry"
        error.advice = (
            f"{name} reads {tried_ones} of this state, so this serializer is the likely cause, and not the file: see "
            "whether restore_serializer of its snapshot passes on all that the snapshot has, and test it with "
            "SerializerContract"
        )


def _own_class(reader: object) -> str:
    """Return the name of a serializer that is not of stateshift, in a reader or its parts; "": there is none."""
    parts, seen = [reader], set[int]()
    while parts:
        part: Any = parts.pop()
        cls = type(part)
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, tuple):
            parts += part
        elif hasattr(cls, "deserialize") and not cls.__module__.startswith("stateshift."):
            return f"{cls.__module__}.{cls.__qualname__}"
        elif attrs.has(cls):
            parts += [getattr(part, field.name, None) for field in attrs.fields(cls)]
    return ""
