"""Streaming queries compared: what a query keeps in its state, and what it computes that from."""
