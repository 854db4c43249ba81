"""State: what a stream program declares, and savepoints that hold it."""
