"""Rows go to the partition of their number, with and without Spark's own call for that (since 4.1)."""

import pytest
from pyspark.sql import functions as f

from stateshift.spark.frames import hashed_to, partitioned_by


class _Older:
    """A DataFrame of Spark 4.0, which has no `repartitionById`."""

    def __init__(self, table):
        self._table = table

    def repartition(self, partitions, column):
        return self._table.repartition(partitions, column)


@pytest.mark.parametrize("wrap", [lambda table: table, _Older], ids=["own", "by hash"])
@pytest.mark.parametrize("partitions", [1, 2, 7, 130])
def test_each_row_is_in_the_partition_of_its_number(spark, wrap, partitions):
    rows = spark.range(3 * partitions).select((f.col("id") % partitions).cast("int").alias("number"))

    placed = partitioned_by(wrap(rows), partitions, rows["number"])

    assert partitions == placed.rdd.getNumPartitions()
    found = placed.select("number", f.spark_partition_id().alias("partition")).collect()
    assert [(number, number) for number in range(partitions) for _ in range(3)] == sorted(map(tuple, found))


def test_the_integers_are_different_and_the_smallest_that_spark_hashes_there():
    assert len(set(hashed_to(1000))) == 1000
    assert hashed_to(1) == (0,)
