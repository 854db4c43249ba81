"""Proof by real Flink: it restores a savepoint and writes what it has restored, which is compared entry by entry."""
