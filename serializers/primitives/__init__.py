"""Primitives: numbers, booleans, strings and chars."""
