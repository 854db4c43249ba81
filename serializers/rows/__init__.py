"""Flink's rows: columns by position, with or without names."""

from ..stored_names import former_names

__getattr__ = former_names(__name__)
