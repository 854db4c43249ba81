"""Numbers and byte strings gathered from many positions of a block at once.

Every position must be within the bytes; `PADDING` after them allows a gather to read past their end. Source:
performance notes, "Columnar transcoding in numpy".

Machine code (`Flat`) decodes adjacent numbers, booleans and strings in one pass over the rows.
The machine code itself is above the model, and handed in with the places of the values (`Cells.decode_flat`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Places = np.ndarray[Any, np.dtype[np.int64]]
"""One position in the bytes for each row."""
Flags = np.ndarray[Any, np.dtype[np.bool_]]
"""One boolean for each row."""

PADDING = 64
MOST_BYTES = 1 << 30
"""The limit for bytes in one array, because Arrow has 32-bit offsets of strings."""
_VARINT_BYTES, _VARINT_BITS = 5, 7


def padded(*pieces: bytes | memoryview) -> tuple[bytes, Bytes]:
    """Return the joined bytes with `PADDING` after them, and a numpy view of them."""
    raw = b"".join([*pieces, bytes(PADDING)])
    return raw, np.frombuffer(raw, np.uint8)


def none(count: int) -> Flags:
    """Return flags for `count` rows, all False."""
    return np.zeros(count, dtype=bool)


def numbers_at(data: Bytes, starts: Places, form: str) -> np.ndarray[Any, Any]:
    """Return the number at each position, stored in the numpy format `form`, such as `>i4`, in native byte order."""
    dtype = np.dtype(form)
    if dtype.itemsize == 1:
        return data[starts].view(dtype)
    found: np.ndarray[Any, Any] = matrix_at(data, starts, dtype.itemsize).view(dtype)
    return found.astype(dtype.newbyteorder("="))


def matrix_at(data: Bytes, starts: Places, size: int) -> Any:
    """Return `size` bytes from each position, as an array of items of raw bytes."""
    # A view of overlapping items: indexing gathers them at any alignment, many times faster than byte by byte.
    view: Any = np.ndarray((len(data) - size + 1,), f"V{size}", buffer=data, strides=(1,))
    return view[starts]


def byte_strings(data: Bytes, starts: Places, ends: Places) -> pa.Array:
    """Return the bytes between `starts` and `ends` as a binary Arrow array. The ranges ascend and do not overlap."""
    count = len(starts)
    edges = np.empty(2 * count + 2, dtype=np.int32)
    edges[0:-2:2], edges[1:-1:2] = starts, ends
    edges[-2:] = ends[-1] if count else 0
    # Every second string of this array is the gap between two values; `take` copies the others row by row in C++.
    both = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(edges[:-1]), pa.py_buffer(data)])
    return both.take(pa.array(np.arange(count, dtype=np.int32) * 2))


def is_ascii(data: pa.Buffer | None) -> bool:
    """Whether no byte has its top bit set."""
    if data is None:
        return True
    words = len(data) // 8
    tops = np.frombuffer(data, np.uint64, words) & np.uint64(0x8080808080808080)
    return not tops.any() and bytes(data[8 * words :]).isascii()


def varints_at(data: Bytes, starts: Places) -> tuple[Places, Places]:
    """Return the variable-length number at each position, and its number of bytes; 0 bytes where it does not end."""
    first = data[starts]
    if not len(first) or first.max() < 0x80:
        return first.astype(np.int64), np.ones(len(starts), dtype=np.int64)
    values = np.zeros(len(starts), dtype=np.int64)
    sizes = np.zeros(len(starts), dtype=np.int64)
    for index in range(_VARINT_BYTES):
        byte = data[starts + index].astype(np.int64)
        running = sizes == 0
        values[running] |= (byte[running] & 0x7F) << _VARINT_BITS * index
        sizes[running & (byte < 0x80)] = index + 1
    return values, sizes


def spread(values: pa.Array, present: Flags) -> pa.Array:
    """Return an array with the values in the rows that are present; the other rows are null."""
    places = np.cumsum(present) - 1
    return values.take(pa.array(places, mask=~present))


def bitmap(valid: Flags) -> pa.Buffer | None:
    """Return Arrow's validity bitmap of rows; None where all are valid."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def number_array(kind: pa.DataType, values: np.ndarray[Any, Any], valid: Flags | None = None) -> pa.Array:
    """Return an Arrow array of numbers, without a copy."""
    buffers = [None if valid is None else bitmap(valid), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(kind, len(values), buffers)


if TYPE_CHECKING:
    DecodeFlat = Callable[[Bytes, Places, Places, Flags, list[int], list[bool]], "Flat"]
    """Decodes numbers, booleans and strings by machine code.

    Its arguments are the padded bytes, the position of the first part in each row, the position that each row must not
    go past, whether each row has a value (the others take no bytes, and all their parts are null), for each part the
    number of bytes of a number or `TEXT`, and for each part whether it has a null flag before it.
    """

TEXT = 0
"""The size of a part that is a string."""


@attrs.frozen
class Flat:
    """Parts of many rows as machine code decodes them; the first three lists have one item for each part.

    Attributes:
        numbers: For a number its big-endian bytes in each row, 0 where it is null; empty for a string.
        texts: For a string the offsets of the rows, with the end of the last row, and the bytes of all rows.
        present: Whether each row has a value.
        ends: The position after the last part of each row.
        odd: Whether each row is odd: it could not be decoded.
    """

    numbers: list[Bytes]
    texts: list[tuple[np.ndarray[Any, Any], Bytes]]
    present: list[Flags]
    ends: Places
    odd: Flags
