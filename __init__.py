"""Change the types of streaming state without losing the state."""

__version__ = "0.1.0"
