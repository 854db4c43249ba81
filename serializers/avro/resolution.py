"""Schema resolution: conversion of values of a stored Avro schema to those of a present one (AV-5), and defaults.

Defaults of Avro fields: conversion of their JSON to values of the field's type.

Bytes and fixed are text with one code point per byte; numbers take the declared type, single precision included;
logical types apply; a union's default belongs to the first branch that it fits. Source: Avro 1.12 specification,
"Complex Types"; rules AV-7, AV-9.

A conversion is worked out once for two schemas, cached for the process, and uses the pairing of `rules`. Values are
converted through the raw value: the stored logical type is undone, and the present one applied (AV-8, AV-9).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import attrs

from ..defaults import NO_VALUE
from ..errors import StateShiftError, ValueNotConvertible, add_step, at_step, shown
from ..wording import one
from . import logical_types as avro_logical
from .codec import choose_branch, is_scalar, misfit, round_float
from .rules import choose_reader, pair_fields
from .schema import parse

if TYPE_CHECKING:
    from collections.abc import Callable

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


if TYPE_CHECKING:
    Convert = Callable[[Any], Any]

_UNIT_DIGITS = {"millis": 3, "micros": 6, "nanos": 9}


@attrs.frozen
class AvroConversion:
    """Converts a stored value to a present value. Pickled as the text of the two schemas."""

    old: str
    new: str

    def __call__(self, value: Any) -> Any:
        return conversion(self.old, self.new)(value)


@lru_cache(maxsize=256)
def conversion(old: str, new: str) -> Convert:
    """Return the conversion between two schemas that resolve."""
    return _Conversions().between(parse(old), parse(new))


@attrs.define
class _Conversions:
    """Makes the conversion of each pair of nodes once; a recursive pair refers to its own through `made`."""

    made: dict[tuple[int, int], Convert | None] = attrs.field(factory=dict)

    def between(self, old: Node, new: Node) -> Convert:
        key = (id(old), id(new))
        if key in self.made:
            return self.made[key] or self._later(key)
        self.made[key] = None
        convert = self.made[key] = self._make(old, new)
        return convert

    def _later(self, key: tuple[int, int]) -> Convert:
        def convert(value: Any) -> Any:
            made = self.made[key]
            assert made is not None  # noqa: S101 - made by the time of the first value
            return made(value)

        return convert

    def _make(self, old: Node, new: Node) -> Convert:
        if old.type == "union":
            return self._from_union(old, new)
        if new.type == "union":
            place = choose_reader(old, new)
            if place is None:
                return _unreadable(old, new)
            return _tagging(self.between(old, new.branches[place]), new, place)
        if old.type == "record" and new.type == "record":
            return self._record(old, new)
        if old.type == "array" and new.type == "array":
            return _array(self.between(old.inner, new.inner))
        if old.type == "map" and new.type == "map":
            return _map(self.between(old.inner, new.inner))
        if old.type == "enum" and new.type == "enum":
            symbols, default = frozenset(new.symbols), new.default
            return lambda symbol: symbol if symbol in symbols else default
        return _scalar(old, new)

    def _from_union(self, old: Node, new: Node) -> Convert:
        # Conversions of branches that no new branch can read are never called: such a pair is incompatible (AV-6).
        targets = [
            self.between(branch, new) if new.type != "union" or choose_reader(branch, new) is not None
            else _unreadable(branch, new) for branch in old.branches
        ]  # fmt: skip

        def convert(value: Any) -> Any:
            place, inner = choose_branch(old, value)
            try:
                return targets[place](inner)
            except StateShiftError as error:
                add_step(error, old.step(place))
                raise

        return convert

    def _record(self, old: Node, new: Node) -> Convert:
        fields = [
            (field, stored.name if stored else "", self.between(stored.node, field.node) if stored else None)
            for field, stored in pair_fields(old, new)
        ]

        def convert(value: Any) -> dict[str, Any]:
            converted = {}
            for field, stored, inner in fields:
                try:
                    converted[field.name] = default_value(field) if inner is None else inner(value[stored])
                except StateShiftError as error:
                    add_step(error, f".{field.name}")
                    raise
            return converted

        return convert


def _unreadable(old: Node, new: Node) -> Convert:
    def convert(value: Any) -> Any:
        raise ValueNotConvertible(f"{shown(value)}, stored as {old.describe()}, is not {one(new.describe())}")

    return convert


def _tagging(inner: Convert, union: Node, place: int) -> Convert:
    if place not in union.tagged:
        return inner
    name = union.branches[place].name
    return lambda value: (name, inner(value))


def _array(inner: Convert) -> Convert:
    def convert(value: Any) -> list[Any]:
        with at_step("[]"):
            return [inner(item) for item in value]

    return convert


def _map(inner: Convert) -> Convert:
    def convert(value: Any) -> dict[str, Any]:
        with at_step("{}"):
            return {key: inner(item) for key, item in value.items()}

    return convert


def _scalar(old: Node, new: Node) -> Convert:
    if (old.type, old.logical, old.decimals, old.size) == (new.type, new.logical, new.decimals, new.size):
        return lambda value: value
    if old.decimals is not None and new.decimals is not None:
        return lambda value: value  # the number is the same; the writer scales it
    factor = unit_factor(old, new)

    def convert(value: Any) -> Any:
        raw = avro_logical.to_raw(old, value)
        if new.type == "float":
            raw = round_float(raw)
        elif new.type == "double":
            raw = float(raw)
        elif new.type == "string" and isinstance(raw, bytes | bytearray):
            raw = _decoded(raw)
        elif new.type == "bytes" and isinstance(raw, str):
            raw = raw.encode()
        elif factor != 1:
            raw *= factor
        return avro_logical.to_value(new, raw) if new.logical else raw

    return convert


def unit_factor(old: Node, new: Node) -> int:
    """Return how many units of the present type make one of the stored type; 1 for types without units."""
    unit, new_unit = (node.logical.rpartition("-")[2] for node in (old, new))
    if unit not in _UNIT_DIGITS or new_unit not in _UNIT_DIGITS:
        return 1
    return int(10 ** max(_UNIT_DIGITS[new_unit] - _UNIT_DIGITS[unit], 0))


def _decoded(raw: bytes | bytearray) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ValueNotConvertible(f"{shown(bytes(raw))} is not UTF-8, so it cannot become a string") from None
