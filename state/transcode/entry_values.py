"""The entries that hold one key's value in a keyed state, by the kind of the state.

    list state    one entry: the elements, with one byte between them
    map state     an entry for each user key: a null flag and the value
    other kinds   one entry: the value

Source: format notes 5.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...compat.description import StateKind
from ...serializers.containers.pieces import encode_each, unique
from ...serializers.containers.wrappers import OptionalSerializer
from ...serializers.errors import ValueNotConvertible, shown
from ...serializers.limits import require_room
from ...serializers.views import DataOutputView
from .objects import SEPARATOR

if TYPE_CHECKING:
    from ...serializers.serializer import TypeSerializer


def entry_values(kind: StateKind, serializer: TypeSerializer[Any], value: Any) -> list[tuple[bytes, bytes]]:
    """Return the entries of one key as pairs of user key (empty except in map state) and value bytes.

    An empty list or map, and None, have no entries.

    Args:
        kind: The kind of the keyed state.
        serializer: The serializer of the state; for list state that of the list, for map state that of the map.
        value: A value, a list or a map.

    Raises:
        ValueNotConvertible: The value does not fit the state (the error has the path within it), or is too large for
            an entry.
    """
    entries = _entry_values(kind, serializer, value)
    for _, data in entries:
        require_room(len(data))
    return entries


def _entry_values(kind: StateKind, serializer: Any, value: Any) -> list[tuple[bytes, bytes]]:
    if value is None:
        return []
    if kind is StateKind.LIST:
        if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
            raise ValueNotConvertible(f"{shown(value)} is not a list of elements")
        parts = encode_each(serializer.element, value, "[]")
        return [(b"", SEPARATOR.join(parts))] if parts else []
    if kind is StateKind.MAP:
        if not isinstance(value, Mapping):
            raise ValueNotConvertible(f"{shown(value)} is not a map")
        names = encode_each(serializer.key, value, "<key>")
        unique(names, "keys of a map are written", "<key>")
        return [(name, map_value(serializer, item)) for name, item in zip(names, value.values(), strict=True)]
    target = DataOutputView()
    serializer.serialize(value, target)
    return [(b"", target.getvalue())]


def map_value(serializer: Any, item: Any) -> bytes:
    """Return the bytes of a value in map state; `serializer` is the map's."""
    if item is None:
        if not serializer.nullable_values and not isinstance(serializer.value, OptionalSerializer):
            raise ValueNotConvertible(
                "a map value is None, but the values are not declared optional",
                advice="declare the state with nullable_values=True",
                path="${}",
            )
        return b"\x01"
    return b"\x00" + encode_each(serializer.value, (item,), "{}")[0]
