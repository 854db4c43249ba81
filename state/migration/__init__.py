"""The engine-independent part of a migration: its tasks, what each task writes, and the publication of the results."""
