"""Spark's rows in binary (`UnsafeRow`), decoded by columns to Arrow arrays.

    row     ceil(n / 64) words of null bits, n words, then what does not fit a word, padded to 8 bytes
    array   i64 n, ceil(n / 64) words of null bits, n elements of their size, padded to 8 bytes, then what does not fit
    map     i64 size of the key array, key array, value array

Words are little-endian. A word of a string, of bytes, a long decimal, an interval of months, days and microseconds, a
row, an array or a map is `offset << 32 | size`, from the beginning of the row or array that contains it. A long decimal
is a big-endian integer. Source: `UnsafeRow`, `UnsafeArrayData` and `UnsafeMapData` of Spark 4.3.

numpy comes with the extra `spark`; `reader` imports this module where entries are decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import attrs
import numpy as np
import pyarrow as pa

from ..columns.bytes_at import numbers_at
from ..errors import CorruptFile, UnsupportedFormat
from .spark_types import SparkField, SparkType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Numbers = NDArray[Any]

LONG_DECIMAL = 18
_MOST_ELEMENTS = 1 << 31
SIZES = {"boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "date": 4, "float": 4}
MONTHS = frozenset({"interval year", "interval month", "interval year to month"})


@attrs.frozen(eq=False)
class Rows(Sequence[bytes]):
    """Rows at places in a buffer, which goes on for at least 8 bytes behind them.

    Attributes:
        data: The buffer.
        starts: Where each row begins.
        sizes: The bytes of each.
    """

    data: Numbers = attrs.field(repr=False)
    starts: Numbers
    sizes: Numbers

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: int | slice) -> bytes | Rows:
        if isinstance(index, slice):
            return Rows(self.data, self.starts[index], self.sizes[index])
        start = int(self.starts[index])
        return self.data[start : start + int(self.sizes[index])].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        data = self.data.tobytes()
        for start, size in zip(self.starts.tolist(), self.sizes.tolist(), strict=True):
            yield data[start : start + size]

    @classmethod
    def of(cls, rows: Sequence[bytes]) -> Rows:
        """Return rows in one buffer: these, or a copy."""
        if isinstance(rows, Rows):
            return rows
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        joined = b"".join(rows)
        data = np.frombuffer(joined + bytes(8 + -len(joined) % 8), np.uint8)
        return cls(data, np.cumsum(sizes) - sizes, sizes)


@attrs.frozen
class _Things:
    """Rows, arrays, strings: things in one buffer, of which some are null.

    Attributes:
        data: The buffer.
        starts: The position of each in the buffer.
        sizes: The bytes of each.
        valid: Whether each is not null; None: all are.
    """

    data: Numbers
    starts: Numbers
    sizes: Numbers
    valid: Numbers | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def words(self, at: Numbers) -> Numbers:
        """Return the 64-bit words at positions."""
        return numbers_at(self.data, at, "<i8")


def decode_rows(rows: Sequence[bytes], of: SparkType) -> pa.StructArray:
    """Decode rows of a struct.

    Raises:
        CorruptFile: A row is damaged.
        UnsupportedFormat: The struct has a type that this release does not read.
    """
    found = Rows.of(rows)
    return _struct(_Things(found.data, found.starts, found.sizes), of)


def arrow_type(of: SparkType) -> pa.DataType:
    """Return the type that decoded values have in Arrow."""
    row = decode_rows([b"\1" + bytes(15)], SparkType("struct", (SparkField("x", of),)))
    return row.field(0).type


def _struct(rows: _Things, of: SparkType) -> pa.StructArray:
    count = len(of.fields)
    bits = 8 * -(-count // 64)
    _require(rows, bits + 8 * count)
    columns = []
    for index, field in enumerate(of.fields):
        null = (rows.data[np.where(_valid(rows), rows.starts, 0) + index // 8] >> (index % 8)) & 1
        valid = _valid(rows) & (null == 0)
        at = np.where(_valid(rows), rows.starts + bits + 8 * index, 0)
        columns.append(_column(rows, at, valid, np.arange(len(rows)), field.type))
    fields = [pa.field(name, column.type) for name, column in zip(of.names, columns, strict=True)]
    return pa.Array.from_buffers(pa.struct(fields), len(rows), [bitmap_of(rows.valid)], children=columns)


def _valid(things: _Things) -> Numbers:
    return np.ones(len(things), bool) if things.valid is None else things.valid


def _require(things: _Things, least: int) -> None:
    """Refuse rows and arrays that are smaller than their fixed part."""
    small = things.sizes < least
    if things.valid is not None:
        small &= things.valid
    if small.any():
        size = int(things.sizes[small.argmax()])
        raise CorruptFile(f"a row of {size} bytes is too short for its schema, which needs at least {least}")


def _column(parents: _Things, at: Numbers, valid: Numbers, parent: Numbers, of: SparkType) -> pa.Array:
    """Return the values of a field, or of all elements of arrays.

    Args:
        parents: The rows or arrays that contain the values.
        at: The position of each value's word, or of the value itself where it is smaller than a word.
        valid: Whether each value is not null.
        parent: The number of each value's parent.
        of: The type of the values.
    """
    read = _FIXED.get(of.word)
    if read is not None:
        return read(parents, at, valid)
    if of.word == "decimal" and of.precision <= LONG_DECIMAL:
        return _short_decimals(parents.words(at), valid, of)
    if of.word in MONTHS:
        return _intervals(numbers_at(parents.data, at, "<i4"), valid)
    if of.word.startswith("interval "):
        return _primitive(pa.duration("us"), parents.words(at), valid)
    if of.word == "void":
        return pa.nulls(len(at))
    further = _FURTHER.get(of.word)
    if further is None:
        raise UnsupportedFormat(
            f"values of the type {of.describe()} are not read by this release", advice="leave out the state"
        )
    return further(_located(parents, parents.words(at), valid, parent), of)


def _located(parents: _Things, words: Numbers, valid: Numbers, parent: Numbers) -> _Things:
    """Return the things that words point at, after a check that they are within their parents."""
    words = np.where(valid, words, 0)
    offsets, sizes = words >> 32, words & 0xFFFFFFFF
    outside = (offsets < 0) | (offsets + sizes > parents.sizes[parent])
    if (outside & valid).any():
        raise CorruptFile("a row is damaged: a value lies outside of it", advice="take another copy of the checkpoint")
    return _Things(parents.data, np.where(valid, parents.starts[parent] + offsets, 0), sizes, valid)


def bitmap_of(valid: Numbers | None) -> pa.Buffer | None:
    """Return the validity bitmap of an Arrow array; None: nothing is null."""
    if valid is None or valid.all():
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def _primitive(kind: pa.DataType, numbers: Numbers, valid: Numbers) -> pa.Array:
    """Return an array of numbers; what has 16 bytes is a row of them."""
    return pa.Array.from_buffers(kind, len(valid), [bitmap_of(valid), pa.py_buffer(np.ascontiguousarray(numbers))])


def _fixed(kind: pa.DataType, number: type[np.generic]) -> Callable[[_Things, Numbers, Numbers], pa.Array]:
    def read(parents: _Things, at: Numbers, valid: Numbers) -> pa.Array:
        numbers = numbers_at(parents.data, at, np.dtype(number).str)
        return _primitive(kind, numbers, valid)

    return read


def _booleans(parents: _Things, at: Numbers, valid: Numbers) -> pa.Array:
    bits = np.packbits(parents.data[at] != 0, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(at), [bitmap_of(valid), pa.py_buffer(bits)])


def _short_decimals(words: Numbers, valid: Numbers, of: SparkType) -> pa.Array:
    wide = np.stack([words, words >> 63], axis=1)
    return _primitive(pa.decimal128(of.precision, of.scale), wide, valid)


def _intervals(months: Numbers, valid: Numbers) -> pa.Array:
    parts = np.zeros((len(months), 4), np.int32)
    parts[:, 0] = months
    return _primitive(pa.month_day_nano_interval(), parts, valid)


def _long_decimals(found: _Things, of: SparkType) -> pa.Array:
    valid = _valid(found)
    if (found.sizes[valid] > 16).any() or (found.sizes[valid] == 0).any():
        raise CorruptFile("a row is damaged: a decimal does not have 1 to 16 bytes")
    # sign-extended to 16 bytes, from the last byte of each
    places = found.starts[:, None] + found.sizes[:, None] - 1 - np.arange(16)
    inside = np.arange(16) < found.sizes[:, None]
    raw = np.where(inside, found.data[np.where(inside, places, 0)], 0)
    negative = (found.data[found.starts] >= 0x80) & valid
    wide = np.where(inside, raw, np.where(negative, 0xFF, 0)[:, None]).astype(np.uint8)
    return _primitive(pa.decimal128(of.precision, of.scale), wide, valid)


def _calendar_intervals(found: _Things, _: SparkType) -> pa.Array:
    valid = _valid(found)
    if (found.sizes[valid] != 16).any():
        raise CorruptFile("a row is damaged: an interval does not have 16 bytes")
    parts = np.stack([found.words(found.starts), found.words(found.starts + 8) * 1000], axis=1)
    return _primitive(pa.month_day_nano_interval(), parts, valid)


def _bytes_of(kind: pa.DataType) -> Callable[[_Things, SparkType], pa.Array]:
    def read(found: _Things, _: SparkType) -> pa.Array:
        sizes = np.where(_valid(found), found.sizes, 0)
        offsets = np.zeros(len(found) + 1, np.int32)
        np.cumsum(sizes, out=offsets[1:])
        gathered = found.data[each(found.starts, sizes)]
        buffers = [bitmap_of(found.valid), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(gathered))]
        return pa.Array.from_buffers(kind, len(found), buffers)

    return read


def each(starts: Numbers, counts: Numbers, step: int = 1) -> Numbers:
    """Return start, start + step, … of each, as many as its count."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    found: Numbers = step * np.arange(total) + np.repeat(starts - step * (ends - counts), counts)
    return found


def _elements(arrays: _Things, of: SparkType) -> tuple[Numbers, pa.Array]:
    """Return the number of elements of each array, and all elements."""
    valid = _valid(arrays)
    _require(arrays, 8)
    counts = np.where(valid, arrays.words(np.where(valid, arrays.starts, 0)), 0)
    size = SIZES.get(of.word, 4 if of.word in MONTHS else 8)
    heads = 8 + 8 * ((counts + 63) >> 6)
    damaged = (counts < 0) | (counts >= _MOST_ELEMENTS)
    if (damaged & valid).any() or ((heads + size * counts > arrays.sizes) & valid).any():
        raise CorruptFile("a row is damaged: an array has more elements than bytes")
    parent = np.repeat(np.arange(len(arrays)), counts)
    within = each(np.zeros(len(arrays), np.int64), counts)
    bits = arrays.data[arrays.starts[parent] + 8 + (within >> 3)] >> (within & 7).astype(np.uint8)
    at = arrays.starts[parent] + heads[parent] + size * within
    return counts, _column(arrays, at, (bits & 1) == 0, parent, of)


def _offsets(counts: Numbers) -> pa.Buffer:
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.py_buffer(offsets)


def _arrays(found: _Things, of: SparkType) -> pa.Array:
    counts, elements = _elements(found, of.fields[0].type)
    kind = pa.list_(pa.field("element", elements.type))
    return pa.Array.from_buffers(kind, len(found), [bitmap_of(found.valid), _offsets(counts)], children=[elements])


def _maps(found: _Things, of: SparkType) -> pa.Array:
    valid = _valid(found)
    _require(found, 8)
    key_sizes = np.where(valid, found.words(np.where(valid, found.starts, 0)), 0)
    if ((key_sizes < 8) & valid).any() or ((8 + key_sizes > found.sizes) & valid).any():
        raise CorruptFile("a row is damaged: the keys of a map lie outside of it")
    keys = _Things(found.data, found.starts + 8, key_sizes, valid)
    values = _Things(found.data, found.starts + 8 + key_sizes, found.sizes - 8 - key_sizes, valid)
    key_counts, key_column = _elements(keys, of.fields[0].type)
    counts, value_column = _elements(values, of.fields[1].type)
    if (key_counts != counts).any():
        raise CorruptFile("a row is damaged: a map does not have as many keys as values")
    kind = pa.map_(key_column.type, value_column.type)
    fields = [kind.key_field, kind.item_field]
    pairs = pa.Array.from_buffers(pa.struct(fields), len(key_column), [None], children=[key_column, value_column])
    return pa.Array.from_buffers(kind, len(found), [bitmap_of(found.valid), _offsets(counts)], children=[pairs])


_FIXED = {
    "boolean": _booleans,
    "tinyint": _fixed(pa.int8(), np.int8),
    "smallint": _fixed(pa.int16(), np.int16),
    "int": _fixed(pa.int32(), np.int32),
    "bigint": _fixed(pa.int64(), np.int64),
    "float": _fixed(pa.float32(), np.float32),
    "double": _fixed(pa.float64(), np.float64),
    "date": _fixed(pa.date32(), np.int32),
    "timestamp": _fixed(pa.timestamp("us", "UTC"), np.int64),
    "timestamp_ntz": _fixed(pa.timestamp("us"), np.int64),
    "time": _fixed(pa.time64("ns"), np.int64),
}
_text = _bytes_of(pa.utf8())
_FURTHER: dict[str, Callable[[_Things, SparkType], pa.Array]] = {
    "string": _text,
    "char": _text,
    "varchar": _text,
    "binary": _bytes_of(pa.binary()),
    "decimal": _long_decimals,
    "interval": _calendar_intervals,
    "array": _arrays,
    "map": _maps,
    "struct": _struct,
}
