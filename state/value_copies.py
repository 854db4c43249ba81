"""Copies of values by their serializer, of objects that would be handed out more than once; as Flink's `copy`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .entry_keys import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..serializers.serializer import TypeSerializer


def copier(serializer: TypeSerializer[Any]) -> Callable[[Any], Any] | None:
    """Return what copies a value, which must fit its type; None where values of the type never change."""
    return None if serializer.is_immutable_type else lambda value: decode(serializer, encode(serializer, value))


def handing_out(serializer: TypeSerializer[Any], value: Any) -> Callable[[], Any]:
    """Return what hands out one value, such as a default, again and again: a copy each time, unless it never changes.

    Raises:
        ValueNotConvertible: The value does not fit its type.
    """
    if value is None or (serializer.is_immutable_type and _is_hashable(value)):
        return lambda: value
    data = encode(serializer, value)
    return lambda: decode(serializer, data)


def _is_hashable(value: Any) -> bool:
    """Whether a value has no list in it, which may stand for a tuple."""
    try:
        hash(value)
    except TypeError:
        return False
    return True
