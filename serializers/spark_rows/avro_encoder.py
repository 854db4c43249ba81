"""Arrow arrays encoded by columns as rows in avro, the inverse of `avro_rows`: state of transformWithState.

Each column becomes the bytes of its values, and a row is its columns one after another. A field that may be null has
the number of its branch in front, as `avro_rows` has it; a list or a map is one block.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import IncompatibleState
from ..primitives.numeric import split_decimal
from .avro_rows import record_of
from .row_encoder import offsets_of
from .rows import MONTHS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..avro.schema import Node
    from .spark_types import SparkType

_NULL, _VALUE = b"\0", b"\2"
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_VIEWS = {
    "date": pa.int32(),
    "timestamp": pa.int64(),
    "timestamp_ntz": pa.int64(),
}


def encode_avro(rows: pa.StructArray, of: SparkType) -> list[bytes]:
    """Encode rows of a struct, none of which is null.

    Raises:
        IncompatibleState: A value is null where avro has no null.
        UnsupportedFormat: The struct has a type that Spark does not encode in avro.
    """
    return _records(rows, of, record_of(of))


def _records(column: pa.StructArray, of: SparkType, node: Node) -> list[bytes]:
    if not of.fields:
        return [b""] * len(column)
    fields = zip(column.flatten(), of.fields, node.fields, strict=True)
    parts = [_values(one, field.type, inner.node) for one, field, inner in fields]
    return list(map(b"".join, zip(*parts, strict=True)))


def _values(column: pa.Array, of: SparkType, node: Node) -> list[bytes]:
    """Return the bytes of each value, with those of its union where it has one."""
    if node.type == "null":
        return [b""] * len(column)
    if node.type != "union":
        if column.null_count:
            raise IncompatibleState(
                f"an element of {of.describe()} is null, and Spark's avro has no null there",
                advice="migrate under the encoding of rows that the old query has",
            )
        return _plain(column, of, node)
    _, inner = node.branches
    if not column.null_count:
        return [_VALUE + one for one in _plain(column, of, inner)]
    found = iter(_plain(column.drop_null(), of, inner))
    return [_VALUE + next(found) if is_there else _NULL for is_there in column.is_valid().to_pylist()]


def _plain(column: pa.Array, of: SparkType, node: Node) -> list[bytes]:
    """Return the bytes of values of which none is null."""
    if of.word == "struct":
        return _records(column, of, node)
    if of.word in {"array", "map"}:
        return _nested(column, of, node)
    if of.word == "decimal":
        parts = map(split_decimal, column.to_pylist())  # `Decimal.scaleb` rounds to 28 digits
        numbers = (unscaled * 10 ** (of.scale - scale) for unscaled, scale in parts)
        return [one.to_bytes(node.size, "big", signed=True) for one in numbers]
    if of.word in MONTHS:
        return [_number(one[0]) for one in column.to_pylist()]
    if of.word.startswith("interval "):
        return list(map(_number, column.view(pa.int64()).to_pylist()))
    encode = _SCALARS[node.type]
    kind = pa.binary() if of.word == "string" else _VIEWS.get(of.word)
    return [encode(one) for one in (column if kind is None else column.view(kind)).to_pylist()]


def _nested(column: pa.Array, of: SparkType, node: Node) -> list[bytes]:
    offsets = offsets_of(column)
    inner = column.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    if of.word == "array":
        items = _values(inner, of.fields[0].type, node.inner)
    else:
        keys, values = inner.flatten()
        found = _values(values, of.fields[1].type, node.inner)
        items = [_chunk(key) + one for key, one in zip(keys.view(pa.binary()).to_pylist(), found, strict=True)]
    ends: Sequence[int] = (offsets - offsets[0]).tolist()
    return [_block(items[start:end]) for start, end in pairwise(ends)]


def _block(items: list[bytes]) -> bytes:
    return b"".join((_number(len(items)), *items, _NULL)) if items else _NULL


def _number(value: int) -> bytes:
    rest = value << 1 if value >= 0 else ~value << 1 | 1
    if rest < 0x80:
        return bytes((rest,))
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def _chunk(data: bytes) -> bytes:
    return _number(len(data)) + data


_SCALARS: dict[str, Callable[[Any], bytes]] = {
    "boolean": lambda value: b"\1" if value else b"\0",
    "int": _number,
    "long": _number,
    "float": _FLOAT.pack,
    "double": _DOUBLE.pack,
    "string": _chunk,
    "bytes": _chunk,
}
