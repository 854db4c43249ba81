"""The values that a filter of Arrow leaves to a column.

Arrow's expressions cannot be walked, but two things are to be had of them: the constants in them, since a pickled
expression has them as the columns of a batch, and whether rows can fulfil them of which something is known, since
that is how partitions of a dataset are left out. So the constants are taken for the only values of the column, and
then it is asked whether a row with a value between two of them, below or above all of them, or with none, could
fulfil the filter, too. If none can, they are the only ones.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

_MOST_VALUES = 1_000
"""Of more values, nothing is said: for each of them an expression is looked at."""


def values_left(expression: Any, column: str, schema: pa.Schema) -> list[Any] | None:
    """Return the values that rows can have in a column if they fulfil a filter; None where that is not known.

    Args:
        expression: The filter, a `pyarrow.compute.Expression`.
        column: The name of the column.
        schema: The schema of all columns.
    """
    kind = schema.field(column).type
    if not _is_ordered(kind):
        return None
    try:
        values = _constants(expression, kind)
        if len(values) > _MOST_VALUES or not values:
            return None
        field = pc.field(column)
        gaps = [(field > below) & (field < above) for below, above in pairwise(values)]
        others = [field < values[0], field > values[-1], field.is_null(), *gaps]
        if _possible(expression, schema, others):
            return None
        return [value.as_py() for value in values]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return None


def refers_to(expression: Any, column: str, schema: pa.Schema) -> bool:
    """Whether an expression needs a column of a schema."""
    without = pa.schema([field for field in schema if field.name != column])
    try:
        ds.Scanner.from_batches(iter(()), schema=without, columns=[], filter=expression)
    except pa.ArrowInvalid:
        return True
    return False


def _is_ordered(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind))


def _constants(expression: Any, kind: pa.DataType) -> list[pa.Scalar]:
    """Return the constants of an expression that can be values of a type, ascending."""
    _, (pickled,) = expression.__reduce__()
    batch = pa.ipc.open_file(pickled).get_batch(0)
    found: set[Any] = set()
    for column in batch.columns:
        if pa.types.is_struct(column.type):  # the options of a function
            sets = [column.field(at) for at, field in enumerate(column.type) if field.name == "value_set"]
            found |= {one for values in sets for one in _cast(values.flatten(), kind)}
        else:
            found |= {*_cast(column, kind)}
    return [pa.scalar(one, kind) for one in sorted(found)]


def _cast(column: pa.Array, kind: pa.DataType) -> list[Any]:
    try:
        return [one for one in column.cast(kind).to_pylist() if one is not None]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return []


def _possible(expression: Any, schema: pa.Schema, known: list[Any]) -> bool:
    """Whether a row could fulfil an expression of which one of some things is known."""
    form, system = ds.ParquetFileFormat(), fs.LocalFileSystem()
    parts = [form.make_fragment(str(at), filesystem=system, partition_expression=one) for at, one in enumerate(known)]
    return any(True for _ in ds.FileSystemDataset(parts, schema, form, system).get_fragments(expression))
