"""Defaults of Avro fields: conversion of their JSON to values of the field's type.

Bytes and fixed are text with one code point per byte; numbers take the declared type, single precision included;
logical types apply; a union's default belongs to the first branch that it fits. Source: Avro 1.12 specification,
"Complex Types"; rules AV-7, AV-9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..absence import NO_VALUE
from ..errors import ValueNotConvertible
from . import logical_types as avro_logical
from .codec import is_scalar, misfit, round_float

if TYPE_CHECKING:
    from .schema import AvroField, Node


def default_value(field: AvroField) -> Any:
    """Return the default of an absent field, converted from JSON to the field's type (AV-7, AV-9).

    Raises:
        ValueNotConvertible: It has no default, or one that does not fit its type.
    """
    if field.default is NO_VALUE:
        raise ValueNotConvertible(f"the field {field.name!r} has no default")
    return _from_json(field.node, field.default)


def _from_json(node: Node, found: Any) -> Any:
    if node.type == "union":
        return _branch_from_json(node, found)
    if node.type == "record":
        if not isinstance(found, dict):
            raise misfit(node, found)
        return {
            field.name: _from_json(field.node, found[field.name]) if field.name in found else default_value(field)
            for field in node.fields
        }
    if node.type == "array" and isinstance(found, list):
        return [_from_json(node.inner, item) for item in found]
    if node.type == "map" and isinstance(found, dict):
        return {key: _from_json(node.inner, item) for key, item in found.items()}
    raw = found
    if node.type in {"bytes", "fixed"}:
        try:
            raw = found.encode("latin-1")
        except (AttributeError, UnicodeEncodeError):
            raise misfit(node, found) from None
    if node.type in {"array", "map"} or not is_scalar(node, raw):
        raise misfit(node, found)
    if node.type in {"float", "double"}:
        try:
            raw = round_float(raw) if node.type == "float" else float(raw)
        except OverflowError:
            raise misfit(node, found) from None
    return avro_logical.to_value(node, raw) if node.logical else raw


def _branch_from_json(node: Node, found: Any) -> Any:
    for place, branch in enumerate(node.branches):
        try:
            value = _from_json(branch, found)
        except ValueNotConvertible:
            continue
        return (branch.name, value) if place in node.tagged else value
    raise misfit(node, found)
