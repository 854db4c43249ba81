"""Avro's binary encoding, with strict checks: values of a schema from bytes and to bytes.

    int, long   zigzag, seven bits a byte, low bits first, the top bit set on all bytes but the last
    float 4, double 8 bytes, little-endian; boolean 0 or 1; null nothing
    bytes, string   long length, the bytes; string in UTF-8
    array, map   blocks: long count, items; a negative count is followed by the block's size in bytes; a count 0 ends
    enum   int place of the symbol; union   long place of the branch, its value; record   the fields; fixed   its bytes

fastavro is not used here: it counts a negative branch of a union from the end, lets numbers overflow, and allocates
whatever size damaged bytes announce. Here every count is compared with the remaining bytes before anything is
allocated. Source: Avro 1.12 specification, "Binary Encoding"; rule AV-9.
"""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import CorruptSavepoint, StateShiftError, ValueNotConvertible, add_step, shown
from ..records.classes import is_record_class
from ..records.values import Record, field_of
from .logical_types import is_value, python_type, to_raw, to_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..views import DataInputView, DataOutputView
    from .schema import Node

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_BITS = {"int": 32, "long": 64}
_SCALARS = (str, bytes, bool, int, float, list, tuple)
_MAX_EMPTY = 1_000_000
"""The most items without bytes in one value: nothing else limits the count that damaged bytes could announce."""


def read(node: Node, source: DataInputView) -> Any:
    """Read one value.

    Raises:
        CorruptSavepoint: No value of this schema begins here; with the offset.
        ValueNotConvertible: The Python class of a logical type cannot hold the value.
    """
    start = source.position
    try:
        return _Decoder(source).value(node)
    except RecursionError:
        raise CorruptSavepoint("a value is nested too deeply", offset=start) from None


@attrs.define
class _Decoder:
    source: DataInputView
    empty: int = 0

    def value(self, node: Node) -> Any:
        raw = _READERS[node.type](self, node)
        return to_value(node, raw) if node.logical else raw

    def number(self, bits: int) -> int:
        start, value = self.source.position, 0
        for shift in range(0, 70 if bits == 64 else 35, 7):
            byte = self.source.read_unsigned_byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> bits:
                    break
                return value >> 1 ^ -(value & 1)
        raise CorruptSavepoint(f"a number does not fit {bits} bits", offset=start)

    def chunk(self, _node: Node) -> bytes:
        start = self.source.position
        size = self.number(64)
        if not 0 <= size <= self.source.remaining():
            raise CorruptSavepoint(
                f"{size} bytes are declared, but only {self.source.remaining()} are left", offset=start
            )
        return self.source.read_fully(size)

    def text(self, node: Node) -> str:
        start = self.source.position
        try:
            return self.chunk(node).decode()
        except UnicodeDecodeError as error:
            raise CorruptSavepoint("a string is not UTF-8", offset=start) from error

    def symbol(self, node: Node) -> str:
        start = self.source.position
        place = self.number(32)
        if not 0 <= place < len(node.symbols):
            raise CorruptSavepoint(
                f"the symbol {place} of {node.describe()}, which has {len(node.symbols)}", offset=start
            )
        return node.symbols[place]

    def branch(self, node: Node) -> Any:
        start = self.source.position
        place = self.number(64)
        if not 0 <= place < len(node.branches):
            raise CorruptSavepoint(f"the branch {place} of a union of {len(node.branches)}", offset=start)
        chosen = node.branches[place]
        try:
            value = self.value(chosen)
        except StateShiftError as error:
            add_step(error, node.step(place))
            raise
        return (chosen.name, value) if place in node.tagged else value

    def record(self, node: Node) -> dict[str, Any]:
        values = {}
        for field in node.fields:
            try:
                values[field.name] = self.value(field.node)
            except StateShiftError as error:
                add_step(error, f".{field.name}")
                raise
        return values

    def array(self, node: Node) -> list[Any]:
        items: list[Any] = []
        self.blocks(node.inner.least_bytes, lambda: items.append(self.value(node.inner)), "[]")
        return items

    def map(self, node: Node) -> dict[str, Any]:
        values: dict[str, Any] = {}

        def entry() -> None:
            key = self.text(node)
            values[key] = self.value(node.inner)

        self.blocks(node.inner.least_bytes + 1, entry, "{}")
        return values

    def blocks(self, least: int, item: Callable[[], None], step: str) -> None:
        while count := self._block(least):
            end, number = count
            for _ in range(number):
                try:
                    item()
                except StateShiftError as error:
                    add_step(error, step)
                    raise
            if end not in {-1, self.source.position}:
                raise CorruptSavepoint("a block does not end where it says", offset=self.source.position)

    def _block(self, least: int) -> tuple[int, int] | None:
        """Return the end of a block (-1: not given) and its number of items; None at the end."""
        start = self.source.position
        number, end = self.number(64), -1
        if number == 0:
            return None
        if number < 0:
            number, size = -number, self.number(64)
            if not 0 <= size <= self.source.remaining():
                raise CorruptSavepoint(f"a block of {size} bytes, and {self.source.remaining()} are left", offset=start)
            end = self.source.position + size
        if least == 0:
            self.empty += number
        if number * least > self.source.remaining() or self.empty > _MAX_EMPTY:
            raise CorruptSavepoint(
                f"{number} items are declared, but only {self.source.remaining()} bytes are left", offset=start
            )
        return end, number


_READERS: dict[str, Callable[[_Decoder, Node], Any]] = {
    "null": lambda _decoder, _node: None,
    "boolean": lambda decoder, _: decoder.source.read_boolean(),
    "int": lambda decoder, _: decoder.number(32),
    "long": lambda decoder, _: decoder.number(64),
    "float": lambda decoder, _: _FLOAT.unpack(decoder.source.read_fully(4))[0],
    "double": lambda decoder, _: _DOUBLE.unpack(decoder.source.read_fully(8))[0],
    "bytes": _Decoder.chunk,
    "string": _Decoder.text,
    "fixed": lambda decoder, node: decoder.source.read_fully(node.size),
    "enum": _Decoder.symbol,
    "union": _Decoder.branch,
    "record": _Decoder.record,
    "array": _Decoder.array,
    "map": _Decoder.map,
}


def write(node: Node, value: Any, target: DataOutputView) -> None:
    """Write one value: what `read` returns, or an object with the attributes of a record.

    Raises:
        ValueNotConvertible: It does not fit the schema; nothing is rounded, cut off or left out.
    """
    try:
        _Encoder(target).value(node, value)
    except RecursionError:
        raise ValueNotConvertible("a value is nested too deeply, or contains itself") from None


@attrs.define
class _Encoder:
    target: DataOutputView
    empty: int = 0

    def value(self, node: Node, value: Any) -> None:
        _WRITERS[node.type](self, node, to_raw(node, value) if node.logical else value)

    def number(self, value: int) -> None:
        rest = value << 1 if value >= 0 else ~value << 1 | 1
        while rest > 0x7F:
            self.target.write_byte(rest & 0x7F | 0x80)
            rest >>= 7
        self.target.write_byte(rest)

    def scalar(self, node: Node, value: Any) -> None:
        if not is_scalar(node, value):
            raise misfit(node, value)
        if node.type in _BITS:
            self.number(value)
        elif node.type == "boolean":
            self.target.write_boolean(value)
        elif node.type in {"float", "double"}:
            self.floating(node, value)
        elif node.type == "enum":
            self.number(node.symbols.index(value))
        elif node.type != "null":
            data = _utf8(value) if node.type == "string" else bytes(value)
            if node.type != "fixed":
                self.number(len(data))
            self.target.write(data)

    def floating(self, node: Node, value: float) -> None:
        form = _FLOAT if node.type == "float" else _DOUBLE
        try:
            data = form.pack(value)
        except OverflowError:
            raise misfit(node, value) from None
        if isinstance(value, int) and form.unpack(data)[0] != value:
            raise ValueNotConvertible(f"{shown(value)} is not exact as a {node.type}")
        self.target.write(data)

    def branch(self, node: Node, value: Any) -> None:
        place, inner = choose_branch(node, value)
        self.number(place)
        try:
            self.value(node.branches[place], inner)
        except StateShiftError as error:
            add_step(error, node.step(place))
            raise

    def record(self, node: Node, value: Any) -> None:
        cls: Any = type(value)  # Any: type checkers do not see that a class is hashable
        names = value if isinstance(value, Mapping | Record) else _field_names(cls)
        unknown = next((name for name in names if not _has_field(node, name)), None)
        if unknown is not None:
            raise ValueNotConvertible(f"{shown(unknown)} is not a field of {node.name}")
        if value is None or (isinstance(value, _SCALARS) and not hasattr(value, "_fields")):
            raise misfit(node, value)
        for field in node.fields:
            try:
                self.value(field.node, field_of(value, field.name, field.name))
            except StateShiftError as error:
                add_step(error, f".{field.name}")
                raise

    def array(self, node: Node, value: Any) -> None:
        if not isinstance(value, list | tuple):
            raise misfit(node, value)
        self._count(len(value), node.inner.least_bytes)
        for item in value:
            try:
                self.value(node.inner, item)
            except StateShiftError as error:
                add_step(error, "[]")
                raise
        if value:
            self.number(0)

    def map(self, node: Node, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise misfit(node, value)
        self._count(len(value), 1)
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueNotConvertible(f"the keys of a map must be strings, not {shown(key)}")
            data = _utf8(key)
            self.number(len(data))
            self.target.write(data)
            try:
                self.value(node.inner, item)
            except StateShiftError as error:
                add_step(error, "{}")
                raise
        if value:
            self.number(0)

    def _count(self, number: int, least: int) -> None:
        self.empty += number if least == 0 else 0
        if self.empty > _MAX_EMPTY:
            raise ValueNotConvertible(f"more than {_MAX_EMPTY:,} items that take no bytes")
        self.number(number)


_WRITERS: dict[str, Callable[[_Encoder, Node, Any], None]] = {
    **dict.fromkeys(
        ("null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "enum"), _Encoder.scalar
    ),
    "union": _Encoder.branch,
    "record": _Encoder.record,
    "array": _Encoder.array,
    "map": _Encoder.map,
}


def choose_branch(node: Node, value: Any) -> tuple[int, Any]:
    """Return the index of the branch that a value belongs to, and the value without its tag.

    Raises:
        ValueNotConvertible: No branch holds it; or several records do, and no tag says which.
    """
    if isinstance(value, tuple) and len(value) == 2 and not hasattr(value, "_fields"):
        for place, branch in enumerate(node.branches):
            if branch.name and value[0] == branch.name:
                return place, value[1]
    plain_first = sorted(range(len(node.branches)), key=lambda place: place in node.tagged)
    for loose in (False, True):
        found = [place for place in plain_first if _fits(node.branches[place], value, loose=loose)]
        records = [place for place in found if node.branches[place].type == "record"]
        if len(records) > 1:
            names = ", ".join(node.branches[place].name for place in records)
            raise ValueNotConvertible(
                f"{shown(value)} may be any of {names}", advice="write it as (name of the record, value)"
            )
        if found:
            return found[0], value
    raise misfit(node, value)


def _fits(node: Node, value: Any, *, loose: bool) -> bool:
    """Whether a value looks like one of a branch; loose: also an int as a float, and a number as a logical type."""
    if node.logical and not loose and python_type(node) is not None:
        return is_value(node, value)
    if node.type == "record":
        if isinstance(value, Mapping):
            return len(value) == len(node.fields) and all(field.name in value for field in node.fields)
        if isinstance(value, Record):
            return node.name == value._type_name  # noqa: SLF001 - public API of Record
        return bool(node.fields) and all(hasattr(value, field.name) for field in node.fields)
    if node.type == "array":
        return isinstance(value, list | tuple)
    if node.type == "map":
        return isinstance(value, Mapping)
    if node.type in {"float", "double"} and not loose:
        return isinstance(value, float) and (node.type == "double" or round_float(value) == value or math.isnan(value))
    return is_scalar(node, value)


def is_scalar(node: Node, value: Any) -> bool:
    """Whether a raw value fits a type without parts."""
    kind = node.type
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in _BITS:
        return isinstance(value, int) and not isinstance(value, bool) and -1 <= value >> _BITS[kind] - 1 <= 0
    if kind in {"float", "double"}:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "string":
        return isinstance(value, str)
    if kind == "enum":
        return isinstance(value, str) and value in node.symbols
    return isinstance(value, bytes | bytearray) and (kind == "bytes" or len(value) == node.size)


def round_float(value: float) -> float:
    """Round to single precision, out of its range to infinity, as Avro's readers of float do (AV-9)."""
    try:
        rounded: float = _FLOAT.unpack(_FLOAT.pack(value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


@lru_cache(maxsize=256)
def _field_names(cls: Any) -> tuple[str, ...]:
    """Return the constructor arguments of a record class; empty for any other class."""
    if not is_record_class(cls):
        return ()
    if attrs.has(cls):
        return tuple(field.name for field in attrs.fields(cls) if field.init)
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls) if field.init)
    return tuple(cls._fields)


def _has_field(node: Node, name: object) -> bool:
    return any(field.name == name for field in node.fields)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueNotConvertible(
            f"{shown(text)} contains half of a surrogate pair, which UTF-8 cannot encode"
        ) from None


def misfit(node: Node, value: Any) -> ValueNotConvertible:
    """Return the error for a value that does not fit a type."""
    return ValueNotConvertible(f"found {shown(value)} where a {node.describe()} is declared")
