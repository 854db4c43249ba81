"""The bytes of many values, as pieces that are joined row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .codec import ColumnCodec

    Singly = Callable[[ColumnCodec, pa.Array], "EncodedColumn"]
    """Encodes a column value by value, with the serializer of the codec."""

Flags = np.ndarray[Any, np.dtype[np.bool_]]
"""One boolean per row."""

Matrix = np.ndarray[Any, np.dtype[np.uint8]]
"""One row of bytes for each value, all of one length."""

_NOTHING = pa.scalar(b"", pa.large_binary())


@attrs.frozen
class EncodedColumn:
    """The bytes of the values of a column.

    Attributes:
        pieces: The parts whose concatenation is the bytes of each value: matrices, or Arrow arrays of binary.
        declined: The rows whose bytes are meaningless.
    """

    pieces: tuple[Matrix | pa.Array, ...]
    declined: Flags

    def join(self) -> pa.Array:
        """Return the bytes of each value as one Arrow array (large_binary, without nulls)."""
        return join_pieces(self.pieces)


def together(parts: Sequence[EncodedColumn], declined: Flags) -> EncodedColumn:
    """Return values that consist of parts; a row is also declined where a part is."""
    for part in parts:
        declined = declined | part.declined
    return EncodedColumn(tuple(piece for part in parts for piece in part.pieces), declined)


def fixed_width(matrix: Matrix) -> pa.Array:
    """Return a matrix as an Arrow array of binary."""
    count, width = matrix.shape
    offsets = np.arange(count + 1, dtype=np.int64) * width
    return binary_of(pa.py_buffer(np.ascontiguousarray(matrix)), offsets)


def binary_of(data: pa.Buffer | None, offsets: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
    """Return the bytes between consecutive offsets as an Arrow array of binary."""
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), data])


def offsets_of(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the offsets of the values of an Arrow array of binary (large_binary) in its data, and the last end."""
    return np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column) + 1]


def number_bytes(values: np.ndarray[Any, Any], form: str) -> Matrix:
    """Return numbers as a matrix of their bytes in the numpy format `form`, such as `>i4`."""
    dtype = np.dtype(form)
    return np.ascontiguousarray(values.astype(dtype)).view(np.uint8).reshape(len(values), dtype.itemsize)


def join_pieces(pieces: Sequence[Matrix | pa.Array]) -> pa.Array:
    """Join pieces row by row; neighbouring matrices are put side by side first."""
    arrays: list[pa.Array] = []
    matrices: list[Matrix] = []
    for piece in pieces:
        if isinstance(piece, np.ndarray):
            matrices.append(piece)
            continue
        if matrices:
            arrays.append(fixed_width(np.hstack(matrices)))
            matrices = []
        arrays.append(piece)
    if matrices:
        arrays.append(fixed_width(np.hstack(matrices)))
    return arrays[0] if len(arrays) == 1 else pc.binary_join_element_wise(*arrays, _NOTHING)


def nulls_of(column: pa.Array) -> Flags:
    """Return which rows are null."""
    return np.asarray(pc.is_null(column).to_numpy(zero_copy_only=False), dtype=bool)


def numbers_of(column: pa.Array) -> np.ndarray[Any, Any]:
    """Return numbers or booleans as a numpy array, nulls as zero."""
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(False if pa.types.is_boolean(column.type) else 0, column.type))
    return np.asarray(column.to_numpy(zero_copy_only=False))


def varints(values: np.ndarray[Any, Any]) -> Matrix | pa.Array:
    """Encode numbers below 2^35 as `read_varint` reads them."""
    if not len(values) or values.max() < 0x80:
        return values.astype(np.uint8).reshape(-1, 1)
    places = np.arange(5) * 7
    digits = values[:, None] >> places & 0x7F
    used = (values[:, None] >> places > 0) | (places == 0)
    more = np.zeros_like(used)
    more[:, :-1] = used[:, 1:]
    data = (digits | more << 7).astype(np.uint8)[used]
    offsets = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(used.sum(axis=1), out=offsets[1:])
    return binary_of(pa.py_buffer(np.ascontiguousarray(data)), offsets)


def spread(values: pa.Array, missing: Flags, filler: bytes) -> pa.Array:
    """Return an array with values in the rows that are not missing, and `filler` in the others."""
    places = np.cumsum(~missing) - 1
    return values.take(pa.array(places, mask=missing)).fill_null(pa.scalar(filler, pa.large_binary()))
