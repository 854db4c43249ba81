"""Formats in which engines store state, one folder each; none imports another."""
