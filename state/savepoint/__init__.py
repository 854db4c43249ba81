"""The byte formats of a savepoint: its files, `_metadata`, and the streams that hold the state."""
