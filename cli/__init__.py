"""The command line: `stateshift inspect`, `export`, `check`, `migrate`, `verify`."""

import atexit
import gc
import sys

# What is loaded stays: looking for garbage meanwhile, or among it later, takes a tenth of the time that it takes to
# load. Nor is any looked for when the process ends, which gives all of it back.
_was_enabled = gc.isenabled()
gc.disable()
try:
    from .app import main

    gc.freeze()
except KeyboardInterrupt:  # within the first tenths of a second; a trace through imports helps nobody
    from .output import print_notice

    print_notice("", "interrupted.")
    sys.exit(130)
finally:
    if _was_enabled:
        gc.enable()
atexit.register(gc.freeze)

__all__ = ["main"]
