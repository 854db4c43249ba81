"""The bytes and key groups of blocks of keys, whose columns are those of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ...serializers.containers.tuples import TupleSerializer
from ...serializers.errors import located, shown
from ..entry_keys import encode
from ..key_groups import key_group, key_hasher
from .column_bytes import encode_column
from .column_values import python_values
from .every_row import patched
from .key_columns import hash_column, key_groups_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...serializers.serializer import TypeSerializer


def key_column(serializer: TypeSerializer[Any], columns: Sequence[pa.Array]) -> pa.Array:
    """Return the column of the keys: the only one, or a struct of several for a tuple.

    Args:
        serializer: The serializer of the keys.
        columns: The columns of the keys.
    """
    is_whole = len(columns) == 1 and (
        not isinstance(serializer, TupleSerializer) or pa.types.is_struct(columns[0].type)
    )
    if is_whole:
        return columns[0]
    return pa.StructArray.from_arrays(list(columns), names=[str(index) for index in range(len(columns))])


def encoded_keys(
    serializer: TypeSerializer[Any], column: pa.Array, max_parallelism: int
) -> tuple[pa.Array, np.ndarray[Any, np.dtype[np.int32]]]:
    """Return the bytes and the key group of each key of a column without nulls.

    Raises:
        ValueNotConvertible: A key does not fit the serializer.
    """
    encoded = encode_column(serializer, column)
    data = encoded.join()
    groups = key_groups_of(hash_column(serializer, column, data), max_parallelism)
    declined = np.flatnonzero(encoded.declined)
    if len(declined):
        hasher = key_hasher(serializer)
        found = []
        for value in python_values(serializer, column.take(pa.array(declined))):
            with located(key=shown(value), path="key"):
                found.append(encode(serializer, value))
                groups[declined[len(found) - 1]] = key_group(hasher(value), max_parallelism)
        data = patched(data, encoded.declined, found)
    return data, groups
