"""Conversion of Python type hints to serializers.

The families know their hints: the tables of `Ability.HINTS` have types and generic origins, and `Family.classes` looks
at classes that no table has, as enums and records. `Annotated[T, serializer]` serves everything else.

Source: DESIGN, section 3.
"""

from __future__ import annotations

import types
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin, overload

from .errors import DeclarationError, shown
from .families import families
from .registry import registry
from .serializer import TypeSerializer
from .stored_names import former_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .serializer import V

    HintFunction = Callable[[Any, tuple[Any, ...]], TypeSerializer[Any]]
    """Returns the serializer of a generic hint, given the hint and its arguments."""
    HintTable = Mapping[Any, TypeSerializer[Any] | HintFunction]
    """The table of `Ability.HINTS`."""

    MYPY = False  # only mypy treats a variable of this name as true
    if MYPY:
        from typing import _SpecialForm as _NoClass
    else:
        from builtins import object as _NoClass  # noqa: N812
    Hint = type[V] | TypeSerializer[V] | types.UnionType | _NoClass | None
    """A type hint for `V`. Where the hint is not a class (`int | None`; outside mypy `Int32`), `V` is unknown.

    mypy infers no `V` from a union with `object`; other checkers have no narrower type for `Annotated[...]`.
    """

_SUPPORTED = (
    "int, float, bool, str, bytes, Decimal, datetime, date, time, list, set, dict, tuple, T | None, enums, attrs and "
    "data classes"
)


class Marker(ABC):
    """What stands in `Annotated[T, …]` in place of a serializer, and makes one for `T`."""

    @abstractmethod
    def serializer(self, hint: Any) -> TypeSerializer[Any]:
        """Return the serializer of the marked hint."""


@overload
def serializer_for(hint: TypeSerializer[V]) -> TypeSerializer[V]: ...


@overload
def serializer_for(hint: type[V]) -> TypeSerializer[V]: ...


@overload
def serializer_for(hint: object) -> TypeSerializer[Any]: ...


def serializer_for(hint: Any) -> TypeSerializer[Any]:
    """Return the serializer for a type hint; a serializer is returned as it is.

    Raises:
        DeclarationError: There is none; the message lists the supported hints and says how to register a serializer.
    """
    if isinstance(hint, TypeSerializer):
        return hint
    registered = registry.serializer_for(hint)
    if registered is not None:
        return registered
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        given = given_serializer(arguments[0], arguments[1:])
        return serializer_for(arguments[0]) if given is None else given
    if origin is None:
        return _of_bare_hint(hint)
    known = families.hint(origin)
    if known is None or isinstance(known, TypeSerializer):
        raise _unknown(hint)
    return known(hint, arguments)


def _of_bare_hint(hint: object) -> TypeSerializer[Any]:
    """Return the serializer for a hint without arguments."""
    try:
        hash(hint)
    except TypeError as error:
        raise DeclarationError(f"{shown(hint)} is not a type hint") from error
    known = families.hint(hint)
    if isinstance(known, TypeSerializer):
        return known
    if known is not None:
        name = _name_of(hint)
        raise DeclarationError(f"{name} needs type arguments", advice=f"write {name}[...] with its item types")
    of_class = families.serializer_of_class(hint) if isinstance(hint, type) else None
    if of_class is None:
        raise _unknown(hint)
    return of_class


def as_serializer(hint: Hint[V]) -> TypeSerializer[V]:
    """Return what `serializer_for` returns; as the converter of a field, it lets type checkers infer `V`."""
    return serializer_for(hint)


def _name_of(hint: object) -> str:
    return getattr(hint, "__qualname__", None) or str(hint)


def _unknown(hint: object) -> DeclarationError:
    name = _name_of(hint)
    if isinstance(hint, TypeVar):
        return DeclarationError(
            "a generic type hint needs type arguments", advice="write it with its types: Array[int]"
        )
    if isinstance(hint, str):
        return DeclarationError(f"{hint!r} is a string, not a type", advice="write the type itself, without quotes")
    if isinstance(hint, types.FunctionType):
        return DeclarationError(f"{hint.__qualname__} is a function, not a type", advice="call it, with ()")
    return DeclarationError(
        f"no serializer is known for {name}",
        advice=f"use one of {_SUPPORTED}; or register_serializer({name}, …); or Annotated[{name}, YourSerializer()]",
    )


def given_serializer(hint: Any, metadata: tuple[Any, ...]) -> TypeSerializer[Any] | None:
    """Return the serializer that `Annotated[hint, …]` gives, by itself or by a marker; None if it gives none."""
    given = next((item for item in metadata if isinstance(item, TypeSerializer | Marker)), None)
    return given.serializer(hint) if isinstance(given, Marker) else given


def strip_none(hint: Any) -> tuple[Any, bool]:
    """Take `| None` off a hint, where the layout around it has a null flag.

    None is the only value of Void (the hint `None`), so such a flag is always set for it, as in Flink.
    """
    if not is_optional(hint):
        return hint, hint is None or hint is types.NoneType
    return Union[tuple(member for member in get_args(hint) if member is not types.NoneType)], True  # noqa: UP007 - many


def is_optional(hint: Any) -> bool:
    """Whether a hint is a union with None."""
    return get_origin(hint) in {Union, types.UnionType} and types.NoneType in get_args(hint)


__getattr__ = former_names(__name__)
