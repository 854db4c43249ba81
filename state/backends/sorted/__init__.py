"""A backend over any sorted store of bytes: a store is some thirty lines."""
