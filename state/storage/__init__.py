"""Files on any store, and the identity of places; nothing here knows a format."""
