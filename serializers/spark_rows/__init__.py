"""Rows of Spark: their types, their bytes (`UnsafeRow`, Avro), and the rules by which their fields pair."""
