"""The command line: `stateshift inspect`, `export`, `check`, `migrate`, `verify`."""

import gc

# What is loaded stays: looking for garbage meanwhile takes a tenth of the time that it takes to load.
_was_enabled = gc.isenabled()
gc.disable()
try:
    from .app import main
finally:
    if _was_enabled:
        gc.enable()

__all__ = ["main"]
