"""Copies of values by their serializer, of objects that would be handed out more than once; as Flink's `copy`.

Values of many types never change, and are handed out as they are. Whether a type is one of them is decided once for a
serializer, and not at each access.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ..serializers.containers.optional import OptionalSerializer
from ..serializers.containers.ttl import TtlSerializer
from ..serializers.containers.tuples import TupleSerializer
from ..serializers.records.packing import is_frozen
from ..serializers.records.serializers import DescribedRecordSerializer
from .entry_keys import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..serializers.serializer import TypeSerializer

_NEVER_CHANGE = frozenset(
    {"boolean", "bytes", "char", "decimal", "enum", "namespace", "number", "string", "temporal", "void"}
)
"""The kinds of values that nobody can change. Of kinds that are not here, values are copied, which is never wrong."""


def never_changes(serializer: TypeSerializer[Any]) -> bool:
    """Whether nobody can change a value of this type: a number, a text, or a tuple or frozen class of such."""
    parts: Iterable[TypeSerializer[Any]]
    if isinstance(serializer, TupleSerializer):
        parts = serializer.fields
    elif isinstance(serializer, OptionalSerializer | TtlSerializer):
        parts = (serializer.value,)
    elif isinstance(serializer, DescribedRecordSerializer):
        fields, python_class = serializer.fields, serializer.python_class
        if python_class is None or serializer.registered or serializer.unregistered:
            return False
        if serializer.circle or not is_frozen(python_class, len(fields)):
            return False
        parts = (field.serializer for field in fields)
    else:
        return serializer.snapshot_configuration().kind in _NEVER_CHANGE
    return all(map(never_changes, parts))


def copier(serializer: TypeSerializer[Any]) -> Callable[[Any], Any] | None:
    """Return what copies a value by its serializer; None where values of the type never change."""
    return None if never_changes(serializer) else partial(copy_of, serializer)


def copy_of(serializer: TypeSerializer[Any], value: Any) -> Any:
    """Return a copy; raises `ValueNotConvertible` where the value does not fit its type."""
    return decode(serializer, encode(serializer, value))


def handing_out(serializer: TypeSerializer[Any], value: Any) -> Callable[[], Any]:
    """Return what hands out one value, such as a default, again and again: a copy each time, unless it never changes.

    Raises:
        ValueNotConvertible: The value does not fit its type.
    """
    if value is None or (never_changes(serializer) and _is_hashable(value)):
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
