"""The publication of new savepoints: the lock of a target, names of files, lineage, and `_metadata` last."""
