"""Storage of savepoints: files on any store, the lock of a target, publication, lineage."""
