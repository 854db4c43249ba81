"""Savepoints as a whole: read, measured, compared, verified, and written without Spark."""
