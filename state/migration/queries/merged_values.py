"""Values of keys that became equal, merged by a rule for each field: `sum`, `min` or `max`; nulls do not count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....serializers.errors import IncompatibleState, cause_text
from ....serializers.spark_rows.row_encoder import encode_rows, longs_of, rows_of
from ....serializers.spark_rows.rows import arrow_type, decode_rows
from .texts import texts_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ....serializers.spark_rows.spark_types import SparkType

_LARGEST = 1 << 63


def merge_values(
    values: Sequence[bytes], groups: Sequence[int], of: SparkType, rules: Mapping[str, str]
) -> Sequence[bytes]:
    """Merge rows of values as `merge_columns` does."""
    return rows_of(encode_rows(merge_columns(decode_rows(values, of), groups, of, rules), of))


def merge_columns(
    rows: pa.StructArray, groups: Sequence[int], of: SparkType, rules: Mapping[str, str]
) -> pa.StructArray:
    """Merge the values of each group.

    Args:
        rows: The values.
        groups: The group of each, numbered in the order in which groups first occur.
        of: The type of the values.
        rules: The rule of each field, by its path.

    Raises:
        IncompatibleState: Values cannot be merged so.
    """
    count = max(groups) + 1
    columns = []
    for index, (name, field) in enumerate(zip(of.names, of.fields, strict=True)):
        if field.type.word == "void":
            columns.append(pa.nulls(count))
            continue
        rule = rules.get(f"value.{name}", "")
        if not rule:
            raise IncompatibleState(
                f"keys became equal, and values of {field.type.describe()} cannot be merged by any rule",
                path=f"value.{name}",
                advice="keep the field of the key that tells them apart, or start with a new checkpoint",
            )
        try:
            columns.append(_merged(rows.field(index), longs_of(np.asarray(groups)), rule, arrow_type(field.type)))
        except pa.ArrowException as error:
            raise IncompatibleState(
                f"values of {field.type.describe()} cannot be merged by {rule}: {cause_text(error)}",
                path=f"value.{name}",
                advice="name another rule",
            ) from error
    fields = [pa.field(name, column.type) for name, column in zip(of.names, columns, strict=True)]
    return pa.Array.from_buffers(pa.struct(fields), count, [None], children=columns)


def equal_keys(keys: pa.StructArray) -> tuple[list[int], NDArray[np.int64]]:
    """Return the group of each key, numbered in the order in which they first occur, and the first key of each."""
    number: dict[bytes, int] = {}
    groups = [number.setdefault(key, len(number)) for key in texts_of(keys)]
    return groups, np.unique(np.asarray(groups), return_index=True)[1]


def _merged(column: pa.Array, groups: pa.Array, rule: str, kind: pa.DataType) -> pa.Array:
    options = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)
    table = pa.table({"group": groups, "value": column})
    found = table.group_by("group", use_threads=False).aggregate([("value", rule, options)]).sort_by("group")
    result = found[f"value_{rule}"].combine_chunks()
    if rule == "sum" and pa.types.is_integer(kind):
        about = pa.table({"group": table["group"], "value": column.cast(pa.float64(), safe=False)})
        sums = about.group_by("group", use_threads=False).aggregate([("value", "sum")])["value_sum"]
        if (pc.max(pc.abs(sums)).as_py() or 0) >= _LARGEST:
            raise pa.ArrowInvalid("a sum is too large for the type")
    return result.cast(kind)
