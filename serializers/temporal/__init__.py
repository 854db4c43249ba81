"""Dates, times and points in time, of `java.time`, `java.sql` and `java.util`."""

from ..stored_names import former_names

__getattr__ = former_names(__name__)
