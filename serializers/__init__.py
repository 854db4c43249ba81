"""Objects to bytes and back, and a versioned description of how (the snapshot)."""
