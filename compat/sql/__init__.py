"""Queries of Flink SQL: what two compiled plans say of the state of one, and of what the other takes over."""
