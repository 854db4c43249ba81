"""Functions with keyed state on Spark Structured Streaming."""
