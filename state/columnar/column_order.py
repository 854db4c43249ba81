"""Encoding of the columns to order by to one binary column that sorts as they do, so all states can be sorted together.

Nulls sort first, as in Spark; NaN last; text by its UTF-8 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...serializers.columns.codec import fixed_width, join_pieces, nulls_of, number_bytes, numbers_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_SIGN = np.uint64(1 << 63)


def can_order(kind: pa.DataType) -> bool:
    """Whether rows can be ordered by columns of this type."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
    )


def order_bytes(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the bytes to sort by; `can_order` must be true for each column's type."""
    pieces: list[Any] = []
    for column in columns:
        pieces.append((~nulls_of(column)).astype(np.uint8).reshape(-1, 1))
        pieces.append(_text(column) if _is_text(column.type) else number_bytes(_ordered(column), ">u8"))
    joined: pa.Array = join_pieces(pieces)
    return joined


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _ordered(column: pa.Array) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Map numbers to unsigned numbers of the same order."""
    if pa.types.is_date32(column.type):
        column = pc.cast(column, pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.int64())
    values = numbers_of(column)
    if not pa.types.is_floating(column.type):
        return np.asarray(values.astype(np.int64).view(np.uint64) ^ _SIGN)
    bits = np.where(np.isnan(values), np.nan, values + 0.0).astype(np.float64).view(np.uint64)  # -0.0 becomes 0.0
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _text(column: pa.Array) -> pa.Array:
    """Return text with an end mark that sorts before any further character; a zero in the text is escaped."""
    data = pc.cast(pc.fill_null(column, ""), pa.large_binary())
    if any(b"\0" in text for text in data.to_pylist()):
        data = pa.array([text.replace(b"\0", b"\0\xff") for text in data.to_pylist()], pa.large_binary())
    return join_pieces([data, fixed_width(np.zeros((len(column), 2), dtype=np.uint8))])
