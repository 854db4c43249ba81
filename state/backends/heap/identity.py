"""What tells keys, namespaces and map keys apart: their bytes, or the object itself where that comes to the same.

Numbers, strings and windows are equal in Python exactly if their bytes are, so they are looked up as they are. Others
are not: 0.0 equals -0.0, a NaN does not equal itself, a list cannot be hashed, and a record read without its class does
not equal an object of that class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....serializers.errors import StateShiftError, ValueNotConvertible, cause_text, shown
from ....serializers.views import DataOutputView
from ...entry_keys import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ....serializers.serializer import TypeSerializer
    from ....serializers.snapshot import TypeSerializerConfigSnapshot

_BY_OBJECT = frozenset({"byte", "short", "int", "long", "bigint", "char", "string"})
_WINDOWS = "namespace"


def _is_by_object(snapshot: TypeSerializerConfigSnapshot[Any]) -> bool:
    if snapshot.kind == "tuple":
        return all(map(_is_by_object, snapshot.children()))
    return snapshot.is_flink and (snapshot.kind == _WINDOWS or snapshot.describe() in _BY_OBJECT)


class Identity:
    """Turns the values of one type into identities: hashable objects that are equal where the bytes are.

    Args:
        serializer: The serializer of the type.

    Attributes:
        by_bytes: Returns the bytes of a value, where they are its identity; None where a value is its own identity.
    """

    __slots__ = ("_serialize", "_serializer", "by_bytes")

    def __init__(self, serializer: TypeSerializer[Any]) -> None:
        self._serializer, self._serialize = serializer, serializer.serialize
        by_object = _is_by_object(serializer.snapshot_configuration())
        self.by_bytes: Callable[[Any], bytes] | None = None if by_object else self._written

    def of(self, value: Any) -> Hashable:
        """Return the identity of a value; raises `ValueNotConvertible` where it does not fit the type."""
        return value if self.by_bytes is None else self.by_bytes(value)

    def value(self, identity: Any) -> Any:
        """Return the value with this identity."""
        return identity if self.by_bytes is None else decode(self._serializer, identity)

    def stored(self, data: bytes) -> Hashable:
        """Return the identity of a value that is given by its bytes."""
        return decode(self._serializer, data) if self.by_bytes is None else data

    def to_bytes(self, identity: Any) -> bytes:
        """Return the bytes of the value with this identity."""
        return self._written(identity) if self.by_bytes is None else identity

    def _written(self, value: Any) -> bytes:
        target = DataOutputView()
        try:
            self._serialize(value, target)
        except StateShiftError:
            raise
        except Exception as error:
            raise ValueNotConvertible(
                f"{shown(value)} cannot be written: {cause_text(error)}", advice="pass a value of the declared type"
            ) from error
        return target.getvalue()
