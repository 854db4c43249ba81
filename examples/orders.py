"""A query of plain PySpark and two changes of it: `spark_demo.py` runs them in a folder with orders in files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as its users write it

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SCHEMA = "shop string, paid bigint, refunded bigint, tip bigint"


def orders(spark: SparkSession) -> DataFrame:
    """Return the stream of orders."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json("orders")


def totals(spark: SparkSession) -> DataStreamWriter:
    """Return the query of last year."""
    of_shops = orders(spark).groupBy("shop").agg(F.sum("paid").alias("paid"), F.sum("refunded").alias("refunded"))
    return of_shops.writeStream.outputMode("update")


def exchanged(spark: SparkSession) -> DataStreamWriter:
    """Return the same query after a clean-up: the two sums have changed places."""
    of_shops = orders(spark).groupBy("shop").agg(F.sum("refunded").alias("refunded"), F.sum("paid").alias("paid"))
    return of_shops.writeStream.outputMode("update")


def with_tip(spark: SparkSession) -> DataStreamWriter:
    """Return the query with one aggregate more; orders have tips since today."""
    of_shops = (
        orders(spark)
        .groupBy("shop")
        .agg(F.sum("paid").alias("paid"), F.sum("refunded").alias("refunded"), F.max("tip").alias("best_tip"))
    )
    return of_shops.writeStream.outputMode("update")
