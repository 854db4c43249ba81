"""Objects to bytes and back, and a versioned description of how (the snapshot).

The snapshots of all built-in families are known to whoever reads a savepoint: the registry loads them when it is asked.
"""
