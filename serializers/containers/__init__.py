"""Containers: optional values, lists, sets, maps, arrays, tuples, `Either`, and values with a time to live."""

from ..stored_names import former_names

__getattr__ = former_names(__name__)
