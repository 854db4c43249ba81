"""The command line: `stateshift inspect`, `export`, `check`, `migrate`, `verify`."""

from .app import main

__all__ = ["main"]
