"""Avro's logical types: conversion of the stored numbers or bytes to Python values, and back.

    decimal                            Decimal
    uuid                               UUID
    date                               date
    time-millis, time-micros           time
    timestamp-millis, -micros          datetime in UTC
    local-timestamp-millis, -micros    datetime without a zone

Nanoseconds do not fit Python's datetime and stay integers. Nothing is cut off: a value with more digits than the type
holds is an error. Source: Avro 1.12 specification, "Logical Types"; rules AV-8, AV-9.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import TYPE_CHECKING, Any

from ..errors import ValueNotConvertible, shown

if TYPE_CHECKING:
    from .schema import Node

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - local times are counted from it without a zone
_EPOCH_UTC = _EPOCH.replace(tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_MIDNIGHT = _EPOCH
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_MICROS = {"millis": 1000, "micros": 1}


def python_type(node: Node) -> type | None:
    """Return the class of the values; None if it is that of the base type."""
    if node.logical.startswith(("time", "local")):
        if node.logical.endswith("nanos"):
            return None
        return dt.time if node.logical.startswith("time-") else dt.datetime
    return {"decimal": decimal.Decimal, "uuid": uuid.UUID, "date": dt.date}.get(node.logical)


def is_value(node: Node, value: Any) -> bool:
    """Whether a value is of the logical type, not only of its base type."""
    expected = python_type(node)
    if expected is dt.datetime:
        return isinstance(value, dt.datetime) and (value.tzinfo is None) == node.logical.startswith("local")
    if expected is dt.date:
        return type(value) is dt.date
    return expected is not None and isinstance(value, expected)


def to_value(node: Node, raw: Any) -> Any:
    """Convert what the base type reads to the value of the logical type.

    Raises:
        ValueNotConvertible: Python's class cannot hold it (a year past 9999), or a string is not a UUID.
    """
    try:
        if node.decimals is not None:
            unscaled = int.from_bytes(raw, "big", signed=True)
            return decimal.Decimal(unscaled).scaleb(-node.decimals.scale, _EXACT)
        if node.logical == "uuid":
            return uuid.UUID(raw) if node.type == "string" else uuid.UUID(bytes=raw)
        if node.logical == "date":
            return _EPOCH.date() + dt.timedelta(days=raw)
        kind, _, unit = node.logical.rpartition("-")
        if unit not in _MICROS:
            return raw
        moved = dt.timedelta(microseconds=raw * _MICROS[unit])
        if kind != "time":
            return (_EPOCH_UTC if kind == "timestamp" else _EPOCH) + moved
        if not dt.timedelta() <= moved < dt.timedelta(days=1):
            raise ValueNotConvertible(f"{shown(raw)} is not a time of day in {unit}")
        return (_MIDNIGHT + moved).time()
    except (ValueError, OverflowError) as error:
        if isinstance(error, ValueNotConvertible):
            raise
        raise ValueNotConvertible(
            f"the {node.logical} {shown(raw)} does not fit Python's {getattr(python_type(node), '__name__', 'int')}",
            advice="read it without the logical type, as the number or text that it is",
        ) from error


def to_raw(node: Node, value: Any) -> Any:
    """Convert a value of the logical type to what the base type writes; other values are left to the base type.

    Raises:
        ValueNotConvertible: Digits would be lost, or a datetime lacks a time zone or has one that it must not have.
    """
    if node.decimals is not None and isinstance(value, decimal.Decimal):
        return _unscaled(node, value)
    if node.logical == "uuid" and isinstance(value, uuid.UUID):
        return str(value) if node.type == "string" else value.bytes
    if node.logical == "date" and type(value) is dt.date:
        return (value - _EPOCH.date()).days
    kind, _, unit = node.logical.rpartition("-")
    if kind == "time" and isinstance(value, dt.time) and value.tzinfo is None:
        return _count(dt.datetime.combine(_MIDNIGHT, value) - _MIDNIGHT, unit, value)
    if kind in {"timestamp", "local-timestamp"} and unit in _MICROS and isinstance(value, dt.datetime):
        if (value.tzinfo is None) == (kind == "timestamp"):
            words = "with a time zone" if kind == "timestamp" else "without a time zone"
            raise ValueNotConvertible(f"found {shown(value)} where a datetime {words} is declared ({node.logical})")
        return _count(value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC), unit, value)
    return value


def _count(moved: dt.timedelta, unit: str, value: Any) -> int:
    count, rest = divmod(moved // _MICROSECOND, _MICROS[unit])
    if rest:
        raise ValueNotConvertible(
            f"{shown(value)} is not a whole number of milliseconds", advice="round it, or use micros"
        )
    return count


def _unscaled(node: Node, value: decimal.Decimal) -> bytes:
    digits = node.decimals
    assert digits is not None  # noqa: S101 - checked by the caller
    if not value.is_finite():
        raise ValueNotConvertible(f"{shown(value)} is not a finite decimal")
    # Check the size before computing anything: 1E+999999999 has a billion digits.
    if value and value.adjusted() >= digits.precision - digits.scale:
        raise _too_long(node, value)
    scaled = value.scaleb(digits.scale, _EXACT)
    whole = int(scaled) if value else 0
    if scaled != whole:
        raise _too_long(node, value)
    size = node.size if node.type == "fixed" else (whole if whole >= 0 else ~whole).bit_length() // 8 + 1
    return whole.to_bytes(size, "big", signed=True)


def _too_long(node: Node, value: decimal.Decimal) -> ValueNotConvertible:
    return ValueNotConvertible(
        f"{shown(value)} does not fit {node.describe()} (precision and scale)", advice="round it, or widen the type"
    )
