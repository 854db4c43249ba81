"""Elements of streams with a type: each goes on as it is after it was written and read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...serializers.hints import serializer_for
from ..entry_keys import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...serializers.snapshot import TypeSerializerConfigSnapshot

_EXACT: dict[str, type] = {"string": str, "boolean": bool, "double": float}
_BITS = {"byte": 8, "short": 16, "int": 32, "long": 64}


def passing(type_info: Any) -> Callable[[Any], Any]:
    """Return what returns an element as it is after it was written and read by a type.

    It raises `ValueNotConvertible` where the element does not fit. Where it is plain that nothing would change, nothing
    is written.

    Args:
        type_info: The type hint or serializer.
    """
    serializer = serializer_for(type_info)
    is_plain = _plain(serializer.snapshot_configuration())
    if is_plain is None:
        return lambda value: decode(serializer, encode(serializer, value))
    return lambda value: value if is_plain(value) else decode(serializer, encode(serializer, value))


def _plain(snapshot: TypeSerializerConfigSnapshot[Any]) -> Callable[[Any], bool] | None:
    """Return what tells of values that they are surely read as they were written; None: nothing tells it."""
    name = snapshot.describe()
    if name in _BITS:
        limit = 1 << _BITS[name] - 1
        return lambda value: type(value) is int and -limit <= value < limit
    if name in _EXACT:
        kind = _EXACT[name]
        return lambda value: type(value) is kind
    if snapshot.kind != "tuple":
        return None
    fields = [known for child in snapshot.children() if (known := _plain(child)) is not None]
    if not fields or len(fields) < len(snapshot.children()):
        return None
    count = len(fields)

    def is_plain(value: Any) -> bool:
        if type(value) is not tuple or len(value) != count:
            return False
        for field, item in zip(fields, value, strict=True):  # noqa: SIM110 - a generator takes longer than the rest
            if not field(item):
                return False
        return True

    return is_plain
