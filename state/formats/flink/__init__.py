"""The byte formats of Flink's savepoints and checkpoints: `_metadata`, its handles, and the streams that they name."""
