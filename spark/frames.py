"""The placing of rows in numbered partitions."""

from __future__ import annotations

import struct
from functools import cache
from itertools import count
from typing import TYPE_CHECKING

import mmh3

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
    """Return an integer for each partition, by which Spark's hash partitioning chooses that partition."""
    found: dict[int, int] = {}
    for number in count():
        found.setdefault(mmh3.hash(struct.pack("<i", number), _SPARK_SEED) % partitions, number)
        if len(found) == partitions:
            return tuple(found[partition] for partition in range(partitions))
    raise AssertionError("every remainder is found")
