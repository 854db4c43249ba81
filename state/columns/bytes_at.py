"""Numbers and byte strings gathered from many places of a block at once.

Every place must be one within the bytes; `PADDING` behind them lets a gather run over their end. Source: performance
notes, "Columnar transcoding in numpy".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Places = np.ndarray[Any, np.dtype[np.int64]]
"""One place in the bytes for each row."""
Flags = np.ndarray[Any, np.dtype[np.bool_]]
"""One truth value a row."""

PADDING = 64
MOST_BYTES = 1 << 30
"""Arrow counts the bytes of strings in 32 bits."""
_VARINT_BYTES, _VARINT_BITS = 5, 7


def padded(*pieces: bytes | memoryview) -> tuple[bytes, Bytes]:
    """Join bytes, with room behind them; give them, and the same for numpy."""
    raw = b"".join([*pieces, bytes(PADDING)])
    return raw, np.frombuffer(raw, np.uint8)


def none(count: int) -> Flags:
    """No row of so many."""
    return np.zeros(count, dtype=bool)


def numbers_at(data: Bytes, starts: Places, form: str) -> np.ndarray[Any, Any]:
    """Give the number at each place in the numpy format `form`, such as `>i4`, in the order of bytes of the machine."""
    dtype = np.dtype(form)
    if dtype.itemsize == 1:
        return data[starts].view(dtype)
    found: np.ndarray[Any, Any] = matrix_at(data, starts, dtype.itemsize).view(dtype)
    return found.astype(dtype.newbyteorder("="))


def matrix_at(data: Bytes, starts: Places, size: int) -> Any:
    """Give `size` bytes from each place: an array of items of raw bytes."""
    # Items that overlap: indexing gathers them from any alignment, many times faster than byte by byte.
    view: Any = np.ndarray((len(data) - size + 1,), f"V{size}", buffer=data, strides=(1,))
    return view[starts]


def byte_strings(data: Bytes, starts: Places, ends: Places) -> pa.Array:
    """Give the bytes between places as an Arrow array of binary. Both ascend, and no two of them overlap."""
    count = len(starts)
    edges = np.empty(2 * count + 2, dtype=np.int32)
    edges[0:-2:2], edges[1:-1:2] = starts, ends
    edges[-2:] = ends[-1] if count else 0
    # Every second string of this array is the gap between two values; what is taken is copied row by row in C++.
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
    """Give the variable-length number at each place, and how many bytes it has; 0 bytes where it does not end."""
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
    """Lay values out over the rows that have one; the others are null."""
    places = np.cumsum(present) - 1
    return values.take(pa.array(places, mask=~present))


def bitmap(valid: Flags) -> pa.Buffer | None:
    """Give the validity of rows as Arrow has it; None where all are valid."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def number_array(kind: pa.DataType, values: np.ndarray[Any, Any], valid: Flags | None = None) -> pa.Array:
    """Make an array of numbers, without a copy."""
    buffers = [None if valid is None else bitmap(valid), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(kind, len(values), buffers)
