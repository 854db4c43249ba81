"""Dates, times and points in time, of `java.time`, `java.sql` and `java.util`."""

from ..families import family_of
from ..stored_names import former_names

__getattr__ = former_names(__name__)

FAMILY = family_of(__package__, "rewrites columns strategies hints json_forms sources", snapshots=(".serializers",))
