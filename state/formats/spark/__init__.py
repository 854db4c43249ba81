"""The byte formats of Spark's checkpoints: logs, state stores of both providers, and what they say of their types."""
