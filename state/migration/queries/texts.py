"""Values as bytes that equal values have alone, for comparisons: made by Arrow, and not by the encoders of a copy.

text     size in digits, `:`, content; or `-` for null
content  of a number its digits; of a struct, an array or a map the texts of its parts, one after the other
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....serializers.spark_rows.row_encoder import offsets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTEGERS = {4: pa.int32(), 8: pa.int64()}
_NULL = b"-"


def texts_of(column: pa.Array) -> Sequence[bytes]:
    """Return the text of each value; names of fields do not count."""
    found: Sequence[bytes] = _texts(column).to_pylist()
    return found


def _texts(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_null(kind):
        return pa.array([_NULL] * len(column), pa.binary())
    if pa.types.is_struct(kind):
        parts = [_texts(one) for one in column.flatten()] or [pa.array([b""] * len(column), pa.binary())]
        contents = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, b"")
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        contents = _joined(column)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        contents = column.cast(pa.binary())
    elif pa.types.is_temporal(kind) and kind != pa.month_day_nano_interval():
        contents = column.cast(_INTEGERS[kind.bit_width // 8]).cast(pa.string()).cast(pa.binary())
    else:
        contents = _scalars(column)
    sizes = pc.binary_length(contents).cast(pa.string()).cast(pa.binary())
    framed = pc.binary_join_element_wise(sizes, contents, b":")
    return pc.if_else(column.is_valid(), framed, pa.scalar(_NULL, pa.binary()))


def _scalars(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.string()).cast(pa.binary())
    except pa.ArrowNotImplementedError:  # intervals of months, days and nanoseconds
        return pa.array([repr(one).encode() for one in column.to_pylist()], pa.binary())


def _joined(column: pa.Array) -> pa.Array:
    offsets = offsets_of(column)
    inner = _texts(column.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0])))
    starts = pa.py_buffer((offsets - offsets[0]).astype(np.int32))
    lists = pa.Array.from_buffers(pa.list_(pa.binary()), len(column), [None, starts], children=[inner])
    return pc.binary_join(lists, b"")
