"""Conversion of columns to the Python values that the serializers of declared types accept."""

from __future__ import annotations

import decimal
import re
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from ...serializers.containers.either import EitherSerializer, Left, Right
from ...serializers.containers.lists import SetSerializer
from ...serializers.containers.maps import MapSerializer
from ...serializers.containers.optional import OptionalSerializer
from ...serializers.containers.ttl import TtlSerializer, TtlValue
from ...serializers.containers.tuples import TupleSerializer
from ...serializers.enums.serializers import EnumSerializer
from ...serializers.enums.symbols import Symbol
from ...serializers.errors import ValueNotConvertible, cause_text, shown
from ...serializers.flink.windows import TimeWindow, TimeWindowSerializer
from ...serializers.primitives.big_numbers import DecimalSerializer
from ...serializers.primitives.numeric import BigIntSerializer
from ...serializers.records.serializers import DescribedRecordSerializer
from ...serializers.records.values import Record
from ...serializers.rows.serializers import RowSerializer
from ...serializers.rows.values import Row
from ...serializers.temporal.java_sql import SqlDateSerializer, SqlTimeSerializer
from ...serializers.temporal.sql_values import SqlDate, SqlTime
from ...serializers.temporal.values import Instant, LocalDate, LocalDateTime, LocalTime, TemporalValue, civil_date
from .column_types import EITHER, SEQUENCES, STAMPED, WINDOW, column_of_field

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...serializers.serializer import TypeSerializer


_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


def python_values(serializer: TypeSerializer[Any], column: pa.Array) -> list[Any]:
    """Return the values of a column in the form that their serializer accepts."""
    read = value_reader(serializer)
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


def value_reader(serializer: TypeSerializer[Any]) -> Callable[[Any], Any]:
    """Return a function that converts a value from Arrow to one that the serializer accepts.

    It raises `ValueNotConvertible` if that is impossible, as for a set with a repeated element.
    """
    reader = _reader(serializer)

    def read(value: Any) -> Any:
        if isinstance(value, NotInPython):
            raise ValueNotConvertible(
                f"Python cannot represent the value: {value.why}",
                advice="leave out arrays and maps with dates that are not in the years 1 to 9999, or with nanoseconds",
            )
        return _read(reader, value)

    return read


def _reader(serializer: TypeSerializer[Any]) -> Callable[[Any], Any] | None:
    """Return the function that converts a value from Arrow; None if the value needs no conversion."""
    if isinstance(serializer, OptionalSerializer):
        return _reader(serializer.value)
    if isinstance(serializer, DescribedRecordSerializer):
        return _record_reader(serializer)
    if isinstance(serializer, TupleSerializer):
        readers = [_reader(field) for field in serializer.fields]
        return lambda value: tuple(_read(read, item) for read, item in zip(readers, value.values(), strict=True))
    if isinstance(serializer, RowSerializer):
        return _row_reader(serializer)
    if isinstance(serializer, SEQUENCES):
        element = _reader(serializer.element)
        return None if element is None else lambda value: [_read(element, item) for item in value]
    if isinstance(serializer, SetSerializer):
        element = _reader(serializer.element)
        return lambda value: _set_of([_read(element, item) for item in value])
    if isinstance(serializer, MapSerializer):
        key, item = _reader(serializer.key), _reader(serializer.value)
        return lambda value: _map_of([(_read(key, name), _read(item, found)) for name, found in value])
    if isinstance(serializer, EnumSerializer):
        return lambda value: Symbol(value) if isinstance(value, str) else value
    if isinstance(serializer, BigIntSerializer):
        return lambda value: int(_number_of(value, _INTEGER))
    if isinstance(serializer, DecimalSerializer):
        return _number_of
    return _maker(serializer)


def _maker(serializer: TypeSerializer[Any]) -> Callable[[Any], Any] | None:
    """Return the function that converts a value from Arrow to a class of stateshift; None if there is none."""
    if isinstance(serializer, TtlSerializer):
        inner = _reader(serializer.value)
        return lambda value: TtlValue(value[STAMPED[0]], _read(inner, value[STAMPED[1]]))
    if isinstance(serializer, TimeWindowSerializer):
        return lambda value: TimeWindow(*(value[name] for name in WINDOW))
    if isinstance(serializer, EitherSerializer):
        sides = {
            True: (Left, _reader(serializer.left), EITHER[1]),
            False: (Right, _reader(serializer.right), EITHER[2]),
        }

        def read(value: dict[str, Any]) -> Any:
            side, read_side, name = sides[value[EITHER[0]]]
            return side(_read(read_side, value[name]))

        return read
    if isinstance(serializer, SqlDateSerializer):
        return SqlDate
    return SqlTime if isinstance(serializer, SqlTimeSerializer) else None


def _read(read: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if read is None or value is None else read(value)


def _record_reader(serializer: DescribedRecordSerializer[Any]) -> Callable[[Any], Any]:
    readers = {field.name: _reader(field.serializer) for field in serializer.fields}

    def read(value: dict[str, Any]) -> Record:
        fields = {}
        for field in serializer.fields:
            name = column_of_field(field, list(value))
            if name:
                fields[field.name] = _read(readers[field.name], value[name])
            else:
                fields[field.name] = field.default.make() if field.default else None
        return Record(serializer.name, fields)

    return read


def _row_reader(serializer: RowSerializer) -> Callable[[Any], Any]:
    readers = [_reader(column.serializer) for column in serializer.columns]
    names = serializer.names

    def read(value: dict[str, Any]) -> Row[*tuple[Any, ...]]:
        items = [value[name] for name in names] if names else value.values()
        return Row._of([_read(*pair) for pair in zip(readers, items, strict=True)], names)  # noqa: SLF001 - its factory

    return read


def _number_of(value: Any, form: re.Pattern[str] = _NUMBER) -> Any:
    """Return a big number from text, which an exact read returns: with all digits, and its scale."""
    if not isinstance(value, str):
        return value
    try:
        if form.fullmatch(value) is not None:
            return decimal.Decimal(value)
    except decimal.DecimalException:  # the exponent is out of bounds
        pass
    raise ValueNotConvertible(
        f"{shown(value)} is not such a number", advice="write it with ASCII digits: 12.50, 1.2E+3"
    )


def _set_of(items: list[Any]) -> frozenset[Any]:
    try:
        found = frozenset(items)
    except TypeError as error:
        raise ValueNotConvertible(f"{shown(items)} cannot be a set: {cause_text(error)}") from error
    if len(found) != len(items):
        raise ValueNotConvertible(f"{shown(items)} contains an element twice, but a set is declared")
    return found


def _map_of(entries: list[tuple[Any, Any]]) -> dict[Any, Any]:
    try:
        found = dict(entries)
    except TypeError as error:
        raise ValueNotConvertible(f"{shown(entries)} cannot be a map: {cause_text(error)}") from error
    if len(found) != len(entries):
        raise ValueNotConvertible(f"{shown(entries)} contains a key twice")
    return found
