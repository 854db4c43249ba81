"""Values within values: optional ones, lists, sets, maps, arrays, tuples, one of two, and those with a time stamp."""

from ..stored_names import former_names

__getattr__ = former_names(__name__)
