"""Avro's binary encoding, with strict checks: values of a schema from bytes and to bytes.

    int, long   zigzag, seven bits a byte, low bits first, the top bit set on all bytes but the last
    float 4, double 8 bytes, little-endian; boolean 0 or 1; null nothing
    bytes, string   long length, the bytes; string in UTF-8
    array, map   blocks: long count, items; a negative count is followed by the block's size in bytes; a count 0 ends
    enum   int place of the symbol; union   long place of the branch, its value; record   the fields; fixed   its bytes

fastavro reads and writes them, behind checks of what it takes as it comes: it counts a negative branch of a union from
the end, lets numbers overflow, makes as many items without bytes as damaged bytes announce, and dies of a value that is
nested deeply. So bytes are gone through once before anything is made of them, every count compared with the bytes that
are left, and values are checked before they are written. Source: Avro 1.12 specification, "Binary Encoding"; rule AV-9.
"""

from __future__ import annotations

import dataclasses
import io
import math
import struct
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import CorruptSavepoint, StateShiftError, ValueNotConvertible, add_step, at_step, shown
from ..records.classes import Record, field_of, is_record_class
from ..views import DataInputView, DataOutputView
from .logical_types import is_value, python_type, to_raw, to_value
from .schema import NAMED, PRIMITIVES, SCHEMAS_KEPT, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_BITS = {"int": 32, "long": 64}
_LONG = Node("long")
_SCALARS = (str, bytes, bool, int, float, list, tuple)
_MAX_EMPTY = 1_000_000
"""The most items without bytes in one value: nothing else limits the count that damaged bytes could announce."""
_MAX_DEPTH = 1000
"""The most records, arrays and maps within one another: fastavro takes up to 3 KiB of the stack for each."""
_OURS = "stateshift"


def read(node: Node, source: DataInputView) -> Any:
    """Read one value.

    Raises:
        CorruptSavepoint: No value of this schema begins here; with the offset.
        ValueNotConvertible: The Python class of a logical type cannot hold the value.
    """
    start = source.position
    skip(node, source)
    try:
        return _decoded(node, source.span(start))
    except ValueNotConvertible:
        source.position = start
        _Converting(source).value(node, 0)  # raises it again, with the path
        raise


def read_each(node: Node, pieces: Sequence[bytes]) -> list[Any]:
    """Read the one value in each piece, all of them by one call of fastavro, as the items of an array.

    Raises:
        CorruptSavepoint: A piece is not a value and nothing else.
    """
    target = DataOutputView()
    write(_LONG, len(pieces), target)
    start = len(target.getvalue())
    data = b"".join((target.getvalue(), *pieces, b"\0"))
    source = DataInputView(data, start, start)
    skim = _Skim(source)
    for piece in pieces:
        source.end += len(piece)
        skim.empty = 0
        _gone_through(skim, node)
        if source.remaining():
            raise CorruptSavepoint(f"{source.remaining()} bytes stand behind the value", offset=source.position)
    found: list[Any] = _decoded(_array_of(node), data)
    return found


@lru_cache(maxsize=SCHEMAS_KEPT)
def _array_of(node: Node) -> Node:
    return Node("array", items=node)


def skip(node: Node, source: DataInputView) -> None:
    """Move on behind one value.

    Raises:
        CorruptSavepoint: As in `read`.
    """
    _gone_through(_Skim(source), node)


def _gone_through(skim: _Skim, node: Node) -> None:
    start = skim.source.position
    try:
        skim.value(node, 0)
    except RecursionError:
        raise CorruptSavepoint("a value is nested too deeply", offset=start) from None


def _decoded(node: Node, data: bytes) -> Any:
    return _fastavro().schemaless_reader(io.BytesIO(data), fastavro_schema(node), None)


@attrs.define
class _Skim:
    """Goes through the bytes of a value, and checks all that fastavro does not; no value is made."""

    source: DataInputView
    empty: int = 0

    def value(self, node: Node, depth: int) -> None:
        _SKIMS[node.type](self, node, depth)

    def chunk(self) -> bytes:
        start = self.source.position
        size = self.source.read_zigzag(64)
        if not 0 <= size <= self.source.remaining():
            raise CorruptSavepoint(
                f"{size} bytes are declared, but only {self.source.remaining()} are left", offset=start
            )
        return self.source.read_fully(size)

    def text(self) -> None:
        start = self.source.position
        try:
            self.chunk().decode()
        except UnicodeDecodeError as error:
            raise CorruptSavepoint("a string is not UTF-8", offset=start) from error

    def symbol(self, node: Node) -> None:
        start = self.source.position
        place = self.source.read_zigzag(32)
        if not 0 <= place < len(node.symbols):
            raise CorruptSavepoint(
                f"the symbol {place} of {node.describe()}, which has {len(node.symbols)}", offset=start
            )

    def branch(self, node: Node, depth: int) -> None:
        start = self.source.position
        place = self.source.read_zigzag(64)
        if not 0 <= place < len(node.branches):
            raise CorruptSavepoint(f"the branch {place} of a union of {len(node.branches)}", offset=start)
        try:
            self.value(node.branches[place], depth)
        except StateShiftError as error:
            add_step(error, node.step(place))
            raise

    def record(self, node: Node, depth: int) -> None:
        below = _deeper(depth)
        for field in node.fields:
            try:
                self.value(field.node, below)
            except StateShiftError as error:
                add_step(error, f".{field.name}")
                raise

    def items(self, node: Node, depth: int) -> None:
        below, is_map = _deeper(depth), node.type == "map"
        while count := self._block(node.inner.least_bytes + is_map):
            end, number = count
            with at_step("{}" if is_map else "[]"):
                for _ in range(number):
                    if is_map:
                        self.text()
                    self.value(node.inner, below)
            if end not in {-1, self.source.position}:
                raise CorruptSavepoint("a block does not end where it says", offset=self.source.position)

    def _block(self, least: int) -> tuple[int, int] | None:
        """Return the end of a block (-1: not given) and its number of items; None at the end."""
        start = self.source.position
        number, end = self.source.read_zigzag(64), -1
        if number == 0:
            return None
        if number < 0:
            number, size = -number, self.source.read_zigzag(64)
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


class _Converting(_Skim):
    """Makes the values of logical types, too, since one of them was refused."""

    def value(self, node: Node, depth: int) -> None:
        start = self.source.position
        super().value(node, depth)
        if node.logical:
            _decoded(node, self.source.span(start))


_SKIMS: dict[str, Callable[[_Skim, Node, int], object]] = {
    "null": lambda _skim, _node, _depth: None,
    "boolean": lambda skim, _node, _depth: skim.source.read_boolean(),
    "int": lambda skim, _node, _depth: skim.source.read_zigzag(32),
    "long": lambda skim, _node, _depth: skim.source.read_zigzag(64),
    "float": lambda skim, _node, _depth: skim.source.skip_bytes(4),
    "double": lambda skim, _node, _depth: skim.source.skip_bytes(8),
    "bytes": lambda skim, _node, _depth: skim.chunk(),
    "string": lambda skim, _node, _depth: skim.text(),
    "fixed": lambda skim, node, _depth: skim.source.skip_bytes(node.size),
    "enum": lambda skim, node, _depth: skim.symbol(node),
    "union": _Skim.branch,
    "record": _Skim.record,
    "array": _Skim.items,
    "map": _Skim.items,
}


def write(node: Node, value: Any, target: DataOutputView) -> None:
    """Write one value: what `read` returns, or an object with the attributes of a record.

    Raises:
        ValueNotConvertible: It does not fit the schema; nothing is rounded, cut off or left out.
    """
    try:
        checked = _Checked().value(node, value, 0)
    except RecursionError:
        raise ValueNotConvertible("a value is nested too deeply, or contains itself") from None
    stream = io.BytesIO()
    _fastavro().schemaless_writer(stream, fastavro_schema(node), checked)
    target.write(stream.getvalue())


@attrs.define
class _Checked:
    """Returns values as fastavro is to write them.

    They are checked, logical types are numbers or bytes, and the branches of unions are named.
    """

    empty: int = 0

    def value(self, node: Node, value: Any, depth: int) -> Any:
        return _CHECKED[node.type](self, node, to_raw(node, value) if node.logical else value, depth)

    def scalar(self, node: Node, value: Any, _depth: int) -> Any:
        if not is_scalar(node, value):
            raise misfit(node, value)
        if node.type == "string":
            _check_text(value)
        elif node.type in {"float", "double"}:
            _check_exact(node, value)
        return value

    def branch(self, node: Node, value: Any, depth: int) -> Any:
        place, inner = choose_branch(node, value)
        try:
            found = self.value(node.branches[place], inner, depth)
        except StateShiftError as error:
            add_step(error, node.step(place))
            raise
        chosen = node.branches[place]
        if place in node.tagged:
            return _name(chosen, "tagged"), {"value": found}
        return _name(chosen) if chosen.type in NAMED else chosen.type, found

    def record(self, node: Node, value: Any, depth: int) -> Any:
        cls: Any = type(value)  # Any: type checkers do not see that a class is hashable
        names = value if isinstance(value, Mapping | Record) else _field_names(cls)
        known = {field.name for field in node.fields}
        if unknown := [name for name in names if name not in known]:
            raise ValueNotConvertible(f"{shown(unknown[0])} is not a field of {node.name}")
        if value is None or (isinstance(value, _SCALARS) and not hasattr(value, "_fields")):
            raise misfit(node, value)
        below, found = _deeper(depth), {}
        for field in node.fields:
            try:
                found[field.name] = self.value(field.node, field_of(value, field.name, field.name), below)
            except StateShiftError as error:
                add_step(error, f".{field.name}")
                raise
        return found

    def array(self, node: Node, value: Any, depth: int) -> Any:
        if not isinstance(value, list | tuple):
            raise misfit(node, value)
        self._count(len(value), node.inner.least_bytes)
        below = _deeper(depth)
        with at_step("[]"):
            return [self.value(node.inner, item, below) for item in value]

    def map(self, node: Node, value: Any, depth: int) -> Any:
        if not isinstance(value, Mapping):
            raise misfit(node, value)
        below, found = _deeper(depth), {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueNotConvertible(f"the keys of a map must be strings, not {shown(key)}")
            _check_text(key)
            with at_step("{}"):
                found[key] = self.value(node.inner, item, below)
        return found

    def _count(self, number: int, least: int) -> None:
        self.empty += number if least == 0 else 0
        if self.empty > _MAX_EMPTY:
            raise ValueNotConvertible(f"more than {_MAX_EMPTY:,} items that take no bytes")


_CHECKED: dict[str, Callable[[_Checked, Node, Any, int], Any]] = {
    **dict.fromkeys(PRIMITIVES | {"fixed", "enum"}, _Checked.scalar),
    "union": _Checked.branch,
    "record": _Checked.record,
    "array": _Checked.array,
    "map": _Checked.map,
}


def _deeper(depth: int) -> int:
    if depth >= _MAX_DEPTH:
        raise RecursionError
    return depth + 1


def _check_exact(node: Node, value: float) -> None:
    form = _FLOAT if node.type == "float" else _DOUBLE
    try:
        data = form.pack(value)
    except OverflowError:
        raise misfit(node, value) from None
    if isinstance(value, int) and form.unpack(data)[0] != value:
        raise ValueNotConvertible(f"{shown(value)} is not exact as a {node.type}")


@cache
def _fastavro() -> Any:
    """Return fastavro, which calls our conversions of logical types under a name of our own."""
    import fastavro
    from fastavro.read import LOGICAL_READERS

    def converted(raw: Any, schema: Any, _: Any) -> Any:
        return to_value(schema["node"], raw)

    def tagged(raw: Any, schema: Any, _: Any) -> Any:
        return schema["tag"], raw["value"]

    LOGICAL_READERS.update({f"{kind}-{_OURS}": converted for kind in PRIMITIVES | {"fixed"}})
    LOGICAL_READERS[f"record-{_OURS}"] = tagged
    return fastavro


@lru_cache(maxsize=SCHEMAS_KEPT)
def fastavro_schema(node: Node) -> Any:
    """Return the schema by which fastavro reads and writes the values of a node.

    Types have names of their own, which no namespace can change, and logical types one of ours. A tagged branch is
    within a record of one field, which adds no bytes, and is read as its tag and the value.
    """
    return _fastavro().parse_schema(_schema(node, set()))


def _schema(node: Node, met: set[str], *, tagged: bool = False) -> Any:
    if node.type == "union":
        return [_schema(branch, met, tagged=place in node.tagged) for place, branch in enumerate(node.branches)]
    if node.items is not None:
        return {"type": node.type, "items" if node.type == "array" else "values": _schema(node.items, met)}
    found: dict[str, Any] = {"type": node.type, **({"logicalType": _OURS, "node": node} if node.logical else {})}
    if node.type not in NAMED:
        return found
    name = _name(node, "tagged" if tagged else "")
    if name in met:
        return name
    met.add(name)
    if tagged:
        inner = [{"name": "value", "type": _schema(node, met)}]
        return {"type": "record", "name": name, "fields": inner, "logicalType": _OURS, "tag": node.name}
    fields = [{"name": field.name, "type": _schema(field.node, met)} for field in node.fields]
    return found | {"name": name, "fields": fields, "symbols": list(node.symbols), "size": node.size}


def _name(node: Node, prefix: str = "") -> str:
    return f"{prefix}_{id(node):x}"


def choose_branch(node: Node, value: Any) -> tuple[int, Any]:
    """Return the index of the branch that a value belongs to, and the value without its tag.

    Raises:
        ValueNotConvertible: No branch holds it; or several records do, and no tag says which.
    """
    if isinstance(value, tuple) and len(value) == 2 and not hasattr(value, "_fields"):
        for place, branch in enumerate(node.branches):
            if branch.name and value[0] == branch.name:
                return place, value[1]
    places = range(len(node.branches))
    plain_first = sorted(places, key=node.tagged.__contains__) if node.tagged else places
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


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueNotConvertible(
            f"{shown(text)} contains half of a surrogate pair, which UTF-8 cannot encode"
        ) from None


def misfit(node: Node, value: Any) -> ValueNotConvertible:
    """Return the error for a value that does not fit a type."""
    return ValueNotConvertible(f"found {shown(value)} where a {node.describe()} is declared")
