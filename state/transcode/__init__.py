"""Transcoding of blocks of old entries to blocks of new entries: the framing, the executors, and the factory."""
