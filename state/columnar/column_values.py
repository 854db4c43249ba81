"""Conversion of columns to the Python values that the serializers of declared types accept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from ...serializers.columns.codec import taken
from ...serializers.errors import ValueNotConvertible, cause_text
from ...serializers.temporal.values import Instant, LocalDate, LocalDateTime, LocalTime, TemporalValue, civil_date
from .json_codec import all_codecs

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...serializers.columns.codec import ColumnCodec
    from ...serializers.serializer import TypeSerializer


def python_values(serializer: TypeSerializer[Any], column: pa.Array) -> list[Any]:
    """Return the values of a column in the form that their serializer accepts."""
    read = value_reader(all_codecs().of(serializer))
    return [read(value) for value in listed(column)]


@attrs.frozen
class NotInPython:
    """A placeholder for a value that Python cannot represent, such as an array with a timestamp past the year 9999."""

    why: str


def listed(column: pa.Array) -> list[Any]:
    """Return the values of a column as Python objects, or else as an exact temporal value or a `NotInPython`."""
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError) as error:
        if len(column) == 1:
            return [_exact(column) or NotInPython(cause_text(error))]
        return [value for row in range(len(column)) for value in listed(column.slice(row, 1))]
    return values


_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _exact(column: pa.Array) -> TemporalValue | None:
    """Return the single date or time of a column, to the nanosecond and in any year; None if it is of another type."""
    kind = column.type
    if pa.types.is_date32(kind):
        return LocalDate(*civil_date(column.cast(pa.int32())[0].as_py()))
    if not (pa.types.is_timestamp(kind) or pa.types.is_time64(kind)):
        return None
    seconds, rest = divmod(column.cast(pa.int64())[0].as_py(), _PER_SECOND[kind.unit])
    nanos = rest * (10**9 // _PER_SECOND[kind.unit])
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return Instant(seconds, nanos)
    days, second = divmod(seconds, 86_400)
    clock = (second // 3600, second // 60 % 60, second % 60, nanos)
    return LocalDateTime(*civil_date(days), *clock) if pa.types.is_timestamp(kind) else LocalTime(*clock)


def value_reader(codec: ColumnCodec) -> Callable[[Any], Any]:
    """Return a function that converts a value from Arrow to one that its serializer accepts.

    It raises `ValueNotConvertible` if that is impossible, as for a set with a repeated element.
    """
    taker = codec.taker()

    def read(value: Any) -> Any:
        if isinstance(value, NotInPython):
            raise ValueNotConvertible(
                f"Python cannot represent the value: {value.why}",
                advice="leave out arrays and maps with dates that are not in the years 1 to 9999, or with nanoseconds",
            )
        return taken(taker, value)

    return read
