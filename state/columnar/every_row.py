"""Encoding of columns in which every row must have a valid value.

Blocks are encoded at once, declined rows one by one by the serializer itself, which also checks each block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...serializers.columns.codec import nulls_of
from ...serializers.containers.wrappers import OptionalSerializer
from ...serializers.errors import MigrationFailed, StateShiftError, ValueNotConvertible, shown
from ..entry_keys import decode, encode
from ..transcode.objects import SEPARATOR
from .column_bytes import encode_column, encode_values

if TYPE_CHECKING:
    from ...serializers.serializer import TypeSerializer


def required(serializer: TypeSerializer[Any], column: pa.Array, name: str = "") -> pa.Array:
    """Encode a column as a block, and its declined rows one by one; an error has the row as `error.row`."""
    if not isinstance(serializer, OptionalSerializer):
        refuse_null(column, name)
    encoded = encode_column(serializer, column)
    data = encoded.join()
    declined = np.flatnonzero(encoded.declined)
    if len(declined):
        data = patched(data, encoded.declined, encode_values(serializer, column, declined.tolist()))
    _prove(serializer, column, data)
    return data


def encode_lists(serializer: TypeSerializer[Any], column: pa.Array, name: str) -> pa.Array:
    """Encode arrays as list state stores them: elements with separators; null for an empty array (no entry)."""
    refuse_null(column, name)
    if not len(column) or not pc.any(pc.greater(pc.list_value_length(column), 0)).as_py():
        return pa.nulls(len(column), pa.large_binary())
    try:
        elements = required(serializer, pc.list_flatten(column), name)
    except StateShiftError as error:
        element = error.__dict__.pop("row", None)
        if element is not None:
            error.row = pc.list_parent_indices(column)[element].as_py()  # type: ignore[attr-defined]
        error.where["path"] = "$[]" + str(error.where.get("path", "")).removeprefix("$")
        raise
    sizes = pc.list_value_length(column).to_numpy().astype(np.int64)
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int64())
    lists = pa.LargeListArray.from_arrays(offsets, elements)
    return pc.replace_with_mask(
        pc.binary_join(lists, pa.scalar(SEPARATOR, pa.large_binary())),
        pa.array(sizes == 0),
        pa.scalar(None, pa.large_binary()),
    )


def _prove(serializer: TypeSerializer[Any], column: pa.Array, data: pa.Array) -> None:
    """Check that the serializer writes the first value of a block as the same bytes, and reads them (rule RUN-7)."""
    written = encode_values(serializer, column, [0])[0]
    read = decode(serializer, written)
    if written != data[0].as_py() or encode(serializer, read) != written:
        raise MigrationFailed(
            f"a block was written as {shown(data[0].as_py().hex())}, but its serializer reads and writes "
            f"{shown(written.hex())}",
            rule="RUN-7",
            advice="make the serializer deterministic; if it is not yours, report a bug: nothing is published",
        )


def refuse_null(column: pa.Array, name: str) -> None:
    """Raise if a column has a null; the error has the row as `error.row`."""
    if not column.null_count:
        return
    what = f" in the column {name!r}" if name else ""
    error = ValueNotConvertible(
        f"there is a null{what}, but the type is not optional",
        advice="remove such rows with dropna, or declare the type optional (T | None)",
    )
    error.row = int(np.flatnonzero(nulls_of(column))[0])  # type: ignore[attr-defined]  # read by the caller
    raise error


def patched(data: pa.Array, mask: np.ndarray[Any, np.dtype[np.bool_]], found: list[bytes]) -> pa.Array:
    """Return an array with the values under a mask replaced by `found`."""
    return pc.replace_with_mask(data, pa.array(mask), pa.array(found, pa.large_binary()))
