"""Types of PyFlink itself, where a job file imports it: they are taken as ours.

PyFlink is not imported here. What a job has passed is told by its classes, and its attributes are read, so nothing of
Java is started. Source: `pyflink.common.typeinfo` of PyFlink 2.3.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ..containers.arrays import BytesSerializer, PrimitiveArraySerializer
from ..containers.lists import ListSerializer, MapSerializer
from ..containers.object_arrays import GenericArraySerializer
from ..containers.tuples import TupleSerializer
from ..errors import DeclarationError
from ..hints import serializer_for
from ..primitives.abilities import BigInt, Char, Float32, Int8, Int16, Int32
from ..primitives.numeric import ByteSerializer
from ..rows.serializers import RowSerializer
from ..temporal.values import Instant, SqlDate, SqlTime, SqlTimestamp
from . import is_of_pyflink

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..serializer import TypeSerializer

_BASIC: dict[str, Any] = {
    "BIG_DEC": Decimal, "BIG_INT": BigInt, "BOOLEAN": bool, "BYTE": Int8, "CHAR": Char, "DOUBLE": float,
    "FLOAT": Float32, "INSTANT": Instant, "INT": Int32, "LONG": int, "SHORT": Int16, "STRING": str,
}  # fmt: skip


def type_as_ours(given: Any) -> Any:
    """Return a type of PyFlink as ours; anything else as it is.

    Raises:
        DeclarationError: It is a type that no state of PyFlink has.
    """
    if not is_of_pyflink(given):
        return given
    for cls in type(given).__mro__:
        if cls.__name__ in _TYPES:
            return _TYPES[cls.__name__](given)
    raise DeclarationError(
        f"{type(given).__name__} of PyFlink is not known here", advice="declare it by a word of stateshift.pyflink"
    )


def _part(given: Any, name: str) -> TypeSerializer[Any]:
    """Return the type in an attribute, to which PyFlink has no other way."""
    return serializer_for(type_as_ours(getattr(given, name)))


def _fields(given: Any) -> tuple[TypeSerializer[Any], ...]:
    return tuple(serializer_for(type_as_ours(one)) for one in given.get_field_types())


def _objects(given: Any) -> TypeSerializer[Any]:
    return GenericArraySerializer(_part(given, "_element_type"), nullable_elements=True)


def _primitives(given: Any) -> TypeSerializer[Any]:
    element = _part(given, "_element_type")
    return BytesSerializer() if isinstance(element, ByteSerializer) else PrimitiveArraySerializer(element)


def _pair(given: Any) -> tuple[TypeSerializer[Any], TypeSerializer[Any]]:
    return _part(given, "_key_type_info"), _part(given, "_value_type_info")


_TYPES: dict[str, Callable[[Any], Any]] = {
    "BasicTypeInfo": lambda one: _BASIC[one._basic_type.name],  # noqa: SLF001 - as in `_part`
    "DateTypeInfo": lambda _: SqlDate,
    "TimeTypeInfo": lambda _: SqlTime,
    "TimestampTypeInfo": lambda _: SqlTimestamp,
    "PickledBytesTypeInfo": lambda _: bytes,
    "PrimitiveArrayTypeInfo": _primitives,
    "BasicArrayTypeInfo": _objects,
    "ObjectArrayTypeInfo": _objects,
    # get_field_names of a row without names asks Java
    "RowTypeInfo": lambda one: RowSerializer.of(_fields(one), one._field_names or ()),  # noqa: SLF001 - as in `_part`
    "TupleTypeInfo": lambda one: TupleSerializer(_fields(one)),
    "ListTypeInfo": lambda one: ListSerializer(_part(one, "elem_type")),
    "MapTypeInfo": lambda one: MapSerializer(*_pair(one), nullable_values=True),
}
