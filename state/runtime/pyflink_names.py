"""PyFlink's words for types and durations, so that a function moves here with its imports changed only.

New code has type hints and `timedelta`. Source: `pyflink.common.Types`, `Time` and `Duration`.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ...serializers.containers.abilities import Array
from ...serializers.primitives.abilities import BigInt, Char, Float32, Int8, Int16, Int32
from ...serializers.temporal.values import Instant, SqlDate, SqlTime, SqlTimestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _always(hint: Any) -> staticmethod[[], Any]:
    return staticmethod(lambda: hint)


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
    def TUPLE(field_types: Sequence[Any]) -> Any:  # noqa: N802 - as in PyFlink
        """Return the hint of a tuple."""
        return tuple[tuple(field_types)]  # type: ignore[misc]  # known at run time only

    @staticmethod
    def LIST(element_type_info: Any) -> Any:  # noqa: N802 - as in PyFlink
        """Return the hint of a list."""
        return list[element_type_info]

    @staticmethod
    def MAP(key_type_info: Any, value_type_info: Any) -> Any:  # noqa: N802 - as in PyFlink
        """Return the hint of a dict."""
        return dict[key_type_info, value_type_info]

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: Any) -> Any:  # noqa: N802 - as in PyFlink
        """Return the hint of a Java array of a primitive type."""
        return Array[element_type]


def _of(unit: str) -> staticmethod[[int], timedelta]:
    """Return a function from a number of such units to a timedelta."""
    return staticmethod(lambda count: timedelta(**{unit: count}))


class Time:
    """Functions that return a timedelta: `Time.seconds(1)`."""

    milliseconds: Callable[[int], timedelta] = _of("milliseconds")
    seconds: Callable[[int], timedelta] = _of("seconds")
    minutes: Callable[[int], timedelta] = _of("minutes")
    hours: Callable[[int], timedelta] = _of("hours")
    days: Callable[[int], timedelta] = _of("days")


class Duration:
    """Functions that return a timedelta: `Duration.of_seconds(1)`."""

    of_millis: Callable[[int], timedelta] = _of("milliseconds")
    of_seconds: Callable[[int], timedelta] = _of("seconds")
    of_minutes: Callable[[int], timedelta] = _of("minutes")
    of_hours: Callable[[int], timedelta] = _of("hours")
    of_days: Callable[[int], timedelta] = _of("days")
