"""Types that occur only in Flink's metadata: Kryo, windows, timers, void, and the shared parts of Flink's snapshots."""
