"""Where savepoints lie, and how one comes to be: files on any store, the lock of a target, publication, lineage."""
