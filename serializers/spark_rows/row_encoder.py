"""Arrow arrays encoded as Spark's rows (`UnsafeRow`) by columns: the inverse of `rows`, byte for byte as Spark writes.

`rows` has the layout. What it leaves open is told here, since keys must equal those of Spark in every byte: a null is a
word of zeros; a number that is smaller than a word is followed by zeros, whatever its sign; a long decimal and a
calendar interval take 16 bytes of a row even if they are null; an element of an array takes only what it needs.

Rows are written to their places in one buffer, so that what stands between them (sizes, checksums) costs no copy.
Source: `UnsafeRowWriter` and `UnsafeArrayWriter` of Spark 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from ..errors import UnsupportedFormat
from .rows import LONG_DECIMAL, MONTHS, SIZES, each

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from .spark_types import SparkType

    Numbers = NDArray[Any]

_LARGE_BYTES = 512  # from here on a copy of each value is faster than an index of each byte
_NULLABLE_ROOM = 16
_HEAD_ROOM = 4  # rows begin at multiples of 4


@attrs.frozen
class Encoded:
    """Rows that are measured, and can be written.

    Attributes:
        sizes: The bytes of each row, a multiple of 8.
        write: Writes row i at the position `starts[i]`, a multiple of 4, of a buffer of zeros.
        rows: The rows, if they are there as bytes.
    """

    sizes: Numbers
    write: Callable[[Numbers, Numbers], None] = attrs.field(repr=False)
    rows: Sequence[bytes] | None = attrs.field(default=None, repr=False)


def encode_rows(column: pa.StructArray, of: SparkType) -> Encoded:
    """Prepare rows of a struct for writing; none of them may be null.

    Raises:
        UnsupportedFormat: The struct has a type that this release does not write.
    """
    part = _struct(column, of, in_array=False)
    return Encoded(part.rooms, part.write)


def rows_of(encoded: Encoded, *, zeros: int = 0, order: Numbers | None = None) -> Sequence[bytes]:
    """Return rows as bytes.

    Args:
        encoded: The rows.
        zeros: How many bytes that are 0 are in front of each, at most 4.
        order: The order of the rows that are returned; None: as they are.
    """
    if encoded.rows is not None and not zeros and order is None:
        return encoded.rows
    sizes = encoded.sizes if order is None else encoded.sizes[order]
    ends = np.cumsum(sizes + (_HEAD_ROOM if zeros else 0))
    begins = ends - sizes
    if order is None:
        starts = begins
    else:
        starts = np.empty_like(begins)
        starts[order] = begins
    buffer = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    encoded.write(buffer, starts)
    data = buffer.tobytes()
    return [data[start:end] for start, end in zip((begins - zeros).tolist(), ends.tolist(), strict=True)]


@attrs.frozen
class _Part:
    """Values that a word of their parent points at.

    Attributes:
        sizes: The size of each in the word; 0 for a null.
        rooms: The bytes that each takes.
        write: Writes each value that is not null at a position in a buffer.
    """

    sizes: Numbers
    rooms: Numbers
    write: Callable[[Numbers, Numbers], None]


# pyarrow may have been imported where numpy was hidden from it, so the two exchange buffers and no arrays.


def validity_of(column: pa.Array) -> Numbers:
    """Return whether each value is not null."""
    buffer = column.buffers()[0]
    return np.ones(len(column), bool) if buffer is None else _bits(buffer, column)


def _bits(buffer: pa.Buffer, column: pa.Array) -> Numbers:
    bits = np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little")
    return bits[column.offset :][: len(column)].astype(bool)


def longs_of(numbers: Numbers) -> pa.Array:
    """Return numbers as an Arrow array."""
    data = pa.py_buffer(np.ascontiguousarray(numbers, np.int64))
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, data])


def _kept(column: pa.Array, valid: Numbers) -> pa.Array:
    """Return the values that are not null."""
    if valid.all():
        return column
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return column.filter(pa.Array.from_buffers(pa.bool_(), len(valid), [None, bits]))


def _struct(column: pa.StructArray, of: SparkType, *, in_array: bool) -> _Part:  # noqa: ARG001 - as all parts
    valid = validity_of(column)
    whole = _kept(column, valid)
    count = len(of.fields)
    bits = 8 * -(-count // 64)
    children = [_child(whole.field(index), field.type) for index, field in enumerate(of.fields)]
    inner = np.full(len(whole), bits + 8 * count, np.int64)
    for child in children:
        if isinstance(child.values, _Part):
            inner += child.values.rooms

    def write(buffer: Numbers, starts: Numbers) -> None:
        begin = starts if len(whole) == len(valid) else starts[valid]
        quads = buffer.view(np.uint32)
        nulls = np.zeros(len(whole), np.uint32)
        after = begin + bits + 8 * count
        for index, child in enumerate(children):
            at = begin + bits + 8 * index
            if isinstance(child.values, _Part):
                _write_words(quads, at, after - begin, child.values, child.valid)
                child.values.write(buffer, after)
                after = after + child.values.rooms
            else:
                _write_numbers(quads, at, child.values)
            nulls |= (~child.valid).astype(np.uint32) << (index % 32)
            if index % 32 == 31 or index == count - 1:
                quads[(begin >> 2) + index // 32] = nulls
                nulls = np.zeros(len(whole), np.uint32)

    sizes = np.zeros(len(valid), np.int64)
    sizes[valid] = inner
    return _Part(sizes, sizes, write)


@attrs.frozen
class _Child:
    """The values of a field of a struct: numbers, or parts that words point at."""

    valid: Numbers
    values: Numbers | _Part


def _child(column: pa.Array, of: SparkType) -> _Child:
    valid = np.zeros(len(column), bool) if of.word == "void" else validity_of(column)
    numbers = numbers_of(column, of, valid)
    return _Child(valid, _part(column, of, in_array=False) if numbers is None else numbers)


def _part(column: pa.Array, of: SparkType, *, in_array: bool) -> _Part:
    further = _FURTHER.get(of.word)
    if further is None:
        raise UnsupportedFormat(
            f"values of the type {of.describe()} are not written by this release", advice="keep the type as it is"
        )
    return further(column, of, in_array=in_array)


def _write_words(quads: Numbers, at: Numbers, offsets: Numbers, part: _Part, valid: Numbers) -> None:
    """Write the words that point at parts; where nothing is kept for a null, its word stays 0."""
    has_place = valid | (part.rooms > 0)
    quads[at >> 2] = np.where(valid, part.sizes, 0)
    quads[(at >> 2) + 1] = np.where(has_place, offsets, 0)


def _write_numbers(quads: Numbers, at: Numbers, numbers: Numbers) -> None:
    """Write numbers as words: what is smaller is followed by zeros."""
    if numbers.itemsize == 8:
        pairs = numbers.view(np.uint32).reshape(-1, 2)
        quads[at >> 2], quads[(at >> 2) + 1] = pairs[:, 0], pairs[:, 1]
    else:
        quads[at >> 2] = numbers


def numbers_of(column: pa.Array, of: SparkType, valid: Numbers) -> Numbers | None:
    """Return the values of a type that fits a word, 0 where they are null; None for other types."""
    if of.word == "decimal" and of.precision <= LONG_DECIMAL:
        found = _raw(column, np.int64, 2)[:, 0]
    elif of.word in MONTHS:
        found = _raw(column, np.int32, 4)[:, 0]
    elif of.word.startswith("interval "):
        found = _raw(column, np.int64)
    elif of.word == "boolean":
        found = _bits(column.buffers()[1], column) if len(column) else np.zeros(0, bool)
    elif of.word == "void":
        return np.zeros(len(column), np.uint64)
    elif (kind := _FIXED.get(of.word)) is not None:
        found = _raw(column, kind)
    else:
        return None
    unsigned = np.dtype(f"u{found.itemsize}")
    return np.where(valid, np.ascontiguousarray(found).view(unsigned), unsigned.type(0))


def _raw(column: pa.Array, kind: type[np.generic], each_has: int = 1) -> Numbers:
    """Return the numbers in an array's buffer; with several for each value, as rows of them."""
    buffer = column.buffers()[1]
    if buffer is None:
        numbers = np.zeros(len(column) * each_has, kind)
    else:
        numbers = np.frombuffer(buffer, kind)[column.offset * each_has :][: len(column) * each_has]
    return numbers if each_has == 1 else numbers.reshape(-1, each_has)


def _padded(sizes: Numbers) -> Numbers:
    rooms: Numbers = (sizes + 7) & ~7
    return rooms


def _bytes(column: pa.Array, _: SparkType, *, in_array: bool) -> _Part:  # noqa: ARG001 - as all parts
    valid = validity_of(column)
    offsets = offsets_of(column)
    data = np.frombuffer(column.buffers()[2] or b"", np.uint8)
    sizes = np.where(valid, np.diff(offsets), 0)

    def write(buffer: Numbers, starts: Numbers) -> None:
        copy(data, offsets[:-1], buffer, starts, sizes)

    return _Part(sizes, _padded(sizes), write)


def offsets_of(column: pa.Array) -> Numbers:
    """Return where each value of an array of bytes or lists begins, and the end of the last one."""
    buffer = column.buffers()[1]
    if not len(column) or buffer is None:
        return np.zeros(1, np.int64)
    return np.frombuffer(buffer, np.int32)[column.offset :][: len(column) + 1].astype(np.int64)


def copy(data: Numbers, begins: Numbers, buffer: Numbers, starts: Numbers, sizes: Numbers) -> None:
    """Copy bytes from places in one buffer to places in another."""
    if int(sizes.sum()) > _LARGE_BYTES * max(len(sizes), 1):
        for begin, start, size in zip(begins.tolist(), starts.tolist(), sizes.tolist(), strict=True):
            buffer[start : start + size] = data[begin : begin + size]
        return
    buffer[each(starts, sizes)] = data[each(begins, sizes)]


def long_decimal_bytes(column: pa.Array) -> tuple[Numbers, Numbers, Numbers]:
    """Return the big-endian bytes of decimals, without those that only repeat the sign: buffer, starts, sizes."""
    big = np.ascontiguousarray(_raw(column, np.uint8, 16)[:, ::-1])
    sign = np.where(big[:, 0] >= 0x80, 0xFF, 0).astype(np.uint8)
    differs = big[:, :-1] != sign[:, None]
    first = np.where(differs.any(axis=1), differs.argmax(axis=1), 15)
    needs_sign = (big[np.arange(len(big)), first] ^ sign) >= 0x80
    first = first - (needs_sign & (first > 0))
    return big.reshape(-1), 16 * np.arange(len(big)) + first, 16 - first


def _long_decimals(column: pa.Array, _: SparkType, *, in_array: bool) -> _Part:
    data, begins, sizes = long_decimal_bytes(column)
    sizes = np.where(validity_of(column), sizes, 0)
    rooms = _padded(sizes) if in_array else np.full(len(column), _NULLABLE_ROOM, np.int64)

    def write(buffer: Numbers, starts: Numbers) -> None:
        buffer[each(starts, sizes)] = data[each(begins, sizes)]

    return _Part(sizes, rooms, write)


def _calendar_intervals(column: pa.Array, _: SparkType, *, in_array: bool) -> _Part:
    valid = validity_of(column)
    words = np.array(_raw(column, np.int64, 2))
    words[:, 1] //= 1000
    sizes = np.where(valid, 16, 0)
    rooms = sizes if in_array else np.full(len(column), _NULLABLE_ROOM, np.int64)

    def write(buffer: Numbers, starts: Numbers) -> None:
        quads, kept = buffer.view(np.uint32), words[valid].view(np.uint32).reshape(-1, 4)
        for index in range(4):
            quads[(starts[valid] >> 2) + index] = kept[:, index]

    return _Part(sizes, rooms, write)


@attrs.frozen
class _Elements:
    """The elements of arrays of which none is null.

    Attributes:
        counts: The number of elements of each array.
        valid: Whether each element is not null.
        values: The elements.
        size: The bytes of an element, or of its word.
    """

    counts: Numbers
    valid: Numbers
    values: Numbers | _Part
    size: int

    @classmethod
    def of_arrays(cls, counts: Numbers, column: pa.Array, of: SparkType) -> _Elements:
        """Prepare elements that follow one another."""
        valid = np.zeros(len(column), bool) if of.word == "void" else validity_of(column)
        numbers = numbers_of(column, of, valid)
        values = _part(column, of, in_array=True) if numbers is None else numbers
        return cls(counts, valid, values, SIZES.get(of.word, 4 if of.word in MONTHS else 8))

    @property
    def _heads(self) -> Numbers:
        """The bytes before the first element of each array."""
        heads: Numbers = 8 + 8 * ((self.counts + 63) >> 6)
        return heads

    @property
    def _fixed(self) -> Numbers:
        """The bytes of each array, without those of parts."""
        return self._heads + _padded(self.size * self.counts)

    def sizes(self) -> Numbers:
        """Return the bytes of each array."""
        if not isinstance(self.values, _Part):
            return self._fixed
        before, ends = _before(self.values.rooms), np.cumsum(self.counts)
        sizes: Numbers = self._fixed + before[ends] - before[ends - self.counts]
        return sizes

    def write(self, buffer: Numbers, starts: Numbers) -> None:
        """Write arrays at positions."""
        quads = buffer.view(np.uint32)
        quads[starts >> 2] = self.counts
        at = each(starts + self._heads, self.counts, self.size)
        if isinstance(self.values, _Part):
            before = _before(self.values.rooms)
            first = before[np.cumsum(self.counts) - self.counts]
            places = before[:-1] + np.repeat(starts + self._fixed - first, self.counts)
            _write_words(quads, at, places - np.repeat(starts, self.counts), self.values, self.valid)
            self.values.write(buffer, places)
        elif self.size == 8:
            _write_numbers(quads, at, self.values)
        else:
            buffer.view(f"u{self.size}")[at // self.size] = self.values
        self._write_nulls(buffer, starts)

    def _write_nulls(self, buffer: Numbers, starts: Numbers) -> None:
        null = ~self.valid
        if not null.any():
            return
        within = each(np.zeros(len(self.counts), np.int64), self.counts)[null]
        at = np.repeat(starts, self.counts)[null] + 8 + (within >> 3)
        bits = (1 << (within & 7)).astype(np.uint8)
        begins = np.flatnonzero(np.diff(at, prepend=-1))  # bits of one byte follow one another
        buffer[at[begins]] = np.bitwise_or.reduceat(bits, begins)


def _before(rooms: Numbers) -> Numbers:
    """Return how many bytes lie before each, and before the end."""
    before = np.zeros(len(rooms) + 1, np.int64)
    np.cumsum(rooms, out=before[1:])
    return before


def _of_valid(column: pa.Array, valid: Numbers) -> tuple[Numbers, pa.Array]:
    """Return the number of elements of each array or map that is not null, and these elements."""
    kept = _kept(column, valid)
    offsets = offsets_of(kept)
    return np.diff(offsets), kept.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _arrays(column: pa.Array, of: SparkType, *, in_array: bool) -> _Part:  # noqa: ARG001 - as all parts
    valid = validity_of(column)
    counts, inner = _of_valid(column, valid)
    elements = _Elements.of_arrays(counts, inner, of.fields[0].type)
    sizes = np.zeros(len(valid), np.int64)
    sizes[valid] = elements.sizes()

    def write(buffer: Numbers, starts: Numbers) -> None:
        elements.write(buffer, starts[valid])

    return _Part(sizes, sizes, write)


def _maps(column: pa.Array, of: SparkType, *, in_array: bool) -> _Part:  # noqa: ARG001 - as all parts
    valid = validity_of(column)
    counts, pairs = _of_valid(column, valid)
    keys, values = (
        _Elements.of_arrays(counts, pairs.field(index), field.type) for index, field in enumerate(of.fields)
    )
    key_sizes = keys.sizes()
    sizes = np.zeros(len(valid), np.int64)
    sizes[valid] = 8 + key_sizes + values.sizes()

    def write(buffer: Numbers, starts: Numbers) -> None:
        begin = starts[valid]
        buffer.view(np.uint32)[begin >> 2] = key_sizes
        keys.write(buffer, begin + 8)
        values.write(buffer, begin + 8 + key_sizes)

    return _Part(sizes, sizes, write)


_FIXED: dict[str, type[np.generic]] = {
    "tinyint": np.int8,
    "smallint": np.int16,
    "int": np.int32,
    "bigint": np.int64,
    "float": np.float32,
    "double": np.float64,
    "date": np.int32,
    "timestamp": np.int64,
    "timestamp_ntz": np.int64,
    "time": np.int64,
}
_FURTHER: dict[str, Callable[..., _Part]] = {
    "string": _bytes,
    "char": _bytes,
    "varchar": _bytes,
    "binary": _bytes,
    "decimal": _long_decimals,
    "interval": _calendar_intervals,
    "array": _arrays,
    "map": _maps,
    "struct": _struct,
}
