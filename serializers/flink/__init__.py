"""What only Flink's metadata names: Kryo, windows, timers, void, and the parts that its snapshots share."""
