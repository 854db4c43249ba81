"""Statistics of the entries of savepoints and checkpoints, made in one pass."""
