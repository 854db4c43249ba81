"""Types that occur only in Flink's metadata: Kryo, windows, timers, void, and the shared parts of Flink's snapshots."""

from ..families import family_of

FAMILY = family_of(__package__, "columns strategies hints json_forms sources", snapshots=(".opaque", ".namespaces"))
