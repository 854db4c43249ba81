"""Conversion of values of an Avro schema to those of its counterpart, and back (FAM-4).

Avro                              counterpart
dict                              Record
symbol of an enum, as text        Symbol
UUID                              its text, or its bytes
number of nanoseconds             Instant, LocalDateTime
date, time, datetime              the same, or an exact value
"""

from __future__ import annotations

import datetime as dt
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs

from ..containers.pieces import convert_each
from ..enums.serializers import Symbol
from ..errors import StateShiftError, ValueNotConvertible, add_step, shown
from ..records.values import Record, field_of
from ..temporal.values import Instant, LocalDateTime, TemporalValue, civil_date
from .schema import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .schema import Node

_NANOS, _DAY_SECONDS = 1_000_000_000, 86_400
_FIRST_DAY = dt.date(1970, 1, 1).toordinal()


@attrs.frozen
class ToOwn:
    """Converts an Avro value to a value of the counterpart. Pickled as the schema's text."""

    schema: str

    def __call__(self, value: Any) -> Any:
        with _bounded():
            return own_value(parse(self.schema), value)


@attrs.frozen
class FromOwn:
    """Converts a value of the counterpart to an Avro value. Pickled as the schema's text."""

    schema: str

    def __call__(self, value: Any) -> Any:
        with _bounded():
            return avro_value(parse(self.schema), value)


@contextmanager
def _bounded() -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise ValueNotConvertible("a value is nested too deeply") from None


def own_value(node: Node, value: Any) -> Any:
    """Return an Avro value as the counterpart's generic readers would return it."""
    return _translated(node, value, own_value, _own_single, lambda fields: Record(node.name, fields))


def avro_value(node: Node, value: Any) -> Any:
    """Return a generic value, or an object of a class, as the Avro codec writes it.

    Raises:
        ValueNotConvertible: The Avro type cannot hold it.
    """
    return _translated(node, value, avro_value, _avro_single, dict)


def _translated(
    node: Node,
    value: Any,
    inner: Callable[[Node, Any], Any],
    single: Callable[[Node, Any], Any],
    record: Callable[[dict[str, Any]], Any],
) -> Any:
    """Convert a value recursively along its type; a null stays null."""
    if value is None:
        return None
    if node.type == "union":
        (branch,) = (branch for branch in node.branches if branch.type != "null")
        return inner(branch, value)
    if node.type == "array":
        return convert_each(lambda item: inner(node.inner, item), value, "[]")
    if node.type == "map":
        return dict(zip(value, convert_each(lambda item: inner(node.inner, item), value.values(), "{}"), strict=True))
    if node.type != "record":
        return single(node, value)
    fields = {}
    for field in node.fields:
        try:
            fields[field.name] = inner(field.node, field_of(value, field.name, field.name))
        except StateShiftError as error:
            add_step(error, f".{field.name}")
            raise
    return record(fields)


def _own_single(node: Node, value: Any) -> Any:
    if node.type == "enum":
        return Symbol(getattr(value, "name", value), node.name)
    if node.logical == "uuid":
        return str(value) if node.type == "string" else value.bytes
    if node.logical == "timestamp-nanos":
        return Instant(*divmod(value, _NANOS))
    if node.logical == "local-timestamp-nanos":
        seconds, nanos = divmod(value, _NANOS)
        days, second = divmod(seconds, _DAY_SECONDS)
        minute, second = divmod(second, 60)
        hour, minute = divmod(minute, 60)
        year, month, day = civil_date(days)
        return LocalDateTime(year, month, day, hour, minute, second, nanos)
    return value


def _avro_single(node: Node, value: Any) -> Any:
    if node.type == "enum":
        return getattr(value, "name", value)
    if node.logical == "uuid":
        return _uuid(value)
    if node.logical == "timestamp-nanos":
        seconds, nanos = Instant.from_python(value).moment
        return seconds * _NANOS + nanos
    if node.logical == "local-timestamp-nanos":
        return _local_nanos(value if isinstance(value, LocalDateTime) else LocalDateTime.from_python(value))
    if not isinstance(value, TemporalValue):
        return value
    try:
        return value.to_python()
    except ValueNotConvertible as error:
        raise ValueNotConvertible(
            f"{shown(str(value))} does not fit {node.describe()}, which holds microseconds of the years 1 to 9999",
            advice="handle it in a converter, or use nanoseconds",
        ) from error


def _uuid(value: Any) -> uuid.UUID:
    try:
        return uuid.UUID(bytes=value) if isinstance(value, bytes) else uuid.UUID(value)
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueNotConvertible(f"{shown(value)} is not a UUID") from error


def _local_nanos(value: LocalDateTime) -> int:
    if not dt.MINYEAR <= value.year <= dt.MAXYEAR:
        raise ValueNotConvertible(f"{shown(str(value))} does not fit nanoseconds in a long (64 bits)")
    days = dt.date(value.year, value.month, value.day).toordinal() - _FIRST_DAY
    seconds = days * _DAY_SECONDS + value.hour * 3600 + value.minute * 60 + value.second
    return seconds * _NANOS + value.nanos
