"""Compiled plans of Flink SQL: the operators that they describe, and the time to live of their state."""
