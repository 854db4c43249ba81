"""DataFrames: their schemas in Arrow, and their rows in numbered partitions."""

from __future__ import annotations

import struct
from functools import cache
from inspect import signature
from itertools import count
from typing import TYPE_CHECKING, Any

import mmh3

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

_SPARK_SEED = 42


def partitioned_by(table: DataFrame, partitions: int, number: Column) -> DataFrame:
    """Return the rows in `partitions` partitions, each row in that of its number.

    Args:
        table: The rows.
        partitions: The number of partitions.
        number: An integer column with numbers from 0 to less than `partitions`.
    """
    if hasattr(table, "repartitionById"):  # since Spark 4.1
        return table.repartitionById(partitions, number)
    from pyspark.sql import functions

    stand_ins = functions.array(*map(functions.lit, hashed_to(partitions)))
    return table.repartition(partitions, stand_ins[number])


@cache
def hashed_to(partitions: int) -> tuple[int, ...]:
    """Return for each partition an integer that Spark's hash partitioning sends there."""
    found: dict[int, int] = {}
    for number in count():
        found.setdefault(partition_of(number, partitions), number)
        if len(found) == partitions:
            return tuple(found[partition] for partition in range(partitions))
    raise AssertionError("every remainder is found")


def partition_of(number: int, partitions: int) -> int:
    """Return Spark's partition of the group of an integer column."""
    return int(mmh3.hash(struct.pack("<i", number), _SPARK_SEED) % partitions)


def arrow_columns(columns: str) -> pa.Schema:
    """Return the Arrow schema of columns that are given as Spark takes them: `name type, name type`."""
    import pyarrow as pa

    kinds = {"int": pa.int32(), "long": pa.int64(), "binary": pa.binary()}
    return pa.schema([(name, kinds[kind]) for name, kind in map(str.split, columns.split(", "))])


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema in which a DataFrame's batches arrive; times are in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Before Spark 4.3 times are in UTC by default, and there is no such argument.
    in_utc: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    converted: pa.Schema = to_arrow_schema(schema, **in_utc)
    return converted
