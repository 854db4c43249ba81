"""Hints of bytes, arrays, collections, tuples and optional values."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args

from ..errors import DeclarationError
from ..hints import Marker, serializer_for, strip_none
from ..primitives.numeric import ByteSerializer
from ..primitives.text import StringSerializer
from .arrays import BytesSerializer, PrimitiveArraySerializer, is_primitive
from .either import Either, EitherSerializer
from .lists import ListSerializer, SetSerializer
from .maps import MapSerializer
from .object_arrays import GenericArraySerializer, StringArraySerializer
from .optional import OptionalSerializer
from .tuples import TupleSerializer

if TYPE_CHECKING:
    from ..hints import HintTable
    from ..serializer import TypeSerializer

T = TypeVar("T")


class _AsArray(Marker):
    """Marks a list hint as a Java array."""

    def serializer(self, hint: Any) -> TypeSerializer[Any]:
        """Return the serializer of an array: Java's primitives cannot be null, all else can."""
        bare, nullable = strip_none(get_args(hint)[0])
        element = serializer_for(bare)
        if isinstance(element, StringSerializer):
            return StringArraySerializer(nullable_elements=nullable)
        if not nullable and (is_primitive(element) or isinstance(element, ByteSerializer)):
            return PrimitiveArraySerializer(element)
        return GenericArraySerializer(element, nullable_elements=nullable)


Array = Annotated[list[T], _AsArray()]
"""A list that is an array in Java: `Array[Int32]` int[], `Array[Int32 | None]` Integer[], `Array[str]` String[]."""


def _list(_: Any, arguments: tuple[Any, ...]) -> TypeSerializer[Any]:
    return ListSerializer(serializer_for(arguments[0]))


def _set(_: Any, arguments: tuple[Any, ...], *, frozen: bool = False) -> TypeSerializer[Any]:
    element, nullable = strip_none(arguments[0])
    return SetSerializer(serializer_for(element), nullable_elements=nullable, frozen=frozen)


def _frozen_set(hint: Any, arguments: tuple[Any, ...]) -> TypeSerializer[Any]:
    return _set(hint, arguments, frozen=True)


def _dict(_: Any, arguments: tuple[Any, ...]) -> TypeSerializer[Any]:
    value, nullable = strip_none(arguments[1])
    return MapSerializer(serializer_for(arguments[0]), serializer_for(value), nullable_values=nullable)


def _tuple(hint: Any, arguments: tuple[Any, ...]) -> TypeSerializer[Any]:
    if Ellipsis in arguments:
        raise DeclarationError(f"{hint} has no fixed number of items", advice="use list[...]")
    return TupleSerializer(tuple(serializer_for(item) for item in arguments if item != ()))


def _either(_: Any, arguments: tuple[Any, ...]) -> TypeSerializer[Any]:
    return EitherSerializer(*map(serializer_for, arguments))


def _union(hint: Any, _: tuple[Any, ...]) -> TypeSerializer[Any]:
    bare, optional = strip_none(hint)
    if not optional:
        raise DeclarationError(f"{hint} is a union of several types", advice="only T | None can be stored")
    return OptionalSerializer(serializer_for(bare))


HINTS: HintTable = {
    bytes: BytesSerializer(),
    list: _list,
    set: _set,
    frozenset: _frozen_set,
    dict: _dict,
    tuple: _tuple,
    Either: _either,
    Union: _union,
    types.UnionType: _union,
}
