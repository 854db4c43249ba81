"""Savepoints on Spark: the thin edge that knows pyspark."""
