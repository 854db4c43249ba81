"""The state that a stream program declares, and the savepoints that hold it."""
