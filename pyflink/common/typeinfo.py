"""PyFlink's words for types, as type hints of stateshift.

    a program has                               it gets
    Types.LONG(), Types.STRING(), …             int, str, …: the hint of the same Java type
    Types.PICKLED_BYTE_ARRAY()                  any value, as a pickle: a PickleSerializer of `object`
    Types.ROW([…])                              Row[…]: columns by position, each of which may be None
    Types.ROW_NAMED([…], […])                   the same with names, as `row_of` makes it
    Types.TUPLE([…])                            tuple[…]
    Types.PRIMITIVE_ARRAY(Types.INT())          Array[Int32], Java's int[]; of bytes: bytes, Java's byte[]
    Types.BASIC_ARRAY(Types.INT())              Array[Int32 | None], Java's Integer[]; of strings: String[]
    Types.OBJECT_ARRAY(…)                       an array of objects, with a flag before each: a GenericArraySerializer
    Types.LIST(…), Types.MAP(…, …)              list[…], and dict[…, …], whose values may be None

So no two words of PyFlink become one hint, but for the basic and the object array of what is not a string: both are the
same Java array, and have the same coder. Source: `pyflink.common.typeinfo.Types` and `from_type_info` of
`pyflink.fn_execution.coders`, PyFlink 2.3.
"""

from __future__ import annotations

from decimal import Decimal
from types import FunctionType
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from ...serializers.containers.abilities import Array
from ...serializers.containers.object_arrays import GenericArraySerializer
from ...serializers.errors import DeclarationError, shown
from ...serializers.hints import serializer_for
from ...serializers.pickled.serializers import PickleSerializer
from ...serializers.primitives.abilities import BigInt, Char, Float32, Int8, Int16, Int32
from ...serializers.rows.abilities import row_of
from ...serializers.rows.values import Row
from ...serializers.serializer import TypeSerializer
from ...serializers.temporal.values import Instant, SqlDate, SqlTime, SqlTimestamp
from ..absent import explain_absent

if TYPE_CHECKING:
    from collections.abc import Sequence

TypeInformation: TypeAlias = Any
"""What says a type: a type hint or a serializer."""

_PRIMITIVES = (bool, Char, Int8, Int16, Int32, int, Float32, float)


def _always(hint: Any) -> staticmethod[[], Any]:
    return staticmethod(lambda: hint)


def _or_none(hint: Any) -> Any:
    if isinstance(hint, FunctionType):
        serializer_for(hint)  # a word without (): that is what is wrong
    return (Annotated[Any, hint] if isinstance(hint, TypeSerializer) else hint) | None


def _check_element(element: Any, known: tuple[Any, ...], array: str, use: str) -> None:
    if element not in known:
        raise DeclarationError(f"{shown(element)} cannot be in {array}", advice=f"use Types.{use}(…)")


class Types:
    """Functions that return the type hint for a word of PyFlink, such as `Types.LONG()` for `int`."""

    BIG_DEC = _always(Decimal)
    BIG_INT = _always(BigInt)
    BOOLEAN = _always(bool)
    BYTE = _always(Int8)
    CHAR = _always(Char)
    DOUBLE = _always(float)
    FLOAT = _always(Float32)
    INSTANT = _always(Instant)
    INT = _always(Int32)
    LONG = _always(int)
    SHORT = _always(Int16)
    SQL_DATE = _always(SqlDate)
    SQL_TIME = _always(SqlTime)
    SQL_TIMESTAMP = _always(SqlTimestamp)
    STRING = _always(str)

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> Any:  # noqa: N802 - as in PyFlink
        """Return the hint of any value as a pickle; a class of your own needs `PickleSerializer(THE_CLASS)`."""
        return Annotated[Any, PickleSerializer(object)]

    @staticmethod
    def ROW(field_types: Sequence[Any]) -> Any:  # noqa: N802 - as in PyFlink
        """Return the hint of a row whose columns have no names; each may be None."""
        row: Any = Row
        return row[tuple(map(_or_none, field_types))]

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[Any]) -> Any:  # noqa: N802 - as in PyFlink
        """Return the hint of a row whose columns have names; each may be None.

        Raises:
            DeclarationError: There are not as many names as types, or a name occurs twice.
        """
        if len(field_names) != len(field_types) or len(set(field_names)) < len(field_names):
            names = ", ".join(map(repr, field_names))
            raise DeclarationError(
                f"the {len(field_types)} columns of a row are called {names}", advice="give each a name of its own"
            )
        return Annotated[Row, row_of(dict(zip(field_names, map(_or_none, field_types), strict=True)))]

    @staticmethod
    def TUPLE(field_types: Sequence[Any]) -> Any:  # noqa: N802 - as in PyFlink
        """Return the hint of a tuple."""
        return tuple[tuple(field_types)]  # type: ignore[misc]  # known at run time only

    @staticmethod
    def LIST(element_type_info: Any) -> Any:  # noqa: N802 - as in PyFlink
        """Return the hint of a list."""
        return list[element_type_info]

    @staticmethod
    def MAP(key_type_info: Any, value_type_info: Any) -> Any:  # noqa: N802 - as in PyFlink
        """Return the hint of a dict, whose values may be None."""
        return dict[key_type_info, _or_none(value_type_info)]  # type: ignore[misc]

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: Any) -> Any:  # noqa: N802 - as in PyFlink
        """Return the hint of a Java array of a primitive type, such as int[]: `bytes`, or a list without None.

        Raises:
            DeclarationError: Java has no such primitive type.
        """
        _check_element(element_type, _PRIMITIVES, "an array of a primitive type of Java", "BASIC_ARRAY")
        return bytes if element_type is Int8 else Array[element_type]

    @staticmethod
    def BASIC_ARRAY(element_type: Any) -> Any:  # noqa: N802 - as in PyFlink
        """Return the hint of a Java array as Integer[] or String[]: a list, whose elements may be None.

        Raises:
            DeclarationError: PyFlink has no such array.
        """
        _check_element(element_type, (*_PRIMITIVES, str), "a basic array", "OBJECT_ARRAY")
        return Array[element_type | None]

    @staticmethod
    def OBJECT_ARRAY(element_type: Any) -> Any:  # noqa: N802 - as in PyFlink
        """Return the hint of any other Java array of objects: a list, whose elements may be None."""
        return Annotated[list[Any], GenericArraySerializer(serializer_for(element_type), nullable_elements=True)]


for _name, _word in vars(Types).items():
    if isinstance(_word, staticmethod):
        _word.__func__.__qualname__ = f"Types.{_name}"  # as errors call it

explain_absent(__name__)
