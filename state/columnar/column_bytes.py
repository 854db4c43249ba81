"""Encoding of columns of values to the bytes that their serializers write, a block at a time.

Rows that no codec encodes by the block are written one by one by the serializer itself, which also raises the errors.

numpy comes with the extra `spark`; nothing else imports this module. Source: performance notes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ...serializers.columns.codec import EncodedColumn
from ...serializers.errors import StateShiftError, ValueNotConvertible, cause_text, shown
from ..entry_keys import encode
from .column_values import listed, value_reader
from .json_codec import all_codecs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...serializers.columns.codec import ColumnCodec
    from ...serializers.serializer import TypeSerializer


def encode_column(serializer: TypeSerializer[Any], column: pa.Array) -> EncodedColumn:
    """Encode a block of values.

    Args:
        serializer: The serializer of the values. For a record or tuple, `column` is a struct.
        column: The values; `column_types.mismatches` has accepted its type.
    """
    return all_codecs().of(serializer).encode(column, _one_by_one)


def encode_values(serializer: TypeSerializer[Any], column: pa.Array, rows: Sequence[int]) -> list[bytes]:
    """Encode some rows with the serializer itself; its errors get the row as `error.row`."""
    read = value_reader(all_codecs().of(serializer))
    found = []
    for row, value in zip(rows, listed(column.take(pa.array(rows, pa.int64()))), strict=True):
        try:
            found.append(_written(serializer, read, value))
        except StateShiftError as error:
            error.row = row  # type: ignore[attr-defined]  # read by the caller, which knows the row's key
            raise
    return found


def _written(serializer: TypeSerializer[Any], read: Callable[[Any], Any], value: Any) -> bytes:
    """Encode one value; an exception of a user's serializer becomes a `ValueNotConvertible`."""
    try:
        return encode(serializer, read(value))
    except StateShiftError:
        raise
    except Exception as error:
        raise ValueNotConvertible(
            f"{shown(value)} cannot be written: {cause_text(error)}",
            advice="fix the serializer, or pass a value that it accepts with value=<a function of the row>",
        ) from error


def _one_by_one(codec: ColumnCodec, column: pa.Array) -> EncodedColumn:
    declined = np.zeros(len(column), dtype=bool)
    found = []
    read = value_reader(codec)
    for row, value in enumerate(listed(column)):
        try:
            found.append(_written(codec.serializer, read, value))
        except StateShiftError:  # raised again, with the key, when the row is written alone
            declined[row] = True
            found.append(b"")
    return EncodedColumn((pa.array(found, pa.large_binary()),), declined)
